"""Intervals and the control of false discoveries: what every diagnostic states its uncertainty with."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from gatewise.arrays import Floats


class Interval(NamedTuple):
    """An estimate and its interval."""

    value: float
    low: float
    high: float


def mean_interval(values: Floats, level: float = 0.95) -> Interval:
    """Student's interval of a mean, mean +- t_{n-1} s / sqrt(n); the whole line below two values.

    >>> [round(number, 3) for number in mean_interval(np.array([0.0, 2.0]))]
    [1.0, -11.706, 13.706]
    """
    if len(values) < 2:
        return Interval(float(values.mean()) if len(values) else np.nan, -np.inf, np.inf)
    half = special.stdtrit(len(values) - 1, 0.5 + level / 2) * values.std(ddof=1) / np.sqrt(len(values))
    return Interval(float(values.mean()), float(values.mean() - half), float(values.mean() + half))


def share_bounds(count: ArrayLike, n: int, level: float = 0.95) -> tuple[Floats, Floats]:
    """Clopper and Pearson's exact bounds of a probability after ``count`` successes in n trials.

    >>> low, high = share_bounds([0, 5], 10)
    >>> low.round(4), high.round(4)
    (array([0.    , 0.1871]), array([0.3085, 0.8129]))
    """
    hits, tail = np.asarray(count, dtype=np.float64), (1.0 - level) / 2
    # The inverse beta function is undefined at the ends, where the bound is 0 or 1.
    low = np.where(hits > 0, special.betaincinv(np.maximum(hits, 1), n - hits + 1, tail), 0.0)
    high = np.where(hits < n, special.betaincinv(hits + 1, np.maximum(n - hits, 1), 1 - tail), 1.0)
    return low, high


def adjusted_p_values(p_values: ArrayLike) -> Floats:
    """Benjamini and Yekutieli's adjusted p-values: min over larger ranks k of p_(k) M H_M / k.

    Calling those at most alpha discoveries keeps the false discovery rate at alpha whatever the dependence, and
    so the probability of any discovery at alpha where there is nothing to discover.

    >>> adjusted_p_values([0.01, 0.5]).round(3)
    array([0.03, 0.75])
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p)
    ranks = np.arange(1, p.size + 1)
    scaled = p[order] * p.size * (1.0 / ranks).sum() / ranks
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1.0)
    return adjusted


def root_mean_square(values: Floats, weights: Floats | None = None) -> Floats:
    """The root of the mean square of every column of values (n,) or (n, S), with weights (n,) on the rows.

    >>> root_mean_square(np.array([[3.0, 0.0], [4.0, 1.0]]), np.array([1.0, 1.0])).round(3)
    array([3.536, 0.707])
    """
    squares = np.mean(values**2, axis=0) if weights is None else weights @ values**2 / weights.sum()
    return np.asarray(np.sqrt(squares))
