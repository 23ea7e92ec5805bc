"""The noise scale of a forecast: its root mean square residual, kept within bounds (step (d) of `alg:general`).

sigma^2 = min(high^2, max(low^2, sum_i w_i r_i^2 / sum_i w_i)).
"""

import numpy as np

from gatewise.arrays import Floats

SAFE = (1e-280, 1e280)  # mean squares between these came from squares that neither overflow nor underflow


def clipped_scale(residuals: Floats, low: float, high: float, weights: Floats | None = None) -> Floats:
    """One scale for every column of residuals (n, ...): the root mean square over rows, clipped to [low, high].

    >>> clipped_scale(np.array([[1.0, 3.0], [-1.0, 3.0]]), 0.1, 1.5)
    array([1. , 1.5])
    """
    return clip_scale(root_mean_square(residuals, weights), low, high)


def clip_scale(sigma: Floats, low: float, high: float) -> Floats:
    """Root mean squares sigma, clipped to [low, high]."""
    return np.asarray(np.clip(sigma, low, high))


def root_mean_square(residuals: Floats, weights: Floats | None = None) -> Floats:
    """The root of the mean, by the weights (n,) if given, of squared residuals (n, ...) over the rows.

    Right also where the squares of huge or tiny residuals would be infinite or zero.

    >>> (root_mean_square(np.array([3e200, 4e200])) / 1e200).round(2)
    np.float64(3.54)
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        mean = _mean_square(residuals, weights)
        if ((mean > SAFE[0]) & (mean < SAFE[1])).all():
            return np.sqrt(mean)
        number = np.finfo(np.float64)
        unit = np.clip(np.abs(residuals).max(axis=0, initial=0.0), number.tiny, number.max)
        return np.asarray(unit * np.sqrt(_mean_square(residuals / unit, weights)))


def check_bounds(bounds: tuple[float, float], name: str = "bounds") -> tuple[float, float]:
    """The bounds (low, high) of a scale as numbers, or an error that names them."""
    low, high = (float(bound) for bound in bounds)
    if not 0.0 < low <= high < np.inf:
        raise ValueError(f"{name} must satisfy 0 < low <= high < inf for the noise scale; got ({low}, {high})")
    return low, high


def _mean_square(residuals: Floats, weights: Floats | None) -> Floats:
    squares = np.square(residuals)
    if weights is None:
        return np.asarray(squares.mean(axis=0))
    return np.asarray(weights @ squares / weights.sum())
