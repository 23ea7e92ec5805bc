"""The list fitted on a sample of rows, and its members without trees: constant weights, and softmax gates.

A group of members is fitted at once, for all samples. Member s of it predicts sum_m g_sm(x) f_m(x) + h_s(x): weights
on the simplex, and a shared part, which is zero for most members.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isqrt, pi
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from scipy.special import softmax

from gatewise import kernels
from gatewise.arrays import FieldsOnly, Floats, Indices, TINY
from gatewise.gates.feature_maps import about_what_matters, FixedFeatures, GateFeatures, MOST_ROWS
from gatewise.gates.inputs import Inputs
from gatewise.kernels.simd.tile import TILE
from gatewise.losses import Loss, ResidualLoss
from gatewise.router.candidates import Candidate, CONVEX, GREEDY
from gatewise.router.class_rows import ClassRows
from gatewise.solvers.simplex_least_squares import greedy_stacks
from gatewise.solvers.softmax_path import (
    Columns,
    FittedPath,
    GatePath,
    PathRequest,
    RowSample,
    sample_paths,
    stack_weights,
)

# The part of the reference that is divided equally: an expert to which the stack gives no weight may win somewhere.
FLOOR = 0.05
GATE_SPREAD = 1.0  # prior standard deviation of the correction's coefficients beside a gate
# What may be missing in predictions, in units of the noise, or of a probability. n rows leave a gate of C
# coefficients uncertain by about sqrt(C / n) units of the noise, many times as much. But where a sharp gate is the
# truth and noise is small, 1e-2 costs a tenth of the excess error.
FINE, FINE_PROBABILITY = 3e-3, 1e-2
RIDGE_FINE = 1e-4  # the same where only a linear part is fitted, which costs little
WHOLE = 4096  # entries up to which the features of all are held; of more, so many at a time
FEW_ROWS = 8  # that are weighed one by one, and not in batches
LEAST_ERROR = 1e-3  # of an expert's mean squared error is added to every squared error before its log is taken
# Of the log of a squared error about what is expected of it: that of the log of the square of a normal number.
LOG_VARIANCE = pi**2 / 2.0
MOST_GATE_ROWS, ROWS_PER_COEFFICIENT = (
    20_000,
    10,
)  # that softmax gates are fitted to, before their number grows slower


@dataclass(frozen=True, eq=False)
class ListRows:
    """What the members of the list see of n rows.

    ``inputs`` are the gates' view of the rows, and ``F`` (n, M) the experts' forecasts. Where responses are classes,
    F has the probabilities of the class that was observed, and ``classes`` those of all classes. ``maps`` has the
    features of every softmax gate by its name, where gates are to be fitted. With several views the same entries come
    so many times, one view after the other, with other forecasts in each.
    """

    inputs: Inputs
    F: Floats
    classes: ClassRows | None = None
    maps: Mapping[str, GateFeatures] = field(default_factory=dict)
    n_views: int = 1

    def __len__(self) -> int:
        return len(self.inputs.inside)

    def part(self, rows: Indices) -> "ListRows":
        """Some of the rows, as one view."""
        classes = None if self.classes is None else self.classes.part(rows)
        return ListRows(self.inputs[rows], self.F[rows], classes, self.maps)

    @property
    def looked(self) -> Floats:
        """What a gate that looks at forecasts sees of them, (n, M)."""
        return self.F if self.classes is None else self.classes.confidence


@dataclass(frozen=True, eq=False)
class FeatureRows:
    """The features (n, p) of a gate at n rows, which are computed where they are asked for."""

    map: GateFeatures
    rows: ListRows

    @property
    def shape(self) -> tuple[int, int]:
        """(n, p)."""
        return len(self.rows), self.map.n_features

    def __getitem__(self, rows: Any) -> Floats:
        return self.map.features(self.rows.inputs[rows], self.rows.looked[rows])


def feature_columns(maps: Mapping[str, GateFeatures], rows: ListRows) -> dict[str, Columns]:
    """The features (n, p) of gates by their names; of many rows they are computed where they are asked for."""
    if len(rows.F) // rows.n_views > WHOLE:
        return {name: FeatureRows(one, rows) for name, one in maps.items()}
    looked = rows.looked
    return {name: one.features(rows.inputs, looked) for name, one in maps.items()}


@dataclass(frozen=True, eq=False)
class CommonFit(FieldsOnly):
    """What all members of one list share: the convex stack, the centre of the forecasts, and units.

    The ``reference`` is the weights that a gate has when all its scores are zero: the stack, mixed with a little of
    the mean. ``unit`` is the scale of the reference's residuals. ``origin`` and ``width`` are the centre and the size
    of the columns that trees split, the same for all samples of the rows, and ``order`` is their order: that of the
    experts' variances, so that the order in which experts are given does not matter.
    """

    stack: Floats  # (M,)
    unit: float
    center: Floats  # (M,)
    origin: Floats  # (M,)
    width: float
    order: Indices  # (M,)

    @cached_property
    def reference(self) -> Floats:
        """The weights (M,) that gates start from."""
        return mixed_with_mean(self.stack)

    def linear_columns(self, F: Floats) -> Floats:
        """The columns (n, 1 + M) of a linear correction: a constant, and the forecasts about their means."""
        return np.column_stack([np.full(len(F), self.unit), F - self.center])


@dataclass(frozen=True, eq=False)
class ListTask:
    """Rows with their loss, the samples of them that the list is fitted to, and what each of these fits shares.

    ``errors`` (n, M) are those of the experts' forecasts.
    """

    rows: ListRows
    loss: Loss
    errors: Floats
    samples: tuple[RowSample, ...]
    commons: tuple[CommonFit, ...]
    n_entries: int  # rows of one view

    @classmethod
    def prepare(
        cls, rows: ListRows, loss: Loss, weights: Floats, asked: list[Indices], follows: bool = False
    ) -> Self:
        """The task of samples with the weights (k, n), each to predict the rows that it is asked for.

        With ``follows`` the gates of the last sample start near the mean of the others'.
        """
        F, ones = rows.F, np.ones(rows.F.shape[1])
        stacks = stack_weights(F, loss, weights)
        references = np.array([mixed_with_mean(stack) for stack in stacks])
        scales = np.broadcast_to(loss.calibrated(F @ references.T, weights.T).scale, len(stacks)).tolist()
        errors = loss.error(F)
        centers = weights @ F / weights.sum(axis=1, keepdims=True)
        variances = np.average((F - centers[0]) ** 2, axis=0, weights=weights[0])
        common = centers[0], float(np.sqrt(variances.mean())) or 1.0, np.argsort(variances, kind="stable")
        samples, commons = [], []
        for j, scale in enumerate(scales):
            linear = np.append(0.0, centers[j]), np.append(scale, ones)
            last = follows and j == len(scales) - 1
            samples.append(RowSample(references[j], weights[j], scale, asked[j], *linear, last))
            commons.append(CommonFit(stacks[j], scale, centers[j], *common))
        return cls(rows, loss, errors, tuple(samples), tuple(commons), len(F) // rows.n_views)


def mixed_with_mean(stack: Floats) -> Floats:
    """The stack's weights (M,) with a little of equal weights mixed in."""
    return np.asarray((1.0 - FLOOR) * stack + FLOOR / len(stack))


