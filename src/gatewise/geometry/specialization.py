"""Is the specialization real? A test of each expert's advantage where it is chosen, and of the gate as a whole."""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from gatewise.arrays import as_between, as_count, as_rows, Booleans, Floats, Indices
from gatewise.geometry.alignment import Alignment, measured_alignment
from gatewise.geometry.checked_inputs import as_chosen, as_losses
from gatewise.geometry.grouped_rows import (
    as_groups,
    FEWEST_TESTED,
    group_sums,
    halves,
    ratio_interval,
    sign_flip_p_values,
)
from gatewise.geometry.regions import best_expert, RegionMap
from gatewise.geometry.two_sample import difference_interval, permutation_p_values, positive_p_value
from gatewise.stats import adjusted_p_values, best_others, Interval, mean_interval, student_interval

RegionFit = Callable[[Floats, Floats], RegionMap]


@dataclass(frozen=True)
class ExpertReport:
    """One expert: where it is chosen, how much better it is there, and whether more so than elsewhere.

    ``advantage`` is the mean loss of the runner-up minus its own over the ``n_rows`` test rows that chose it, and
    ``excess`` that advantage minus the one over all test rows. ``p_value`` is that of the null of no
    excess, ``p_positive`` that of no advantage where it is chosen; ``adjusted`` is the larger of the two after the
    control of false discoveries, and ``special`` says that it is at most alpha. With too few rows ``tested`` is
    false and they are all 1.
    """

    expert: int
    runner_up: int
    n_rows: int
    advantage: Interval
    excess: Interval
    p_value: float
    p_positive: float
    adjusted: float
    tested: bool
    special: bool


@dataclass(frozen=True)
class Specialization:
    """The reports of all experts, and the alignment of the gate with the best expert of every test row."""

    experts: tuple[ExpertReport, ...]
    alignment: Alignment
    alpha: float

    @property
    def special(self) -> tuple[int, ...]:
        """The experts whose specialization is real."""
        return tuple(report.expert for report in self.experts if report.special)


