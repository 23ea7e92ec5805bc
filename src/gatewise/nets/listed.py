"""An explicit list of parameters."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gatewise.nets.net import Net


class ListNet(Net):
    """The candidates of an array (S, rows, columns).

    >>> ListNet(np.zeros((5, 2, 3))).size
    5
    """

    def __init__(self, thetas: ArrayLike) -> None:
        self.thetas = np.ascontiguousarray(thetas, dtype=np.float64)
        if self.thetas.ndim != 3 or len(self.thetas) == 0:
            raise ValueError(f"thetas must have shape (S, rows, columns) with S >= 1, not {self.thetas.shape}")
        if not np.isfinite(self.thetas).all():
            raise ValueError("thetas must be finite, but they hold a NaN or an infinity")
        self.theta_shape = self.thetas.shape[1:]

    @property
    def size(self) -> int:
        return len(self.thetas)

    def theta(self, indices: ArrayLike) -> NDArray[np.float64]:
        return np.asarray(self.thetas[self._check_indices(indices)])

    def __repr__(self) -> str:
        return f"ListNet(S={self.size:,}, theta_shape={self.theta_shape})"
