"""Does a gate follow the best-expert regions more than chance would have it?"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from gatewise.arrays import as_between, as_count, Floats, Indices
from gatewise.geometry.checked_inputs import as_labels, as_weights
from gatewise.geometry.grouped_rows import as_groups, group_sums, sign_flip_p_values
from gatewise.geometry.two_sample import random_orders
from gatewise.stats import Interval, mean_and_error, student_interval


class Alignment(NamedTuple):
    """Agreement of a gate with the best experts, and the agreement that is expected by chance.

    ``excess`` is agreement - chance with its interval; ``kappa`` is excess / (largest possible excess), as Cohen's
    kappa; ``p_value`` that of a permutation test against no alignment, or of sign flips by group.
    """

    agreement: float
    chance: float
    excess: Interval
    kappa: float
    p_value: float


def alignment(
    assignments: ArrayLike,
    best: ArrayLike,
    n_experts: int,
    *,
    groups: Any = None,
    level: float = 0.95,
    n_permutations: int = 1999,
    seed: int | np.random.Generator = 0,
) -> Alignment:
    """mean_i w[i, best_i] against sum_m mean(w_m) P(best = m), what the same weights give in random order.

    ``assignments`` are labels (n,) or weights (n, M) of a gate; ``best`` (n,) the best expert of every row, from
    known regions or the rows' own losses. A gate that always asks one expert, however good, has no excess.

    Rows of one group, such as tokens of a document, depend on each other: with ``groups`` (n,), labels of at least
    20 groups, the interval takes groups as units, and the test flips the signs of sums over groups
    (`sign_flip_p_values`). Without them, rows are taken as independent.

    >>> alignment([0, 1] * 20, [0, 1] * 20, 2, n_permutations=99)[:2]
    (1.0, 0.5)
    """
    n = len(np.asarray(best))
    n_experts, level = as_count(n_experts, "n_experts", low=2), as_between(level, "level")
    labels = as_labels(best, "best", n, n_experts)
    weights = as_weights(assignments, "assignments", n, n_experts)
    if n < 2:
        raise ValueError(f"best must hold at least two rows, not {n}")
    units = None if groups is None else as_groups(groups, n)
    return measured_alignment(weights, labels, units, level, as_count(n_permutations, "n_permutations"), seed)


def measured_alignment(
    weights: Floats,
    labels: Indices,
    groups: Indices | None,
    level: float,
    n_permutations: int,
    seed: int | np.random.Generator,
) -> Alignment:
    """The alignment of weights (n, M) with the best experts (n,); groups are numbers from 0, or rows are units."""
    n = len(labels)
    use, wins = weights.mean(axis=0), np.bincount(labels, minlength=weights.shape[1]) / n  # both (M,)
    hits = weights[np.arange(n), labels]
    agreement, chance = float(hits.mean()), float(use @ wins)
    # The excess is a smooth function of means; these are its influences, row by row.
    influence = hits - weights @ wins - use[labels] + chance  # their mean is the excess
    excess = agreement - chance
    if groups is None:
        interval = student_interval(excess, mean_and_error(influence)[1], n - 1, level)
        p_value = _p_value(weights, labels, agreement, n_permutations, seed)
    else:
        interval, p_value = _by_group(influence, groups, level, n_permutations, seed)
    return Alignment(agreement, chance, interval, excess / (1.0 - chance) if chance < 1.0 else 0.0, p_value)


def _by_group(
    influence: Floats, groups: Indices, level: float, n_flips: int, seed: int | np.random.Generator
) -> tuple[Interval, float]:
    """The interval of the mean influence and its p-value, with groups as units."""
    n_groups = int(groups.max()) + 1
    sums, excess = group_sums(influence, groups, n_groups), float(influence.mean())
    centred = group_sums(influence - excess, groups, n_groups)
    error = float(np.sqrt(n_groups / (n_groups - 1) * centred @ centred)) / len(influence)
    p_value = sign_flip_p_values(sums[:, None], n_flips, np.random.default_rng(seed))[0]
    return student_interval(excess, error, n_groups - 1, level), float(p_value)


def _p_value(
    weights: Floats, labels: Indices, agreement: float, n_permutations: int, seed: int | np.random.Generator
) -> float:
    """The fraction of permutations of the rows that agree at least as well, with the given order counted as one."""
    rows, as_good = np.arange(len(labels)), 0
    for orders in random_orders(len(labels), n_permutations, np.random.default_rng(seed)):
        # Sums in another order differ by rounding: equal agreements must count as equal.
        as_good += int((weights[rows, labels[orders]].mean(axis=1) >= agreement - 1e-12).sum())
    return float((1 + as_good) / (1 + n_permutations))