class FittedMembers(Protocol):
    """A fitted group of members of the list."""

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """The members before they were fitted."""
        ...

    def add_weights(self, shares: Floats, rows: ListRows, total: Floats) -> None:
        """Add sum_s share_s g_s to ``total`` (n, M)."""
        ...

    def shared_parts(self, shares: Floats, rows: ListRows) -> dict[str, Floats]:
        """What is added to the mixture, sum_s share_s h_s, by the name of the part, (n,) or (n, C) each."""
        ...

    def forecasts(self, rows: ListRows) -> Floats:
        """The prediction of every member, (n, S)."""
        ...


@dataclass(frozen=True, eq=False)
class FittedList:
    """All candidates fitted on one sample of rows.

    Candidate s predicts sum_m g_sm(x) f_m(x) + h_s(x), with weights on the simplex and a shared part. The candidates
    are those of the ``groups``, one after the other.
    """

    candidates: tuple[Candidate, ...]
    common: CommonFit
    groups: tuple[FittedMembers, ...]

    @property
    def stack(self) -> Floats:
        """The weights of the convex stack, (M,)."""
        return self.common.stack

    def mean_weights(self, shares: Floats, rows: ListRows) -> Floats:
        """The gate sum_s share_s g_s at n rows, (n, M), without an array of all gates."""
        total = np.zeros((len(rows), len(self.stack)))
        for group, part in self._with_parts(shares):
            group.add_weights(part, rows, total)
        return total

    def shared_parts(self, shares: Floats, rows: ListRows) -> dict[str, Floats]:
        """What is added to the mixture by these shares, by the name of the part, (n,) or (n, C) each."""
        total: dict[str, Floats] = {}
        for group, part in self._with_parts(shares):
            for name, values in group.shared_parts(part, rows).items():
                total[name] = total[name] + values if name in total else values
        return total

    def forecasts(self, rows: ListRows) -> Floats:
        """The prediction of every candidate, (n, S)."""
        return np.concatenate([group.forecasts(rows) for group in self.groups], axis=1)

    def looks(self, name: str) -> bool:
        """Whether the softmax gate of this name, if there is one, looks at the experts' forecasts."""
        maps = [group.maps for group in self.groups if isinstance(group, SoftmaxMembers)]
        return any(own[name].needs_forecasts for own in maps if name in own)

    def _with_parts(self, shares: Floats) -> list[tuple[FittedMembers, Floats]]:
        """The groups that have a share, each with the shares of its candidates."""
        parts, start = [], 0
        for group in self.groups:
            part = shares[start : start + len(group.candidates)]
            start += len(part)
            if part.any():
                parts.append((group, part))
        return parts


