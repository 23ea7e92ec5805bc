"""The measure of the L2 projection: the rows of the fit, given points, or Lebesgue measure on a box."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import qmc

from gatewise.arrays import as_count, as_vector, Floats


@dataclass(frozen=True)
class L2Projection:
    """Step (f) of `alg:general`: the nearest candidate in L2, and the measure behind that norm (`remark3.2`).

    With neither ``points`` nor ``box`` the distance is a mean over the rows of the fit and their copies; with
    ``points`` (Q, d) it is a mean over these points. ``box=(low, high)`` is Lebesgue measure on a box, by
    ``n_points`` quadrature points: a product Gauss-Legendre rule in up to three dimensions, a Sobol sequence beyond.

    >>> points, weights = L2Projection(box=(-1.0, 1.0), n_points=100).rule(np.zeros((1, 2)))
    >>> bool(np.isclose(weights @ points[:, 0] ** 2, 1 / 3))
    True
    """

    points: Any = None
    box: tuple[ArrayLike, ArrayLike] | None = None
    n_points: int = 4096

    def __post_init__(self) -> None:
        if self.points is not None and self.box is not None:
            raise ValueError("an L2 projection takes points or box, not both")
        as_count(self.n_points, "n_points")

    def rule(self, X: Any, copies: Floats | None = None) -> tuple[Any, Floats]:
        """The points at which gates are compared and their weights, with sum one.

        X are the rows of the fit, and copies (n,) says how many copies of it each counts as; one, if None.
        """
        if self.box is not None:
            return _box_rule(*self.box, np.shape(X)[1], self.n_points)
        if self.points is None and copies is not None:
            return X, copies / copies.sum()
        points = X if self.points is None else self.points
        n = np.shape(points)[0]
        return points, np.full(n, 1.0 / n)


def _box_rule(low: ArrayLike, high: ArrayLike, d: int, n_points: int) -> tuple[Floats, Floats]:
    lows = as_vector(np.broadcast_to(np.asarray(low, dtype=np.float64), d), "box[0]")
    highs = as_vector(np.broadcast_to(np.asarray(high, dtype=np.float64), d), "box[1]")
    if not (lows < highs).all():
        raise ValueError(f"box must be (low, high) with low below high, not {lows} and {highs}")
    if d > 3:
        unit = qmc.Sobol(d, scramble=False).random(2 ** max(0, round(np.log2(n_points))))
        return lows + (highs - lows) * unit, np.full(len(unit), 1.0 / len(unit))
    nodes, weights = np.polynomial.legendre.leggauss(max(1, round(n_points ** (1 / d))))
    grid = np.stack([axis.ravel() for axis in np.meshgrid(*[nodes] * d, indexing="ij")], axis=1)
    area = np.prod(np.stack(np.meshgrid(*[weights / 2] * d, indexing="ij")), axis=0).ravel()
    return lows + (highs - lows) * (grid + 1) / 2, area
