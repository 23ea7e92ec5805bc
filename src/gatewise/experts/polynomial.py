"""An expert that is a polynomial in x."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gatewise.arrays import as_rows


@dataclass(frozen=True)
class PolynomialExpert:
    """f(x) = sum_c coefficient_c prod_j x_j^power_cj, one row of powers per coefficient.

    The powers are those of scikit-learn's ``PolynomialFeatures(...).powers_``.

    >>> PolynomialExpert(coefficients=(1.0, -3.0), powers=((0, 0), (1, 2))).predict([[2.0, 3.0]])  # 1 - 3 x y^2
    array([-53.])
    """

    coefficients: tuple[float, ...]
    powers: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "coefficients", tuple(map(float, self.coefficients)))
        object.__setattr__(self, "powers", tuple(tuple(map(int, row)) for row in self.powers))
        if len(self.coefficients) != len(self.powers):
            raise ValueError(
                f"powers must have one row per coefficient, {len(self.coefficients)}, not {len(self.powers)}"
            )
        if len({len(row) for row in self.powers}) != 1 or any(p < 0 for row in self.powers for p in row):
            raise ValueError("powers must be rows of one length, of whole numbers from 0 on")

    def predict(self, X: Any) -> NDArray[np.float64]:
        """f at every row of X, (n,)."""
        rows = as_rows(X)
        if rows.shape[1] != len(self.powers[0]):
            raise ValueError(f"X must have {len(self.powers[0])} columns, one per power, not {rows.shape[1]}")
        total = np.zeros(len(rows))
        for coefficient, powers in zip(self.coefficients, self.powers, strict=True):
            total += coefficient * np.prod(rows ** np.asarray(powers), axis=1)
        return total
