"""Ratios of mean errors over replications, with one-sided confidence bounds."""

from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from gatewise.arrays import Floats


class Ratio(NamedTuple):
    """A quotient of two means over paired replications, and its lower and upper 95 % confidence bound, each alone."""

    value: float
    low: float
    high: float


def mean_ratio(above: Floats, below: Floats) -> Ratio:
    """mean(above) / mean(below) of paired values (reps,), with bounds by the delta method and Student's quantile.

    >>> [round(number, 3) for number in mean_ratio(np.array([1.0, 2.0, 3.0]), np.array([2.0, 4.0, 6.0]))]
    [0.5, 0.5, 0.5]
    """
    value = float(above.mean() / below.mean())
    influence = (above - value * below) / below.mean()
    error = influence.std(ddof=1) / np.sqrt(len(above))
    half = float(stdtrit(len(above) - 1, 0.95) * error)
    return Ratio(value, value - half, value + half)
