"""Is a mean larger on some rows than on the others? Welch's statistic, by permutation."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy import special

from gatewise.geometry.intervals import Interval

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
BLOCK_NUMBERS = 2**22


def welch_statistic(count: int, total: Floats, square: Floats, n: int, all_total: float, all_square: float) -> Floats:
    """t = (mean_C - mean_R) / sqrt(v_C / n_C + v_R / n_R) from sums over the chosen rows C; R are the rest.

    ``total`` and ``square`` are the sums of values and of their squares over C, any shape; ``all_...`` over all n.

    >>> welch_statistic(2, np.array([4.0]), np.array([10.0]), 4, 4.0, 12.0).round(3)
    array([1.414])
    """
    rest, rest_total = n - count, all_total - total
    mean, rest_mean = total / count, rest_total / rest
    spread = np.maximum(square - total * mean, 0.0) / (count - 1) / count
    rest_spread = np.maximum(all_square - square - rest_total * rest_mean, 0.0) / (rest - 1) / rest
    # Where nothing varies the statistic is infinite in the direction of the difference, and 0 without one.
    scale = np.sqrt(np.maximum(spread + rest_spread, np.finfo(float).tiny))
    return np.asarray((mean - rest_mean) / scale)


def permutation_p_values(values: Floats, chosen: Mask, n_permutations: int, rng: np.random.Generator) -> Floats:
    """One-sided p-values, (q,), that the mean of values (n, q) is no larger on the chosen rows (n, q) than on others.

    Rows are reordered as a whole, the same orders for every column. The p-value is exact where the distribution
    does not depend on being chosen, whatever its shape, and right in large samples where only the means agree, as
    the statistic is studentized. Every column needs two rows or more of each kind.
    """
    # One level and scale a column: the statistic does not see them, and rounding stays small.
    centred = values - values.mean(axis=0)
    scale = np.abs(centred).max(axis=0)
    centred = centred / np.where(scale > 0, scale, 1.0)
    n, counts = len(values), chosen.sum(axis=0)
    moments = [(centred[:, q].sum(), (centred[:, q] ** 2).sum()) for q in range(values.shape[1])]

    def statistics(orders: NDArray[np.intp]) -> Floats:  # (b, n) -> (b, q)
        columns = []
        for q, (total, square) in enumerate(moments):
            picked = chosen[:, q][orders].astype(np.float64)
            sums = picked @ np.column_stack([centred[:, q], centred[:, q] ** 2])
            columns.append(welch_statistic(int(counts[q]), sums[:, 0], sums[:, 1], n, total, square))
        return np.stack(columns, axis=1)

    observed = statistics(np.arange(n)[None])[0]
    # Orders that choose the same values give the same statistic but for rounding.
    threshold = observed - 1e-9 * np.maximum(1.0, np.abs(observed))
    as_large = sum((statistics(orders) >= threshold).sum(axis=0) for orders in _orders(n, n_permutations, rng))
    return np.asarray((1.0 + as_large) / (1.0 + n_permutations))


def _orders(n: int, count: int, rng: np.random.Generator) -> Iterator[NDArray[np.intp]]:
    """``count`` random orders of n rows, block by block, (b, n)."""
    step = max(1, BLOCK_NUMBERS // n)
    for start in range(0, count, step):
        yield rng.permuted(np.tile(np.arange(n), (min(step, count - start), 1)), axis=1)


def difference_interval(values: Floats, chosen: Mask, level: float) -> Interval:
    """Welch's interval of mean(values | chosen) - mean(values), (n,) and (n,); the share of chosen rows as it is."""
    inside, outside = values[chosen], values[~chosen]
    value = float(inside.mean() - values.mean()) if len(inside) else float("nan")
    if len(inside) < 2 or len(outside) < 2:
        return Interval(value, -np.inf, np.inf)
    parts = inside.var(ddof=1) / len(inside), outside.var(ddof=1) / len(outside)
    if sum(parts) == 0:
        return Interval(value, value, value)
    freedom = sum(parts) ** 2 / (parts[0] ** 2 / (len(inside) - 1) + parts[1] ** 2 / (len(outside) - 1))
    # mean_C - mean_all is the share of the rest times mean_C - mean_R.
    half = float(len(outside) / len(values) * special.stdtrit(freedom, 0.5 + level / 2) * np.sqrt(sum(parts)))
    return Interval(value, value - half, value + half)
