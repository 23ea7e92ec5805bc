"""The noise scale of a forecast: its root mean square residual, kept within bounds (step (d) of `alg:general`).

sigma^2 = min(high^2, max(low^2, sum_i w_i r_i^2 / sum_i w_i)).
"""

import numpy as np

from gatewise.arrays import Floats
from gatewise.stats import clip_scale, root_mean_square


def clipped_scale(residuals: Floats, low: float, high: float, weights: Floats | None = None) -> Floats:
    """One scale for every column of residuals (n, ...): the root mean square over rows, clipped to [low, high].

    >>> clipped_scale(np.array([[1.0, 3.0], [-1.0, 3.0]]), 0.1, 1.5)
    array([1. , 1.5])
    """
    return clip_scale(root_mean_square(residuals, weights), low, high)


def check_bounds(bounds: tuple[float, float], name: str = "bounds") -> tuple[float, float]:
    """The bounds (low, high) of a scale as numbers, or an error that names them."""
    low, high = (float(bound) for bound in bounds)
    if not 0.0 < low <= high < np.inf:
        raise ValueError(f"{name} must satisfy 0 < low <= high < inf for the noise scale; got ({low}, {high})")
    return low, high