FittedGroup = list[
    tuple[FittedMembers, Floats]
]  # a group fitted to every sample, and forecasts of the rows asked for


@dataclass(frozen=True, eq=False)
class PlainMembers:
    """Constant weights (S, M), some with a linear correction (S, 1 + M) that is added."""

    candidates: tuple[Candidate, ...]
    common: CommonFit
    weights: Floats
    correction: Floats

    @classmethod
    def fit(cls, candidates: tuple[Candidate, ...], task: ListTask) -> FittedGroup:
        """Fit the corrections; the weights are those of single experts, of the mean, and of stacks."""
        F, M = task.rows.F, task.rows.F.shape[1]
        corrected = [s for s, c in enumerate(candidates) if c.corrected]
        still = np.zeros((len(F), 0))  # a gate without features stays at the reference
        linear = np.column_stack([np.ones(len(F)), F])
        spreads = [candidates[s].spread for s in corrected]
        ridge = PathRequest(still, np.ones(len(corrected)), linear, spreads, accuracy=RIDGE_FINE)
        fits = sample_paths([ridge], F, task.loss, task.samples) if corrected else [[] for _ in task.samples]
        greedy = np.zeros((len(fits), M))
        if isinstance(task.loss, ResidualLoss) and GREEDY in candidates:
            greedy = greedy_stacks(F, task.loss.y, np.stack([sample.sample_weight for sample in task.samples]))
        groups: FittedGroup = []
        for common, sample, paths, selected in zip(task.commons, task.samples, fits, greedy, strict=True):
            weights, correction = np.full((len(candidates), M), 1.0 / M), np.zeros((len(candidates), M + 1))
            weights[[c.kind == "single" for c in candidates]] = np.eye(M)
            weights[[c == CONVEX for c in candidates]] = common.stack
            weights[[c == GREEDY for c in candidates]] = selected
            weights[corrected] = sample.reference
            forecasts = F[sample.asked] @ weights.T
            for one in paths:
                correction[corrected], forecasts[:, corrected] = one.path.linear, one.mixtures[:, 0].T
            groups.append((cls(candidates, common, weights, correction), forecasts))
        return groups

    def add_weights(self, shares: Floats, rows: ListRows, total: Floats) -> None:  # noqa: ARG002 - constant in x
        total += shares @ self.weights

    def shared_parts(self, shares: Floats, rows: ListRows) -> dict[str, Floats]:
        return linear_parts(self.common, shares @ self.correction, rows.F)

    def forecasts(self, rows: ListRows) -> Floats:
        return np.asarray(rows.F @ self.weights.T + self.common.linear_columns(rows.F) @ self.correction.T)


