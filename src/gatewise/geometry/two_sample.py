"""Is a mean larger on some rows than on the others? Welch's statistic, by permutation."""

from collections.abc import Iterator

import numpy as np
from scipy import special

from gatewise.arrays import BLOCK_NUMBERS, Booleans, Floats, Indices
from gatewise.stats import Interval, mean_and_error, student_interval


def welch_statistic(count: int, total: Floats, square: Floats, n: int, all_total: float, all_square: float) -> Floats:
    """t = (mean_C - mean_R) / sqrt(v_C / n_C + v_R / n_R) from sums over the chosen rows C; R are the rest.

    ``total`` and ``square`` are the sums of values and of their squares over C, any shape; ``all_...`` over all n.

    >>> welch_statistic(2, np.array([4.0]), np.array([10.0]), 4, 4.0, 12.0).round(3)
    array([1.414])
    """
    rest, rest_total = n - count, all_total - total
    mean, rest_mean = total / count, rest_total / rest
    variance = np.maximum(square - total * mean, 0.0) / (count - 1) / count  # of the mean over C
    rest_variance = np.maximum(all_square - square - rest_total * rest_mean, 0.0) / (rest - 1) / rest
    # Where nothing varies the statistic is infinite in the direction of the difference, and 0 without one.
    scale = np.sqrt(np.maximum(variance + rest_variance, np.finfo(float).tiny))
    return np.asarray((mean - rest_mean) / scale)


def permutation_p_values(values: Floats, chosen: Booleans, n_permutations: int, rng: np.random.Generator) -> Floats:
    """One-sided p-values, (q,), that the mean of values (n, q) is no larger on the chosen rows (n, q) than on others.

    As many rows are chosen at random instead, ``n_permutations`` times. The p-value is exact where the distribution
    does not depend on being chosen, whatever its shape, and right in large samples where only the means agree, as
    the statistic is studentized. Every column needs two rows or more of each kind.

    >>> values, chosen = np.arange(8.0)[:, None], np.arange(8)[:, None] >= 6  # the largest 2 of 8: 1 in 28 choices
    >>> permutation_p_values(values, chosen, 5000, np.random.default_rng(0)).round(2)
    array([0.04])
    """
    # One level and scale a column: the statistic does not see them, and rounding stays small.
    centred = values - values.mean(axis=0)
    scale = np.abs(centred).max(axis=0)
    centred = centred / np.where(scale > 0, scale, 1.0)
    counts = chosen.sum(axis=0)
    observed = np.array(
        [_statistic(centred[:, q], np.flatnonzero(chosen[:, q])[None])[0] for q in range(len(counts))]
    )
    # Choices of the same values give the same statistic but for rounding.
    threshold = observed - 1e-9 * np.maximum(1.0, np.abs(observed))
    as_large = np.zeros(len(counts))
    for orders in random_orders(len(values), n_permutations, rng):
        for q, count in enumerate(counts):
            as_large[q] += (_statistic(centred[:, q], orders[:, :count]) >= threshold[q]).sum()
    return np.asarray((1.0 + as_large) / (1.0 + n_permutations))


def _statistic(values: Floats, picked: Indices) -> Floats:
    """Welch's statistic (b,) of values (n,) for every choice of rows, picked (b, count)."""
    taken = values[picked]
    return welch_statistic(
        picked.shape[1], taken.sum(axis=1), (taken**2).sum(axis=1), len(values), values.sum(), (values**2).sum()
    )


def random_orders(n: int, count: int, rng: np.random.Generator) -> Iterator[Indices]:
    """``count`` random orders of n rows, block by block, (b, n)."""
    step = max(1, BLOCK_NUMBERS // n)
    for start in range(0, count, step):
        yield rng.permuted(np.tile(np.arange(n), (min(step, count - start), 1)), axis=1)


def positive_p_value(values: Floats) -> float:
    """Student's one-sided p-value that the mean of two or more values is not positive.

    >>> round(positive_p_value(np.array([1.0, 2.0, 3.0])), 4)
    0.0371
    """
    mean, error = mean_and_error(values)
    if error == 0:
        return 0.0 if mean > 0 else 1.0
    return float(special.stdtr(len(values) - 1, -mean / error))


def difference_interval(values: Floats, chosen: Booleans, level: float) -> Interval:
    """Welch's interval of mean(values | chosen) - mean(values) for values (n,) and chosen (n,).

    The fraction of chosen rows is taken as fixed.
    """
    inside, outside = values[chosen], values[~chosen]
    value = float(inside.mean() - values.mean()) if len(inside) else float("nan")
    if len(inside) < 2 or len(outside) < 2:
        return Interval(value, -np.inf, np.inf)
    parts = inside.var(ddof=1) / len(inside), outside.var(ddof=1) / len(outside)
    if sum(parts) == 0:
        return Interval(value, value, value)
    freedom = sum(parts) ** 2 / (parts[0] ** 2 / (len(inside) - 1) + parts[1] ** 2 / (len(outside) - 1))
    # With C the chosen rows and R the others, mean_C - mean_all = (fraction of R) * (mean_C - mean_R).
    error = len(outside) / len(values) * float(np.sqrt(sum(parts)))
    return student_interval(value, error, freedom, level)
