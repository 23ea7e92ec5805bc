"""An expert that is affine in x."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gatewise.arrays import as_rows


@dataclass(frozen=True)
class AffineExpert:
    """f(x) = intercept + slope . x.

    >>> AffineExpert(slope=(2.0, -1.0), intercept=2.0).predict([[1.0, 1.0]])
    array([3.])
    """

    slope: tuple[float, ...]
    intercept: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "slope", tuple(map(float, self.slope)))

    def predict(self, X: Any) -> NDArray[np.float64]:
        """f at every row of X, (n,)."""
        rows = as_rows(X)
        if rows.shape[1] != len(self.slope):
            raise ValueError(f"X must have {len(self.slope)} columns, one per slope, not {rows.shape[1]}")
        prediction: NDArray[np.float64] = rows @ np.asarray(self.slope) + self.intercept
        return prediction