def specialization(
    losses: ArrayLike,
    assignments: ArrayLike | RegionFit,
    X: Any = None,
    *,
    groups: Any = None,
    alpha: float = 0.05,
    min_rows: int = 20,
    n_permutations: int | None = None,
    seed: int | np.random.Generator = 0,
) -> Specialization:
    """Test, expert by expert, that E[D | chosen] > max(E[D], 0) for D = loss of the runner-up - its own loss.

    ``losses`` (n, M) are those of rows that no expert was fitted on. ``assignments`` are a gate's at these rows:
    labels (n,), weights (n, M) of which the largest counts, or a mask (n, M) of the active experts. They must not
    come from these losses. Regions that do come from them are passed as a function fit(X, losses) -> region map,
    such as `EstimatedRegions`, which sees one random half of the rows only.

    That half also names the runner-up, the best other expert where the expert is chosen; the other half tests. An
    expert that is better by the same amount everywhere is no specialist; nor is one that is merely less bad where
    it is chosen, so the advantage there must be positive, too (Student's test). The test against the rows that did
    not choose it is a studentized permutation test (`permutation_p_values`). Both need ``min_rows`` test rows that
    chose the expert and as many that did not. Benjamini and Yekutieli's rule, valid under any dependence, keeps the
    false discovery rate at alpha. Intervals are Student's and Welch's, at 1 - alpha for each expert by itself.

    Rows of one group, such as tokens of a document, depend on each other. With ``groups`` (n,), labels of at least
    20 groups, whole groups are in one half, intervals take them as units, and both tests flip the signs of sums over
    groups (`sign_flip_p_values`); an expert then needs 10 test groups that chose it, too. Without ``groups``, rows
    are taken as independent: false alarms are then frequent where they are not.

    >>> rng = np.random.default_rng(0)
    >>> where = rng.integers(2, size=400)
    >>> losses = rng.normal(size=(400, 2)) ** 2 + np.eye(2)[1 - where]  # each is better on its rows
    >>> specialization(losses, where).special
    (0, 1)
    """
    rows = as_losses(losses)
    n, n_experts = rows.shape
    alpha, min_rows = as_between(alpha, "alpha"), as_count(min_rows, "min_rows", low=2)
    if n < 4:
        raise ValueError(f"losses must hold at least 4 rows, two for each half, not {n}")
    rng = np.random.default_rng(seed)
    units = None if groups is None else as_groups(groups, n)
    if units is None:
        order = rng.permutation(n)
        first, second = order[: n // 2], order[n // 2 :]
    else:
        first, second = halves(units, rng)
    chosen = _choices(assignments, rows, X, first)
    rivals = runners_up(rows[first], chosen[first])
    test, picked = rows[second], chosen[second]
    units = None if units is None else as_groups(units[second], len(second), fewest=2)
    advantage = test[np.arange(len(test))[:, None], rivals] - test  # (n/2, M)
    draws = _permutations(n_permutations, n_experts, alpha)
    p_values = _p_values(advantage, picked, units, min_rows, draws, rng)
    reports = _reports(advantage, picked, units, rivals, p_values, alpha)
    aligned = measured_alignment(_equal_weights(picked), best_expert(test), units, 1 - alpha, 1999, rng)
    return Specialization(reports, aligned, alpha)


def runners_up(losses: ArrayLike, chosen: Booleans) -> Indices:
    """The best other expert where each expert is chosen, (M,), by mean loss; over all rows where it never is.

    >>> runners_up([[0.0, 1.0, 2.0], [9.0, 0.0, 9.5]], np.array([[True, False, False], [False, True, False]]))
    array([1, 0, 1])
    """
    return best_others(as_losses(losses), chosen)


def _choices(assignments: ArrayLike | RegionFit, losses: Floats, X: Any, first: Indices) -> Booleans:
    n, n_experts = losses.shape
    if not callable(assignments):
        return as_chosen(assignments, "assignments", n, n_experts)
    if X is None:
        raise ValueError("X must be given when assignments is a function fit(X, losses) -> region map")
    rows = as_rows(X)
    if len(rows) != n:
        raise ValueError(f"X must have {n} rows, as losses has, not {len(rows)}")
    regions = assignments(rows[first], losses[first])
    return as_chosen(regions(rows), "what the fitted region map returns", n, n_experts)


def _equal_weights(chosen: Booleans) -> Floats:
    """The active experts of a row with equal weights, (n, M); a row that chose none has equal weights on all."""
    some = np.where(chosen.any(axis=1, keepdims=True), chosen, True)
    return np.asarray(some / some.sum(axis=1, keepdims=True))


def _permutations(wanted: int | None, n_experts: int, alpha: float) -> int:
    """Enough for the smallest possible p-value to be half of the strictest threshold, alpha / (M H_M), or less."""
    if wanted is not None:
        return as_count(wanted, "n_permutations")
    harmonic = sum(1.0 / rank for rank in range(1, n_experts + 1))
    return max(1999, ceil(2.0 * n_experts * harmonic / alpha))


def _p_values(
    advantage: Floats,
    chosen: Booleans,
    groups: Indices | None,
    min_rows: int,
    n_permutations: int,
    rng: np.random.Generator,
) -> tuple[Floats, Floats]:
    """The p-values of no excess and of no advantage, both (M,); NaN without min_rows rows of each kind."""
    counts = chosen.sum(axis=0)
    enough = np.minimum(counts, len(chosen) - counts) >= min_rows
    excess, positive = np.full((2, len(counts)), np.nan)
    if groups is not None:
        sums = _group_scores(advantage, chosen, groups)
        enough &= (sums.choices > 0).sum(axis=0) >= FEWEST_TESTED
        if enough.any():
            excess[enough] = sign_flip_p_values(sums.excess[:, enough], n_permutations, rng)
            positive[enough] = sign_flip_p_values(sums.gain[:, enough], n_permutations, rng)
    elif enough.any():
        excess[enough] = permutation_p_values(advantage[:, enough], chosen[:, enough], n_permutations, rng)
        positive[enough] = [positive_p_value(advantage[chosen[:, m], m]) for m in np.flatnonzero(enough)]
    return excess, positive


class _GroupScores(NamedTuple):
    """Sums over groups, each (G, M): how often chosen, the advantage there, and the score of the excess.

    The score is sum_i (c_i - mean c)(D_i - mean D), c_i = 1 where chosen: over all groups it has the sign of the
    excess.
    """

    choices: Floats
    gain: Floats
    excess: Floats


def _group_scores(advantage: Floats, chosen: Booleans, groups: Indices) -> _GroupScores:
    n_groups, picked = int(groups.max()) + 1, chosen.astype(np.float64)
    score = (picked - picked.mean(axis=0)) * (advantage - advantage.mean(axis=0))
    return _GroupScores(*(group_sums(values, groups, n_groups) for values in (picked, picked * advantage, score)))


def _intervals(values: Floats, chosen: Booleans, groups: Indices | None, level: float) -> tuple[Interval, Interval]:
    """The mean of values (n,) where chosen (n,), and that mean less the one over all rows, with intervals."""
    if groups is None:
        return mean_interval(values[chosen], level), difference_interval(values, chosen, level)
    n_groups, count = int(groups.max()) + 1, int(chosen.sum())
    totals = group_sums(np.column_stack([np.where(chosen, values, 0.0), chosen]), groups, n_groups)
    advantage = ratio_interval(totals[:, 0], totals[:, 1], level)
    excess = advantage.value - float(values.mean())
    used = int((totals[:, 1] > 0).sum())
    if used < 2:
        return advantage, Interval(excess, -np.inf, np.inf)
    influence = chosen * (values - advantage.value) / count - (values - values.mean()) / len(values)
    sums = group_sums(influence, groups, n_groups)
    error = float(np.sqrt(n_groups / (n_groups - 1) * sums @ sums))
    return advantage, student_interval(excess, error, used - 1, level)


def _reports(
    advantage: Floats,
    chosen: Booleans,
    groups: Indices | None,
    rivals: Indices,
    p_values: tuple[Floats, Floats],
    alpha: float,
) -> tuple[ExpertReport, ...]:
    tested = ~np.isnan(p_values[0])
    excess, positive = (np.where(tested, p, 1.0) for p in p_values)
    adjusted = np.ones(len(rivals))
    # Both nulls must go, so the larger p-value counts. Who is tested depends on counts, not on losses: the others
    # need no part of alpha.
    adjusted[tested] = adjusted_p_values(np.maximum(excess, positive)[tested])
    intervals = [_intervals(advantage[:, m], chosen[:, m], groups, 1 - alpha) for m in range(len(rivals))]
    return tuple(
        ExpertReport(
            expert=m,
            runner_up=int(rivals[m]),
            n_rows=int(chosen[:, m].sum()),
            advantage=intervals[m][0],
            excess=intervals[m][1],
            p_value=float(excess[m]),
            p_positive=float(positive[m]),
            adjusted=float(adjusted[m]),
            tested=bool(tested[m]),
            special=bool(adjusted[m] <= alpha),
        )
        for m in range(len(rivals))
    )
