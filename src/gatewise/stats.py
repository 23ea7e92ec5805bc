"""Standard errors, quantiles, intervals and adjusted p-values, used by all other parts of the package."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from gatewise.arrays import as_between, as_vector, Booleans, Floats, Indices

SAFE_SQUARES = (1e-280, 1e280)  # means of squares that neither overflow nor underflow


class Interval(NamedTuple):
    """An estimate and its interval."""

    value: float
    low: float
    high: float


def mean_and_error(values: Floats, weights: Floats | None = None) -> tuple[float, float]:
    """The mean of values (n,) under weights (n,), equal unless given, and its standard error.

    With the weights w scaled to sum one, mean = sum_i w_i v_i and
    error^2 = sum_i w_i^2 (v_i - mean)^2 / (1 - sum_i w_i^2), which is s^2 / n for equal weights. The error is
    infinite where one value has all the weight, as a single value gives no estimate of the deviation.

    >>> mean_and_error(np.array([0.0, 2.0]))
    (1.0, 1.0)
    >>> mean_and_error(np.array([0.0, 2.0, 5.0]), np.array([1.0, 1.0, 0.0]))
    (1.0, 1.0)
    """
    if weights is None:
        error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.inf
        return float(values.mean()), float(error)
    share = weights / weights.sum()
    mean, rest = float(share @ values), 1.0 - float(share @ share)
    if rest <= 1e-12:
        return mean, float("inf")
    return mean, float(np.sqrt(share**2 @ (values - mean) ** 2 / rest))


def weighted_quantile(values: Floats, weights: Floats, level: float) -> float:
    """The ``level`` quantile of values (n,) under weights (n,).

    It is the smallest value such that the values up to it have at least the fraction ``level`` of the weight.

    >>> weighted_quantile(np.array([3.0, 1.0, 2.0]), np.array([1.0, 1.0, 2.0]), 0.75)
    2.0
    """
    order = np.argsort(values)
    reached = np.cumsum(weights[order]) / weights.sum()
    return float(values[order][min(int(np.searchsorted(reached, level)), len(values) - 1)])


def student_interval(value: float, error: float, freedom: float, level: float = 0.95) -> Interval:
    """value +- t error, where t is the two-sided quantile of Student's t with ``freedom`` degrees of freedom.

    >>> [round(number, 3) for number in student_interval(1.0, 1.0, freedom=1)]
    [1.0, -11.706, 13.706]
    """
    half = float(special.stdtrit(freedom, 0.5 + level / 2)) * error
    return Interval(value, value - half, value + half)


def mean_interval(values: Floats, level: float = 0.95, weights: Floats | None = None) -> Interval:
    """Student's interval of a mean, mean +- t_{n-1} s / sqrt(n); infinite ends for fewer than two values.

    With weights (n,) mean and standard error are those of `mean_and_error`, and values without weight do not count.

    >>> [round(number, 3) for number in mean_interval(np.array([0.0, 2.0]))]
    [1.0, -11.706, 13.706]
    """
    if not (isinstance(level, float) and 0.0 < level < 1.0):
        level = as_between(level, "level")
    if weights is not None:
        values, weights = values[weights > 0.0], weights[weights > 0.0]
    if len(values) < 2:
        return Interval(float(values.mean()) if len(values) else np.nan, -np.inf, np.inf)
    return student_interval(*mean_and_error(values, weights), len(values) - 1, level)


def upper_mean_bound(values: Floats, level: float = 0.95) -> float:
    """An upper confidence bound of a mean from values (n,), also where their distribution is skewed.

    Hall's transformation of Student's statistic: with the skewness q and x = -t_{n-1} / sqrt(n) the bound is
    mean - s (3 / q) {cbrt(1 + q (x - q / (6 n))) - 1}, and mean - s x where q = 0. Infinite for fewer than three.

    >>> round(upper_mean_bound(np.array([1.0, 2.0, 3.0, 4.0])), 3)
    4.019
    """
    n = len(values)
    if n < 3:
        return float("inf")
    mean, deviation = float(values.mean()), float(values.std(ddof=1))
    if deviation == 0.0:
        return mean
    x = -float(special.stdtrit(n - 1, level)) / np.sqrt(n)
    skewness = float(np.mean(((values - mean) / deviation) ** 3))
    if abs(skewness) < 1e-9:
        return float(mean - deviation * x)
    root = np.cbrt(1.0 + skewness * (x - skewness / (6 * n)))
    return float(mean - deviation * 3.0 / skewness * (root - 1.0))


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

    Rejecting the hypotheses whose adjusted p-value is at most alpha keeps the false discovery rate at most alpha,
    however the p-values depend on each other. If all hypotheses are true, any rejection has at most probability
    alpha.

    >>> adjusted_p_values([0.01, 0.5]).round(3)
    array([0.03, 0.75])
    """
    p = as_vector(p_values, "p_values")
    if ((p < 0.0) | (p > 1.0)).any():
        raise ValueError(f"p_values must lie in [0, 1], but entry {int(((p < 0) | (p > 1)).argmax())} does not")
    order = np.argsort(p)
    ranks = np.arange(1, p.size + 1)
    scaled = p[order] * p.size * (1.0 / ranks).sum() / ranks
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1.0)
    return adjusted


def best_others(losses: Floats, chosen: Booleans, weights: Floats | None = None) -> Indices:
    """For every expert the best other expert, (M,): that of least mean loss on the rows where the expert is chosen.

    ``losses`` and ``chosen`` are (n, M). For an expert that is never chosen, the mean is over all rows. The rows may
    have weights (n,).

    >>> best_others(np.array([[0.0, 1.0, 2.0], [9.0, 0.0, 9.5]]), np.eye(3, dtype=bool)[:2])
    array([1, 0, 1])
    """
    share = chosen * (np.ones(len(losses)) if weights is None else weights)[:, None]  # (n, M)
    never = ~share.any(axis=0)
    share[:, never] = 1.0
    means = (share / share.sum(axis=0)).T @ losses  # (M, M): mean loss of j where m is chosen
    np.fill_diagonal(means, np.inf)
    return np.asarray(means.argmin(axis=1))


def clip_scale(sigma: Floats, low: float, high: float) -> Floats:
    """Scales, or variances, clipped to [low, high]: the one place where the scale of noise is kept within bounds.

    >>> clip_scale(np.array([0.01, 1.0, 50.0]), 0.1, 10.0)
    array([ 0.1,  1. , 10. ])
    """
    return np.asarray(np.clip(sigma, low, high))


def root_mean_square(values: Floats, weights: Floats | None = None) -> Floats:
    """The root of the mean square of every column of values (n,) or (n, S), with weights (n,) on the rows.

    Huge or tiny values are rescaled first, so that their squares neither overflow nor underflow.

    >>> root_mean_square(np.array([[3.0, 0.0], [4.0, 1.0]]), np.array([1.0, 1.0])).round(3)
    array([3.536, 0.707])
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        squares = mean_square(values, weights)
        if ((squares > SAFE_SQUARES[0]) & (squares < SAFE_SQUARES[1])).all():
            return np.asarray(np.sqrt(squares))
        number = np.finfo(np.float64)
        unit = np.clip(np.abs(values).max(axis=0, initial=0.0), number.tiny, number.max)
        return np.asarray(unit * np.sqrt(mean_square(values / unit, weights)))


def mean_square(values: Floats, weights: Floats | None = None) -> Floats:
    """The mean square of every column of values (n,) or (n, S), with weights (n,) on the rows."""
    return np.asarray(np.average(np.square(values), axis=0, weights=weights))
