"""Experts and router trained together: one stage, backfitting with shared experts, and specialization."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from math import isqrt
from typing import Any, NamedTuple

import numpy as np
from scipy.special import softmax
from sklearn.utils import _safe_indexing

from gatewise.arrays import Booleans, Floats, Indices
from gatewise.experts.pool import HeldOut, Pool, Split, weight_params
from gatewise.gates.feature_maps import FixedFeatures
from gatewise.gates.inputs import GateInputs, Inputs
from gatewise.gates.registry import GateChoice
from gatewise.gates.tree_gate import TreeGate
from gatewise.geometry.coadaptation import HistoryStep, SpecializationHistory
from gatewise.losses import LogLoss, Loss, ResidualLoss
from gatewise.router.candidates import Candidate, candidate_list, error_gates, promising
from gatewise.router.class_rows import ClassRows, cross_fitted_floors, ProbabilityFloor
from gatewise.router.class_stacks import class_stacks
from gatewise.router.fitted_router import ForecastGuard, RowView
from gatewise.router.learning import fresh_signal, learn, MOST_COMPARED, MOST_LEARNED, PARTS, RouterFit, RouterSample
from gatewise.router.members import ListRows
from gatewise.router.screening import MOST_ROUTED, screened, screened_classes, screening_rows
from gatewise.router.settings import MoESettings
from gatewise.router.tree_members import shared_learners, tree_gates
from gatewise.solvers.simplex_least_squares import convex_stacks

MOST_TESTED = 8_000  # rows that the test of gates uses, at most: it fits experts and list once more
TEST_FOLDS, LEAST_FOLDS = 6, 4  # of the test, where the splits cannot serve; without so many there is no test
MOST_TRIED = 12_000  # rows that a list over one expert is tried on; over M experts, this over the root of M
# The power of the likelihood: where experts are fitted on folds, to numbers or to classes; and where they are given.
FITTED_RATE, NESTED_RATE, CLASS_RATE, GIVEN_RATE = 0.05, 0.1, 0.3, 0.5
LEAST_NESTED, MOST_NESTED = 40, 3_000  # rows with nested forecasts: fewer make tiny folds, and more take long
MOST_FOLDS = 6  # with nested forecasts: every pair of folds costs one more fit of each expert
LEAST_LEFT = 0.4  # of the rows, and of their weight, that every pair of folds must leave
MOST_LOST = 0.25  # relative loss of stacks learned from nested forecasts: beyond it some expert needs more rows
WILD = 1000.0  # ranges of y: a shared expert's forecast that is farther away cannot be meant
ROWS_PER_SPREAD = 4.0  # a gate of C coefficients is fitted to n rows with spreads up to this times n / C
STEEP, STEEP_ROWS = 10.0, 5_000  # larger spreads than the first are for sharp borders, where rows are more than these
ROUNDS = 4  # of backfitting, at most
WORTH = 1e-3  # a round is kept if it lowers the held-out error by more than this fraction
SAME = 1e-4  # experts count as one if their forecasts differ by less than this times the response's deviation
TICK = 2.0**-40  # of probabilities: experts that are fitted to the same rows in another order agree in it
ALIKE = 1e-3  # experts count as alike if the variance of their forecasts is below this fraction of the error


@dataclass(frozen=True, eq=False)
class TrainingTask:
    """All that training needs: the rows, the two pools, the splits and the gates to consider.

    Where responses are classes, ``y`` has their numbers, and the routed experts give probabilities. ``ks`` are the
    numbers of active experts to try, None for all; a gate that has a k of its own keeps it. Rows of one of the
    ``groups`` (n,), if there are some, may depend on one another. Rows that are copies of one have the same number in
    ``source`` (n,), and rows that are equal have the same one in ``alike`` (n,), which follows from their contents.
    ``place`` (n,) is the order in which the router takes the rows of a fold, where it is not theirs.
    """

    X: Any
    y: Floats
    sample_weight: Floats
    routed: Pool
    shared: Pool
    splits: Sequence[Split]
    inputs: GateInputs
    gates: Mapping[str, GateChoice]
    ks: Sequence[int | None]
    settings: MoESettings
    seed: int
    groups: Any = None
    source: Indices | None = None
    alike: Indices | None = None
    place: Indices | None = None

    @cached_property
    def units(self) -> Indices | None:
        """The number of every row's group, (n,), for the test of gates, if there are groups or copies.

        The copies of a row are one group, unless groups are given: a weight may also be meant as importance, and then
        copies are no further evidence.
        """
        rows = self.source if self.groups is None else self.groups
        numbers = None if rows is None else np.unique(rows, return_inverse=True)[1].ravel()
        return numbers if self.groups is not None or numbers is None or numbers.max() + 1 < len(numbers) else None

    @cached_property
    def choosing(self) -> Booleans:
        """The rows that choose experts where these are many, (n,): no group is divided, and no set of equal rows."""
        return screening_rows(len(self.y), self.alike if self.groups is None else self.units, self.seed)

    def seen(self, rows: Indices) -> Inputs:
        """What gates see of some rows."""
        return self.inputs.transform(_safe_indexing(self.X, rows))


class TrainingStage(NamedTuple):
    """A stage that was tried: its mean held-out error and, with ``specialize``, the test of specialization there."""

    error: float
    specialization: HistoryStep | None = None


@dataclass(frozen=True, eq=False)
class Trained:
    """Fitted experts and router.

    ``always`` (n,) is the sum of the shared experts' held-out forecasts, ``error`` the mean held-out error of the
    whole. ``history`` lists every stage that was tried, in order. ``signal`` (n, 3) is what
    speaks for gates at every row, 0 where that was not asked.
    """

    routed: list[Any]
    shared: list[Any]
    fit: RouterFit
    view: RowView
    in_time: bool
    always: Floats
    error: float
    history: tuple[TrainingStage, ...] = field(default=())
    signal: Floats = field(default_factory=lambda: np.zeros((0, 3)))


def route(task: TrainingTask, held_out: HeldOut, target: Floats) -> tuple[RouterFit, RowView]:
    """Learn the router from the routed experts' held-out forecasts of a target (n,).

    Experts that make the same forecasts count as one, those that diverge do not count, and of more than MOST_ROUTED
    only the most useful are in the list; the others have no weight. The rows that chose them weigh no candidate.
    """
    M = held_out.F.shape[1]
    everything, classes = np.arange(len(held_out.rows)), bool(task.routed.outputs)
    distinct, fresh = _distinct(held_out.F, 1.0 if classes else float(target.std())), None
    if len(distinct) > MOST_ROUTED:
        fresh = ~task.choosing[held_out.rows]
        asked = everything if fresh.all() else np.flatnonzero(~fresh)
        rows = held_out.rows[asked]
        choose = screened_classes if classes else screened
        distinct = choose(held_out.F[asked], target[rows], task.sample_weight[rows], distinct)
    sample, view = _prepare(task, held_out, target, everything, distinct)
    sample = replace(sample, fresh=fresh)
    fit = replace(_learned(task, sample, view.distinct), units=task.units)
    if len(view.distinct) < M and classes:
        whole = _with_floors(task, held_out, target, everything)[0].part(fit.entries)
        fit = replace(fit, F=whole.observed, experts=whole.probabilities, weights=view.spread_out(fit.weights))
    elif len(view.distinct) < M and isinstance(view.guard, ForecastGuard):
        F, _ = view.guard.apply(held_out.F)
        fit = replace(fit, F=F[fit.entries], weights=view.spread_out(fit.weights))
    return fit if fresh is None else fit.judged(fresh[fit.entries]), view


def _some_entries(task: TrainingTask, held: HeldOut) -> HeldOut:
    """The entries, or a random choice of them where they are more than MOST_LEARNED, in their order."""
    n = len(held.rows)
    if n <= MOST_LEARNED or task.shared.experts or task.settings.specialize:  # these look at every row
        return held
    return held.part(np.sort(np.random.default_rng([task.seed, 3]).choice(n, isqrt(MOST_LEARNED * n), replace=False)))


def _learned(task: TrainingTask, sample: RouterSample, distinct: Indices) -> RouterFit:
    """Learn the router; where entries are many, the list is tried on a random choice of them first.

    Members far behind there are not fitted to all entries. The choice has seen the responses of the entries that
    it was made on, so what speaks for gates is taken from the others; of experts that were fitted on folds it is
    asked later, see `_signal`.
    """
    n, settings, seed = len(sample.held_out.rows), task.settings, task.seed
    given = not task.splits
    candidates, most = _candidates(task, sample.seen, distinct), isqrt(MOST_TRIED**2 // len(distinct))
    if n <= 2 * most:
        return learn(sample, candidates, settings, seed, given=given)
    tried = np.sort(np.random.default_rng([seed, 4]).choice(n, most, replace=False))
    few = sample.part(tried)
    first = learn(few, _candidates(task, few.seen, distinct), settings, seed, "trial")
    kept = promising(candidates, first.final.candidates, first.errors, most)
    fit = learn(sample, kept, settings, seed, given=given)
    return replace(fit, signal=np.where(np.isin(fit.entries, tried)[:, None], 0.0, fit.signal))


def _distinct(F: Floats, size: float) -> Indices:
    """The experts whose forecasts differ from those of every other one among them, by their columns in F (N, M).

    Of experts with the same forecasts the one with the fewest different values stays, the first if these are equally
    many: trees would cut between values that differ by noise alone. Of classes, F (N, M, C), forecasts are
    probabilities, and ``size`` is 1.
    """
    kept: list[int] = []
    some = F[:: -(-len(F) // MOST_COMPARED)]
    values = [len(np.unique(some[:, m])) for m in range(F.shape[1])]
    for m in np.argsort(values, kind="stable").tolist():
        gaps = [some[:, m] - some[:, k] for k in kept]
        if all(not np.nanmean(gap**2) <= (SAME * size) ** 2 for gap in gaps if not np.isnan(gap).all()):
            kept.append(m)
    return np.sort(np.array(kept, dtype=np.intp))


def _candidates(task: TrainingTask, seen: ListRows, distinct: Indices) -> tuple[Candidate, ...]:
    """The list: trees are boosted on no features, so a tree gate is not among the softmax gates.

    Gates that look at fixed inputs have error gates beside them, dense ones if not all gates are to be sparse;
    probabilities have none. A gate whose coefficients are many for its rows is tried with small spreads only; few
    rows show no sharp border.
    """
    gates, settings, n = _softmax_gates(task, distinct), task.settings, len(seen.F) // seen.n_views
    classes = bool(task.routed.outputs)
    ks = [None if k is None else min(k, len(distinct)) for k in task.ks]
    if None in ks:
        ks = [k for k in ks if k is None or k < len(distinct)]
    pairs, counts = {}, {name: tuple(dict.fromkeys(_active_counts(gate, ks))) for name, gate in gates.items()}
    for name in gates:
        room = ROWS_PER_SPREAD * n / max(1, len(distinct) * seen.maps[name].n_features)
        room = min(room, STEEP) if n <= STEEP_ROWS else room
        spreads = [spread for spread in settings.spreads if spread <= room] or [min(settings.spreads)]
        pairs[name] = list(product(spreads, counts[name]))
    names = [task.routed.experts[m][0] for m in distinct]
    fixed = [name for name, one in seen.maps.items() if isinstance(one, FixedFeatures) and not one.needs_forecasts]
    steep = {name: (None,) if None in counts[name] else counts[name] for name in fixed}
    trees: list[Candidate] = []
    if None in task.ks:
        trees += tree_gates() if TreeGate in task.gates.values() and len(distinct) > 1 else []
        trees += class_stacks(settings.correct, settings.learners) if classes else shared_learners(settings.learners)
    corrected = settings.correct and not classes  # nothing may be added to a probability
    return candidate_list(names, pairs, corrected, [*error_gates({} if classes else steep), *trees])


def _softmax_gates(task: TrainingTask, distinct: Indices) -> dict[str, GateChoice]:
    gates = task.gates if len(distinct) > 1 else {}
    return {name: gate for name, gate in gates.items() if gate is not TreeGate}


def _prepare(
    task: TrainingTask, held_out: HeldOut, target: Floats, known: Indices, distinct: Indices
) -> tuple[RouterSample, RowView]:
    """The sample, and the view of its rows, which is learned from the entries ``known``.

    Of the ``distinct`` experts those that diverge are left out where all entries are known.
    """
    n, views = len(held_out.rows), _forecast_views(held_out)
    n_views, stacks = len(views[0]) // n, None
    inputs = task.seen(held_out.rows)
    repeated = inputs if n_views == 1 else inputs[np.tile(np.arange(n), n_views)]
    seen = inputs if len(known) == n else inputs[known]
    loss: Loss
    guard: ForecastGuard | ProbabilityFloor
    if task.routed.outputs:
        classes, guard = _with_floors(task, held_out, target, known)
        classes = classes.of_experts(distinct)
        F, looked, loss = classes.observed, classes.confidence, LogLoss()
    else:
        guard, classes = ForecastGuard.fit(held_out.F[known], target[held_out.rows[known]], distinct), None
        distinct = guard.voters if len(known) == n else distinct  # the test of gates keeps the experts of the fit
        F = looked = guard.apply(*views)[0][:, distinct]
        if n_views > 1:
            stacks, lost = _fold_stacks(F, target[held_out.rows], task.sample_weight[held_out.rows], held_out.fold)
            if lost > MOST_LOST:
                return _prepare(task, replace(held_out, nested=None), target, known, distinct)
        loss = ResidualLoss(target, task.settings.density)
    gates = _softmax_gates(task, distinct)
    maps = {name: gate.feature_map.fit(gate, seen, looked[known], task.seed) for name, gate in gates.items()}
    rows = ListRows(repeated, F, classes, maps, n_views)
    view = RowView(guard, distinct, held_out.F.shape[1])
    return RouterSample(rows, held_out, loss, task.sample_weight, _rate(task, held_out), stacks), view


def _fold_stacks(F: Floats, y: Floats, weight: Floats, fold: Indices) -> tuple[Floats, float]:
    """The convex stacks (K, M) without each of K folds, and the relative loss of those from nested forecasts.

    F ((1 + K) n, M) has the ordinary out-of-fold forecasts of y (n,), then the nested ones of every fold. The stacks
    returned are learned from the ordinary forecasts. The loss is e' / e - 1, where e is their held-out error and e'
    that of stacks learned from the nested forecasts, whose experts saw fewer rows; both weigh the ordinary ones.
    """
    n, K = len(y), len(F) // len(y) - 1
    known = np.where(fold == np.arange(K)[:, None], 0.0, weight)
    weights = np.zeros((2, K, 1 + K, n))
    weights[0, :, 0], weights[1, np.arange(K), 1 + np.arange(K)] = known, known
    found = convex_stacks(F, np.tile(y, 1 + K), weights.reshape(2 * K, -1)).reshape(2, K, -1)
    misses = [weight @ (y - np.einsum("im,im->i", F[:n], one[fold])) ** 2 for one in found]
    return found[0], float(misses[1] / misses[0] - 1.0) if misses[0] > 0.0 else 0.0


def _rate(task: TrainingTask, held_out: HeldOut) -> float:
    """The power of the likelihood: the one asked for, or that of the kind of forecasts."""
    if task.settings.rate is not None:
        return task.settings.rate
    if not task.splits:
        return GIVEN_RATE
    if task.routed.outputs:
        return CLASS_RATE
    return FITTED_RATE if held_out.nested is None else NESTED_RATE


def _forecast_views(held_out: HeldOut) -> tuple[Floats, Indices]:
    """The held-out forecasts (N, M), with the nested ones of every fold behind them; and the numbers of the rows."""
    if held_out.nested is None:
        return held_out.F, held_out.rows
    views = [held_out.F, *held_out.nested]
    return np.concatenate(views), np.concatenate([held_out.rows] * len(views))


def _with_floors(
    task: TrainingTask, held_out: HeldOut, target: Floats, known: Indices
) -> tuple[ClassRows, ProbabilityFloor]:
    """Held-out probabilities with floors that were learned without their rows, and the floors for new rows.

    Probabilities are multiples of TICK: trees could tell last bits apart, and these depend on the order of the rows
    that an expert was fitted to.
    """
    rows = ClassRows(np.rint(held_out.F / TICK) * TICK, target[held_out.rows].astype(np.intp))
    weight = task.sample_weight[held_out.rows]
    learners = [(np.intersect1d(some, known), out) for some, out in held_out.learners()]
    fresh = np.setdiff1d(np.arange(len(weight)), known)
    floored = cross_fitted_floors(rows, weight, [*learners, (known, fresh)])
    return ClassRows(floored, rows.outcome), ProbabilityFloor.fit(rows.part(known), weight[known])


def _active_counts(gate: GateChoice, ks: Sequence[int | None]) -> Sequence[int | None]:
    """The numbers of active experts to try with a gate: its own k if it has one, else ``ks``.

    A gate that looks at the experts' forecasts is dense only, as it needs them all.
    """
    own = getattr(gate, "k", None)
    if own is None:
        return [k for k in ks if k is None or not gate.needs_forecasts]
    if None not in ks and own not in ks:
        raise ValueError(f"gates: {gate!r} activates {own} experts, but k is {ks[0]}")
    return (own,)


def train(task: TrainingTask) -> Trained:
    """Fit experts and router; then backfit if there are shared experts, then specialize.

    Backfitting and specialization repeat the fit of everything; each stops when the held-out error no longer falls.
    """
    best = _stage(task, np.zeros(len(task.y)), None)
    if task.shared.experts:
        for _ in range(ROUNDS - 1):
            better, best = _compare(best, _stage(task, _routed_part(task, best), None))
            if not better:
                break
    for number in range(task.settings.specialize):
        weights = _specialist_weights(task, best, first=number == 0)
        better, best = _compare(best, _stage(task, _routed_part(task, best), weights))
        if not better:
            break
    return replace(best, signal=_signal(task, best))


def use_as_they_are(task: TrainingTask) -> Trained:
    """Learn a router over experts that were fitted before (cv="prefit"), taking no row to be among those they saw.

    Of many rows the experts are asked for those only that the router learns from.
    """
    if task.settings.specialize:
        raise ValueError("settings.specialize refits experts, but cv='prefit' says to leave them as they are")
    n = len(task.y)
    always = np.zeros(n)
    if task.shared.experts:
        F = task.shared.predict(task.X)
        _check_shared(task, F)
        always = F.sum(axis=1)
    held = _some_entries(task, _in_parts(n, task.seed, task.place, task.units if task.groups is not None else None))
    some = len(held.rows) < n
    F = task.routed.predict(task.X, held.rows) if some else task.routed.predict(task.X)[held.rows]
    fit, view = route(task, replace(held, F=F), task.y - always)
    error = float(fit.loss.error(fit.forecasts).mean())
    experts, shared = ([expert for _, expert in pool.experts] for pool in (task.routed, task.shared))
    stage = TrainingStage(error)
    return Trained(experts, shared, fit, view, False, always, error, (stage,), _by_row(fit.rows, fit.signal, n))


def _signal(task: TrainingTask, trained: Trained) -> Floats:
    """What speaks for gates at every row, (n, 3), from experts and gates that never saw the row, directly or not.

    The out-of-fold forecasts of a row come from experts that were fitted to the responses of rows in other folds, and
    the forecasts in those folds depend on the response of the row: gates that are learned across folds make use of
    it. So the folds are divided into two halves; experts, gates and shares are learned on one half alone and judged
    on the other. Rows in time need no halves, as every forecast depends on the past only. Zeros if no test is asked,
    if there are too few rows or groups for it, or, with a warning, if an expert cannot be fitted to so few.
    """
    n, fit = len(task.y), trained.fit
    distinct = trained.view.distinct
    if not task.settings.test:
        return np.zeros((n, 3))
    if trained.in_time or len(distinct) < 2:
        return _by_row(fit.rows, fit.signal, n)
    target = task.y - trained.always
    folds = _test_folds(task)
    if len(folds) < LEAST_FOLDS:
        return np.zeros((n, 3))
    half = len(folds) // 2
    pairs = ((folds[:half], folds[half:]), (folds[half:], folds[:half]))
    rows = [(np.concatenate(own), np.concatenate(other)) for own, other in pairs]
    try:
        held = [
            task.routed.hold_out(
                task.X, target, [*((np.setdiff1d(known, fold), fold) for fold in own), (known, judged)]
            )
            for (own, _), (known, judged) in zip(pairs, rows, strict=True)
        ]
    except Exception as error:  # whatever an expert says, predictions do not need the test
        warnings.warn(_untested(error), UserWarning, stacklevel=2)
        return np.zeros((n, 3))
    samples = []
    for one in held:
        known = np.flatnonzero(one.fold < len(one.train) - 1)
        samples.append(_prepare(task, replace(one, train=one.train[:-1]), target, known, distinct)[0])
    signal = np.zeros((n, 3))
    candidates = _candidates(task, samples[0].seen, distinct)
    for (_, judged), sample in zip(rows, samples, strict=True):
        signal[judged] = fresh_signal(sample, candidates, task.settings, task.seed)
    if fit.everything is not None:
        signal[task.choosing] = 0.0
    return signal


def _untested(error: Exception) -> str:
    """Why a fit is without its test of gates."""
    whose = " ".join(getattr(error, "__notes__", []))
    return (
        "the test of gates was left out, so the verdict cannot be 'gating pays': it fits the experts to parts of the "
        f"rows, where one failed: {error} {whose}. Predictions are the same; MoESettings(test=False) asks for no test"
    )


def _in_parts(n: int, seed: int, place: Indices | None = None, units: Indices | None = None) -> HeldOut:
    """n rows that no expert saw, as if held out in PARTS random parts, or in halves if many; no forecasts yet.

    Which rows a part has follows from the places (n,) of the rows, where these are given. No part divides a group,
    where the rows have the numbers ``units`` (n,) of groups.
    """
    rng, most = np.random.default_rng(seed), PARTS if n <= MOST_LEARNED else 2
    part, rows = np.sort(np.arange(n) % min(most, n)), rng.permutation(n)
    if place is not None:
        rows = np.argsort(place)[rows]
    if units is not None:
        count = int(units.max()) + 1
        own = (rng.permutation(count) % min(most, count))[units[rows]]
        rows, part = rows[np.argsort(own, kind="stable")], np.sort(own)
    train = tuple(np.sort(rows[part != number]) for number in range(part[-1] + 1))
    return HeldOut(rows, part, np.empty((n, 0)), train)


def _test_folds(task: TrainingTask) -> list[Indices]:
    """Sets of rows that no split divides, and no group: LEAST_FOLDS or more, if rows and groups are so many.

    They have MOST_TESTED rows in all at most.
    """
    rng = np.random.default_rng([task.seed, 2])
    rows = np.concatenate([test for _, test in task.splits])
    if len(task.splits) >= LEAST_FOLDS and len(np.unique(rows)) == len(rows) and not _divided(task):
        folds = [test for _, test in task.splits]
    elif task.units is not None:
        parts = np.array_split(rng.permutation(task.units.max() + 1), TEST_FOLDS)
        folds = [np.flatnonzero(np.isin(task.units, part)) for part in parts]
    else:
        folds = np.array_split(rng.permutation(len(task.y)), TEST_FOLDS)
    total = sum(len(fold) for fold in folds)
    if total > MOST_TESTED:
        folds = [rng.permutation(fold)[: max(1, MOST_TESTED * len(fold) // total)] for fold in folds]
    return [fold for fold in folds if len(fold)]


def _divided(task: TrainingTask) -> bool:
    """Whether rows of one group are held out by different splits."""
    if task.units is None:
        return False
    pairs = [np.column_stack([task.units[test], np.full(len(test), j)]) for j, (_, test) in enumerate(task.splits)]
    held = np.unique(np.concatenate(pairs), axis=0)
    return len(held) > len(np.unique(held[:, 0]))


def _by_row(rows: Indices, values: Floats, n: int) -> Floats:
    """The mean of the values (N, 3) of every row, (n, 3); 0 for a row without a value."""
    counts = np.maximum(np.bincount(rows, minlength=n), 1)
    return np.stack([np.bincount(rows, column, n) / counts for column in values.T], axis=1)


def _stage(task: TrainingTask, routed_part: Floats, weights: Floats | None) -> Trained:
    """One round of backfitting: fit shared experts to y - routed_part, routed ones to the residuals, then the router.

    ``routed_part`` (n,) is the prediction of the routed experts in the round before; ``weights`` (n, M), if given,
    are the sample weights of every routed expert.
    """
    n = len(task.y)
    always = np.zeros(n)
    shared: list[Any] = []
    if task.shared.experts:
        shared, held = task.shared.fit(task.X, task.y - routed_part, task.splits)
        _check_partition(held, n)
        _check_shared(task, held.F)
        always[held.rows] = held.F.sum(axis=1)
    pool = task.routed if weights is None else _weighted(task, weights)
    fit_pool = pool.fit_nested if _nests(task) else pool.fit
    routed, held = fit_pool(task.X, task.y - always, task.splits)
    in_time = held.in_time
    if task.place is not None:
        held = held.in_order(task.place)
    fit, view = route(task, _some_entries(task, held), task.y - always)
    error = float(np.average(fit.loss.error(fit.forecasts), weights=task.sample_weight[fit.rows]))
    stage = TrainingStage(error, _specialization(task, fit))
    return Trained(routed, shared, fit, view, in_time, always, error, (stage,))


def _nests(task: TrainingTask) -> bool:
    """Whether experts are also fitted without pairs of folds: for few rows, in a few folds that are about equal.

    The list that is judged on a fold is then fitted to forecasts of experts that never saw its responses. Splits must
    train on all rows that they do not hold out, so rows in time have no such fits. Nor have classes, as sigmoids are
    fitted to out-of-fold decisions, nor fits with shared experts or specialization: there targets or weights come
    from out-of-fold forecasts, which have seen the other folds.
    """
    n, folds = len(task.y), [test for _, test in task.splits]
    refitted = task.shared.experts or task.settings.specialize
    few = LEAST_NESTED <= n <= MOST_NESTED and LEAST_FOLDS <= len(folds) <= MOST_FOLDS
    if not few or refitted or task.routed.outputs or not np.array_equal(np.sort(np.concatenate(folds)), np.arange(n)):
        return False
    weight, whole = [task.sample_weight[test].sum() for test in folds], task.sample_weight.sum()
    left = min(1.0 - sum(sorted(map(len, folds))[-2:]) / n, 1.0 - sum(sorted(weight)[-2:]) / whole)
    return left >= LEAST_LEFT and all(0 < len(test) == n - len(train) for train, test in task.splits)


def _check_shared(task: TrainingTask, F: Floats) -> None:
    """An error for a shared expert whose forecasts (n, K) leave the range of y: it would be in every prediction."""
    room, middle = float(np.ptp(task.y)), float(np.median(task.y))
    reached = np.abs(F - middle).max(axis=0)
    if reached.max() > WILD * room > 0.0:
        name = task.shared.names[int(reached.argmax())]
        raise ValueError(
            f"shared: forecasts of {name!r} are {reached.max():g} from the median of y, whose range is {room:g}, and "
            "every prediction would have them; leave it out, or scale its inputs"
        )


def _specialization(task: TrainingTask, fit: RouterFit) -> HistoryStep | None:
    """The test of specialization on out-of-fold losses and gate weights, if ``specialize`` asks for it."""
    n, n_experts = fit.F.shape
    if task.settings.specialize == 0 or n_experts < 2 or n < 4:
        return None
    return SpecializationHistory(seed=task.seed).add(fit.loss.error(fit.F), fit.weights)


def _routed_part(task: TrainingTask, trained: Trained) -> Floats:
    """The held-out prediction of the routed experts under their router, (n,)."""
    part = np.zeros(len(task.y))
    part[trained.fit.whole.rows] = trained.fit.whole.forecasts
    return part


def _compare(old: Trained, new: Trained) -> tuple[bool, Trained]:
    """Whether the new round lowers the held-out error by more than WORTH, and the round to keep."""
    history = (*old.history, *new.history)
    better = new.error < (1.0 - WORTH) * old.error
    return better, replace(new if better else old, history=history)


def _specialist_weights(task: TrainingTask, trained: Trained, first: bool) -> Floats:
    """The sample weights for the refit of every expert, (n, M): its gate weight at every row.

    Before the first refit experts may be alike, and then their gate weights are arbitrary: in that case the rows are
    clustered by k-means and expert m gets large weights on cluster m.
    """
    fit, n = trained.fit.whole, len(task.y)
    M = fit.F.shape[1]
    apart = np.mean((fit.F - fit.F.mean(axis=1, keepdims=True)) ** 2)
    Z = task.seen(np.arange(n)).Z if first and apart < ALIKE * trained.error else np.empty((n, 0))
    if Z.shape[1]:
        from sklearn.cluster import KMeans  # noqa: PLC0415 - slow to import

        centers = KMeans(M, n_init=4, random_state=task.seed).fit(Z).cluster_centers_
        distances = ((Z[:, None, :] - centers) ** 2).sum(axis=2)
        return np.asarray(softmax(-distances / distances.min(axis=1).mean(), axis=1))
    weights = np.full((n, M), 1.0 / M)
    weights[fit.rows] = fit.weights
    return weights


def _weighted(task: TrainingTask, weights: Floats) -> Pool:
    params = {}
    for m, (name, expert) in enumerate(task.routed.experts):
        own = weights[:, m] if weights[:, m].any() else 1.0  # an expert that no candidate uses stays as it is
        share = own * task.sample_weight
        fitted = expert.classifier if task.routed.outputs else expert  # of a `ClassExpert`
        given = weight_params(fitted, share / (share.mean() or 1.0))
        if not given:
            raise ValueError(f"settings.specialize needs experts that take sample_weight in fit; {name!r} does not")
        params[name] = {**task.routed.params.get(name, {}), **given}
    return replace(task.routed, params=params)


def _check_partition(held: HeldOut, n: int) -> None:
    if len(held.rows) != n or len(np.unique(held.rows)) != n:
        raise ValueError("shared experts need a cv that holds out every row exactly once, such as KFold")