def _thinned(sample: RowSample, most: int) -> RowSample:
    """The sample, or, if it has n > most rows, one with weight in some of its blocks only: sqrt(n most) rows.

    The blocks are those that are fitted at once, evenly spaced.
    """
    given = sample.sample_weight
    n = int(np.count_nonzero(given))
    if n <= most:
        return sample
    blocks = np.flatnonzero(np.add.reduceat(given, np.arange(0, len(given), TILE)))
    places = np.linspace(0, len(blocks) - 1, max(1, isqrt(n * most) * len(blocks) // n)).round().astype(np.intp)
    kept = np.isin(np.arange(len(given)) // TILE, blocks[places])
    return sample._replace(sample_weight=np.where(kept, given, 0.0))


def sample_maps(task: ListTask, names: Iterable[str]) -> list[dict[str, GateFeatures]]:
    """The feature maps of these gates for every sample: those of the rows, about the inputs that matter to a sample.

    Which inputs matter is told by the responses of the sample's own rows.
    """
    maps, inputs = {name: task.rows.maps[name] for name in names}, task.rows.inputs
    if all(isinstance(one, FixedFeatures) for one in maps.values()):
        return [maps for _ in task.samples]
    if task.rows.n_views > 1:
        n = task.n_entries
        inputs = Inputs(inputs.Z[:n], inputs.inside[:n], inputs.columns[:n])
    return about_what_matters(maps, inputs, _pulls(task))


def _pulls(task: ListTask) -> list[tuple[Indices, Floats]]:
    """Some entries of every sample, and the slopes (rows, M) of the loss there in the scores, at the reference."""
    apart = -(-task.n_entries // (2 * MOST_ROWS))
    some, samples = np.arange(0, len(task.rows.F), apart), task.samples
    F, references = task.rows.F[some], np.stack([sample.reference for sample in samples])
    z, scales = F @ references.T, np.array([sample.scale for sample in samples])
    slopes = task.loss.part(some).scaled(scales).slope(z)
    found = []
    for j, sample in enumerate(samples):
        weight = sample.sample_weight[some]
        kept = np.flatnonzero(weight)
        pulls = (weight * slopes[:, j])[kept, None] * (references[j] * (F[kept] - z[kept, j][:, None]))
        found.append((some[kept] % task.n_entries, pulls))
    return found


def _shared_maps(maps: list[dict[str, GateFeatures]]) -> dict[tuple[int, ...], list[str]]:
    """The names of gates by the samples that have the same map for them."""
    groups: dict[tuple[int, ...], list[str]] = {}
    for name in maps[0]:
        same: dict[int, list[int]] = {}
        for number, own in enumerate(maps):
            same.setdefault(id(own[name]), []).append(number)
        for numbers in same.values():
            groups.setdefault(tuple(numbers), []).append(name)
    return groups


def linear_parts(common: CommonFit, coefficients: Floats, F: Floats) -> dict[str, Floats]:
    """A linear correction with coefficients (1 + M,) as an intercept and a combination of the forecasts F (n, M)."""
    if not coefficients.any():
        return {}
    constant = common.unit * coefficients[0] - coefficients[1:] @ common.center
    return {"intercept": np.full(len(F), constant), "linear correction": F @ coefficients[1:]}


class ExpectedErrors(NamedTuple):
    """What a ridge regression expects of the log squared error of every expert: level + features . slopes.

    An expert whose error the inputs say nothing about is expected at its mean everywhere, and so is every expert far
    from the data.
    """

    level: Floats  # (M,)
    slopes: Floats  # (M, p)

    def gate(self, candidate: Candidate, reference: Floats) -> Floats:
        """The parameters (M, 1 + p) of an error gate, those of a constant first."""
        level = np.log(reference) if candidate.start == "stack" else -candidate.steepness * self.level
        return np.column_stack([level, -candidate.steepness * self.slopes])


class _PathPlan(NamedTuple):
    """What is fitted for some softmax gates: spreads by name, numbers of active experts by name and correction."""

    names: tuple[str, ...]
    spreads: dict[str, tuple[float, ...]]
    ks: dict[tuple[str, bool], list[int]]
    steep: tuple[str, ...]  # names of gates with error gates

    @classmethod
    def of(cls, candidates: Sequence[Candidate]) -> Self:
        """What these candidates ask for."""
        searched = [c for c in candidates if not c.steepness]
        spreads: dict[str, tuple[float, ...]] = {}
        ks: dict[tuple[str, bool], list[int]] = {(c.name, c.corrected): [] for c in searched}
        for c in searched:
            spreads[c.name] = tuple(sorted({*spreads.get(c.name, ()), c.spread}))
            if c.k is not None and c.k not in ks[c.name, False]:
                ks[c.name, False].append(c.k)
        names, steep = ({c.name: None for c in some} for some in (candidates, [c for c in candidates if c.steepness]))
        return cls(tuple(names), spreads, ks, tuple(steep))

    def place(self, candidate: Candidate) -> tuple[int, int]:
        """Where the mixtures of a candidate are among those that come with its path."""
        active = 1 + self.ks[candidate.name, False].index(candidate.k) if candidate.k else 0
        return self.spreads[candidate.name].index(candidate.spread), active


class _GateFits(NamedTuple):
    """What was fitted to one sample: paths, expected errors by name, and mixtures of error gates where asked."""

    paths: dict[tuple[str, bool], FittedPath]
    errors: dict[str, ExpectedErrors]
    mixtures: dict[Candidate, Floats]

    def alone(self) -> dict[tuple[str, bool], GatePath]:
        """The paths without their mixtures."""
        return {gate: one.path for gate, one in self.paths.items()}


def _expected_errors(features: Columns, errors: Floats, weights: Floats) -> list[ExpectedErrors]:
    """The expectations from features (n, p) and errors (n, M), for every row of weights (k, n), block by block."""
    (k, _), M, p = weights.shape, errors.shape[1], features.shape[1]
    total = weights.sum(axis=1, keepdims=True)
    mean = weights @ errors / total
    least = LEAST_ERROR * np.maximum(mean, LEAST_ERROR * mean.max(axis=1, keepdims=True))
    precision = np.tile(LOG_VARIANCE * np.eye(p), (k, 1, 1))  # slopes have a variance of one
    both, sums, level = np.zeros((k, p, M)), np.zeros((k, p, 1)), np.zeros((k, 1, M))
    used = np.flatnonzero(weights.any(axis=0))
    for start in range(0, len(used), WHOLE):
        rows = used[start : start + WHOLE]
        columns, found = features[rows], errors[rows]
        for j in range(k):
            own = np.flatnonzero(weights[j, rows])
            weight, logs = weights[j, rows[own], None], np.log(np.maximum(found[own] + least[j], TINY))
            heavy = weight * columns[own]
            precision[j] += heavy.T @ columns[own]
            both[j] += heavy.T @ logs
            sums[j, :, 0] += heavy.sum(axis=0)
            level[j] += weight.T @ logs / total[j]
    slopes = np.linalg.solve(precision, both - sums * level)
    return [ExpectedErrors(level[j, 0], slopes[j].T) for j in range(k)]


def _gate_mixtures(
    gates: Sequence[tuple[Floats, int | None]], features: Columns, F: Floats, asked: Indices
) -> Floats:
    """The mixtures (gates, rows) by gates, given by parameters (M, 1 + p) and k, at the rows asked for."""
    out = np.empty((len(gates), len(asked)))
    for start in range(0, len(asked), WHOLE):
        rows = asked[start : start + WHOLE]
        columns, forecasts = features[rows], F[rows]
        for s, (parameters, k) in enumerate(gates):
            out[s, start : start + WHOLE] = _mixture(parameters, k, columns, forecasts)
    return out


def _mixture(parameters: Floats, k: int | None, features: Floats, F: Floats) -> Floats:
    """The mixture (n,) of forecasts F (n, M) by a gate with parameters (M, 1 + p), those of a constant first."""
    scores = parameters[:, 0] + features @ parameters[:, 1:].T
    if k is None:
        weights = softmax(scores, axis=1)
    else:
        weights = np.empty(F.shape)
        kernels.softmax_rows(scores, scores, k, weights)  # ties go to the smaller index
    return np.asarray(np.einsum("im,im->i", weights, F))


@dataclass(frozen=True, eq=False)
class SoftmaxMembers(FieldsOnly):
    """Softmax gates, each with a path of spreads; some with a linear correction that is fitted with the gate.

    ``maps`` has the features of every gate by its name. ``paths`` holds the fitted gates by name and by whether they
    are corrected, one for each of the ``spreads`` of that name. Error gates have weights that fall with the squared
    errors that are expected of the experts: ``errors`` has the expectations by the gate's name.
    """

    candidates: tuple[Candidate, ...]
    common: CommonFit
    maps: Mapping[str, GateFeatures]
    paths: Mapping[tuple[str, bool], GatePath]
    spreads: Mapping[str, tuple[float, ...]]
    errors: Mapping[str, ExpectedErrors]

    @classmethod
    def fit(cls, candidates: tuple[Candidate, ...], task: ListTask) -> FittedGroup:
        """Fit every gate along its path, and the regressions of errors."""
        plan, F = _PathPlan.of(candidates), task.rows.F
        linear, maps = np.column_stack([np.ones(len(F)), F]), sample_maps(task, plan.names)
        accuracy = FINE if task.loss.additive else FINE_PROBABILITY
        fits = [_GateFits({}, {}, {}) for _ in task.samples]
        for numbers, names in _shared_maps(maps).items():
            features = feature_columns({name: maps[numbers[0]][name] for name in names}, task.rows)
            here = [(name, on) for name, on in plan.ks if name in features]
            requests = [
                PathRequest(features[name], plan.spreads[name], linear if on else None, GATE_SPREAD, ks, accuracy)
                for (name, on), ks in plan.ks.items()
                if name in features
            ]
            widest = max(one.shape[1] for one in features.values())
            most = max(MOST_GATE_ROWS, ROWS_PER_COEFFICIENT * F.shape[1] * widest)
            samples = [_thinned(task.samples[j], most) for j in numbers]
            if requests:
                for j, paths in zip(numbers, sample_paths(requests, F, task.loss, samples), strict=True):
                    fits[j].paths.update(zip(here, paths, strict=True))
            for name in [name for name in plan.steep if name in features]:
                weights = np.stack([sample.sample_weight for sample in samples])
                gates = [c for c in candidates if c.steepness and c.name == name]
                for j, one in zip(numbers, _expected_errors(features[name], task.errors, weights), strict=True):
                    own = [(one.gate(c, task.commons[j].reference), c.k) for c in gates]
                    mixtures = _gate_mixtures(own, features[name], F, task.samples[j].asked)
                    fits[j].errors[name] = one
                    fits[j].mixtures.update(zip(gates, mixtures, strict=True))
        groups: FittedGroup = []
        for fit, own_maps, common in zip(fits, maps, task.commons, strict=True):
            members = cls(candidates, common, own_maps, fit.alone(), plan.spreads, fit.errors)
            columns = [
                fit.mixtures[c] if c.steepness else fit.paths[c.name, c.corrected].mixtures[plan.place(c)]
                for c in candidates
            ]
            groups.append((members, np.stack(columns, axis=1)))
        return groups

    def __getstate__(self) -> dict[str, Any]:
        """The paths as a list of pairs: a model file holds no mapping whose keys are not text."""
        return {**super().__getstate__(), "paths": list(self.paths.items())}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, paths=dict(state["paths"]))

    def add_weights(self, shares: Floats, rows: ListRows, total: Floats) -> None:
        n = len(rows)
        used = {name: one for name, one in self._stacked.items() if shares[one[0]].any()}
        looked = rows.looked
        features = {name: self.maps[name].features(rows.inputs, looked) for name in used}
        for name, (places, ks, thetas) in used.items():
            part = shares[places]
            if n <= FEW_ROWS:
                kernels.add_few_softmax(features[name], thetas, ks, part, total)
                continue
            columns = np.column_stack([np.ones(n), features[name]])
            for k in np.unique(ks[part > 0.0]).tolist():
                chosen = np.flatnonzero((ks == k) & (part > 0.0))
                kernels.add_linear_softmax(columns, thetas[chosen], k, part[chosen], total)

    def shared_parts(self, shares: Floats, rows: ListRows) -> dict[str, Floats]:
        return linear_parts(self.common, shares @ self._corrections, rows.F)

    @cached_property
    def _stacked(self) -> dict[str, tuple[Indices, Indices, Floats]]:
        """By name: the places of the gates in the list, their numbers of active experts, and parameters.

        The parameters (S', M - 1, 1 + p) are those of an expert less those of the last one, behind the same
        difference of log references.
        """
        groups: dict[str, list[int]] = {}
        for s, c in enumerate(self.candidates):
            groups.setdefault(c.name, []).append(s)
        M, stacked = len(self.common.stack), {}
        for name, places in groups.items():
            members = [self.candidates[s] for s in places]
            whole = np.stack([self._parameters(c) for c in members])
            ks = np.array([c.k or M for c in members])
            stacked[name] = np.array(places), ks, np.ascontiguousarray(whole[:, :-1] - whole[:, -1:])
        return stacked

    @cached_property
    def _corrections(self) -> Floats:
        """The coefficients of the linear corrections, (S, 1 + M)."""
        return np.stack([self._correction(c) for c in self.candidates])

    def forecasts(self, rows: ListRows) -> Floats:
        out, linear = np.empty((len(rows), len(self.candidates))), self.common.linear_columns(rows.F)
        features = {name: one.features(rows.inputs, rows.looked) for name, one in self.maps.items()}
        for s, c in enumerate(self.candidates):
            out[:, s] = _mixture(self._parameters(c), c.k, features[c.name], rows.F)
            if c.corrected:
                out[:, s] += linear @ self._correction(c)
        return out

    def _parameters(self, c: Candidate) -> Floats:
        """The parameters (M, 1 + p) of a gate, those of a constant first."""
        if c.steepness:
            return self.errors[c.name].gate(c, self.common.reference)
        theta = self.paths[c.name, c.corrected].theta[self.spreads[c.name].index(c.spread)]
        return np.column_stack([np.log(self.common.reference), theta])

    def _correction(self, c: Candidate) -> Floats:
        if not c.corrected:
            return np.zeros(len(self.common.stack) + 1)
        return np.asarray(self.paths[c.name, True].linear[self.spreads[c.name].index(c.spread)])
