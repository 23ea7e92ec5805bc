"""Does a gate follow the best-expert regions more than chance would have it?"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from gatewise.arrays import as_between, as_count, Floats, Indices
from gatewise.geometry.checked_inputs import as_labels, as_weights
from gatewise.geometry.two_sample import random_orders
from gatewise.stats import Interval, mean_and_error, student_interval


class Alignment(NamedTuple):
    """Agreement of a gate with the best experts, and the agreement that is expected by chance.

    ``excess`` is agreement - chance with its interval; ``kappa`` is excess / (largest possible excess), as Cohen's
    kappa; ``p_value`` that of a permutation test against no alignment.
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
    level: float = 0.95,
    n_permutations: int = 1999,
    seed: int | np.random.Generator = 0,
) -> Alignment:
    """mean_i w[i, best_i] against sum_m mean(w_m) P(best = m), what the same weights give in random order.

    ``assignments`` are labels (n,) or weights (n, M) of a gate; ``best`` (n,) the best expert of every row, from
    known regions or the rows' own losses. A gate that always asks one expert, however good, has no excess.

    >>> alignment([0, 1] * 20, [0, 1] * 20, 2, n_permutations=99)[:2]
    (1.0, 0.5)
    """
    n = len(np.asarray(best))
    n_experts, level = as_count(n_experts, "n_experts", low=2), as_between(level, "level")
    labels = as_labels(best, "best", n, n_experts)
    weights = as_weights(assignments, "assignments", n, n_experts)
    if n < 2:
        raise ValueError(f"best must hold at least two rows, not {n}")
    use, wins = weights.mean(axis=0), np.bincount(labels, minlength=n_experts) / n  # both (M,)
    hits = weights[np.arange(n), labels]
    agreement, chance = float(hits.mean()), float(use @ wins)
    # The excess is a smooth function of means; these are its influences, row by row.
    influence = hits - weights @ wins - use[labels]
    _, error = mean_and_error(influence)
    excess = agreement - chance
    return Alignment(
        agreement,
        chance,
        student_interval(excess, error, n - 1, level),
        excess / (1.0 - chance) if chance < 1.0 else 0.0,
        _p_value(weights, labels, agreement, as_count(n_permutations, "n_permutations"), seed),
    )


def _p_value(
    weights: Floats, labels: Indices, agreement: float, n_permutations: int, seed: int | np.random.Generator
) -> float:
    """The fraction of permutations of the rows that agree at least as well, with the given order counted as one."""
    rows, as_good = np.arange(len(labels)), 0
    for orders in random_orders(len(labels), n_permutations, np.random.default_rng(seed)):
        # Sums in another order differ by rounding: equal agreements must count as equal.
        as_good += int((weights[rows, labels[orders]].mean(axis=1) >= agreement - 1e-12).sum())
    return float((1 + as_good) / (1 + n_permutations))
