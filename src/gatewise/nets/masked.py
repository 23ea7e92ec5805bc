"""A net of which some candidates are left out."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gatewise.nets.net import Net


class MaskedNet(Net):
    """The candidates of ``net`` where ``mask`` (S,) is true; numbers and product structure stay those of ``net``.

    >>> from gatewise.nets import ListNet
    >>> net = MaskedNet(ListNet(np.arange(3.0).reshape(3, 1, 1)), [True, False, True])
    >>> net.size, net.n_allowed
    (3, 2)
    """

    def __init__(self, net: Net, mask: ArrayLike) -> None:
        self.net = net
        self.mask = np.asarray(mask, dtype=bool)
        self.theta_shape = net.theta_shape
        if self.mask.shape != (net.size,):
            raise ValueError(f"mask must have shape ({net.size},), not {self.mask.shape}")
        if not self.mask.any():
            raise ValueError("no candidate of the net is left; loosen the condition")

    @property
    def size(self) -> int:
        return self.net.size

    @property
    def n_allowed(self) -> int:
        """How many candidates are left."""
        return int(self.mask.sum())

    def theta(self, indices: ArrayLike) -> NDArray[np.float64]:
        return self.net.theta(indices)

    def allowed(self) -> NDArray[np.bool_]:
        return self.mask

    def __repr__(self) -> str:
        return f"MaskedNet({self.net!r}, allowed={self.n_allowed:,})"
