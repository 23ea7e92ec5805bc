"""Rows that come in groups, such as the tokens of a document: the group is the unit of every test and interval."""

from typing import Any

import numpy as np
from scipy import special

from gatewise.arrays import BLOCK_NUMBERS, Floats, Indices
from gatewise.stats import Interval, student_interval

FEWEST_GROUPS = 20
FEWEST_TESTED = 10  # groups that choose an expert, of those that test it


def as_groups(groups: Any, n: int, name: str = "groups", fewest: int = FEWEST_GROUPS) -> Indices:
    """One label a row, of any kind, as whole numbers (n,) from 0; fewer than ``fewest`` groups are refused.

    >>> as_groups(["b", "a", "b"], 3, fewest=2)
    array([1, 0, 1])
    """
    labels = np.asarray(groups)
    if labels.shape != (n,):
        raise ValueError(f"{name} must hold one label a row, shape ({n},), not {labels.shape}")
    codes = np.unique(labels, return_inverse=True)[1].astype(np.intp)
    found = int(codes.max(initial=-1)) + 1
    if found < fewest:
        raise ValueError(
            f"{name} must hold at least {fewest} different labels, as the group is the unit of the tests, not {found}"
        )
    return codes


def group_sums(values: Floats, groups: Indices, n_groups: int) -> Floats:
    """The sums over groups, (G, ...), of values (n, ...); the groups are numbers from 0 to G - 1.

    >>> group_sums(np.array([1.0, 2.0, 4.0]), np.array([0, 1, 0]), 2)
    array([5., 2.])
    """
    columns = values.reshape(len(values), -1)
    sums = [np.bincount(groups, column, n_groups) for column in columns.T.astype(np.float64)]
    stacked: Floats = np.stack(sums, axis=1).astype(np.float64)
    return stacked.reshape(n_groups, *values.shape[1:])


def halves(groups: Indices, rng: np.random.Generator) -> tuple[Indices, Indices]:
    """The rows of a random half of the groups, and those of the others."""
    order = rng.permutation(int(groups.max()) + 1)
    first = np.zeros(len(order), dtype=np.bool_)
    first[order[: len(order) // 2]] = True
    return np.flatnonzero(first[groups]), np.flatnonzero(~first[groups])


def sign_flip_p_values(scores: Floats, n_flips: int, rng: np.random.Generator) -> Floats:
    """One-sided p-values, (q,), that the sums of independent scores (G, q) have no positive mean.

    A score is the sum over one group; under the null it has mean zero, and its sign is flipped at random. The
    p-value is exact where scores are symmetric, and right with many groups else: a sum of flipped scores has the
    variance of the sum, whatever the group sizes, and whatever the dependence within a group.

    >>> sign_flip_p_values(np.ones((5, 1)), 20_000, np.random.default_rng(0)).round(2)  # 1 of 32 choices of signs
    array([0.03])
    """
    observed = scores.sum(axis=0)
    threshold = observed - 1e-9 * np.abs(scores).sum(axis=0)  # equal sums in another order differ by rounding
    as_large = np.zeros(scores.shape[1])
    for flipped in flipped_sums(scores, n_flips, rng):
        as_large += (flipped >= threshold).sum(axis=0)
    p_values: Floats = (1.0 + as_large) / (1.0 + n_flips)
    return np.where(np.abs(scores).sum(axis=0) > 0, p_values, 1.0)


def flipped_sums(scores: Floats, n_flips: int, rng: np.random.Generator) -> Any:
    """Sums of scores (G, q) with random signs, block by block, (b, q); all columns share the signs."""
    step = max(1, BLOCK_NUMBERS // max(scores.shape))
    for start in range(0, n_flips, step):
        signs = rng.integers(0, 2, size=(min(step, n_flips - start), len(scores)), dtype=np.int8)
        yield (2.0 * signs - 1.0) @ scores


def ratio_and_error(totals: Floats, counts: Floats) -> tuple[float, float, float]:
    """The ratio r = sum_g totals / sum_g counts over independent groups, its standard error, and the freedom.

    With h_g the fraction of all counts that group g has, the error is the jackknife's: its square is
    (G - 1) / G sum_g ((total_g - r count_g) / (1 - h_g))^2 / (sum_g counts)^2, where G counts the groups that are
    not empty. The freedom is 1 / sum_g h_g^2 - 1, which is G - 1 for groups of one size: a few large groups decide
    among many small ones. The error is infinite for fewer than two groups.
    """
    seen = counts > 0
    size, used = float(counts.sum()), int(seen.sum())
    ratio = float(totals.sum() / size) if used else float("nan")
    if used < 2:
        return ratio, float("inf"), 1.0
    share = counts[seen] / size
    residuals = (totals[seen] - ratio * counts[seen]) / (1.0 - share)
    return ratio, float(np.sqrt((used - 1) / used * residuals @ residuals)) / size, 1.0 / float(share @ share) - 1.0


def ratio_interval(totals: Floats, counts: Floats, level: float = 0.95) -> Interval:
    """The ratio of sums over independent groups, and Student's interval of it (`ratio_and_error`).

    >>> [round(number, 3) for number in ratio_interval(np.array([0.0, 4.0]), np.array([1.0, 1.0]))]
    [2.0, -23.412, 27.412]
    """
    return student_interval(*ratio_and_error(totals, counts), level)


def positive_ratio_p_value(totals: Floats, counts: Floats) -> float:
    """Student's one-sided p-value that the ratio of sums over independent groups is not positive.

    >>> round(positive_ratio_p_value(np.array([1.0, 3.0]), np.array([1.0, 1.0])), 3)
    0.148
    """
    value, error, freedom = ratio_and_error(totals, counts)
    if error == 0.0:
        return 0.0 if value > 0.0 else 1.0
    return float(special.stdtr(freedom, -value / error)) if np.isfinite(error) else 1.0
