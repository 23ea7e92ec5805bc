"""Members of the list beyond softmax gates: gates of boosted trees, and shared parts on inputs and forecasts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Self

import numpy as np
from scipy.special import softmax

from gatewise import kernels
from gatewise.arrays import Floats, Indices
from gatewise.gates.feature_maps import faded
from gatewise.losses import Gaussian, Loss, ResidualLoss
from gatewise.router.candidates import Candidate
from gatewise.router.members import CommonFit, FittedGroup, ListRows, ListTask, RIDGE_FINE
from gatewise.solvers.softmax_path import GRID, PathRequest, RowSample, sample_paths

GATE_DEPTHS, GATE_SHRINKAGE, GATE_ROUNDS = (3, 7), 0.3, (8, 32)
GATE_BAGS = 2  # boosted gates whose scores are averaged, where rows are so many that a tree is grown on some of them
SHARED_DEPTH, SHARED_SHRINKAGE, SHARED_ROUNDS = 4, 0.1, (15, 60)
LEAST_LEAF = 3  # rows in a leaf of a forest, at least
PRODUCT_SPREADS = (0.03, 0.1, 0.3, 1.0)  # prior standard deviations of the coefficients of products
FARTHEST = 3.0  # inputs in products stop here, in standard deviations: outside of the data lines lead anywhere
MOST_PRODUCTS, MOST_PRODUCT_ROWS = 400, 20_000


def tree_gates() -> list[Candidate]:
    """The gates of boosted trees in the list: every depth with every number of rounds."""
    return [Candidate("gate", "tree", depth=depth, trees=rounds) for depth in GATE_DEPTHS for rounds in GATE_ROUNDS]


def shared_learners(names: Sequence[str]) -> list[Candidate]:
    """The shared parts in the list, by the names of their learners: "forest", "boosted" and "products"."""
    listed = {
        "forest": [Candidate("shared", "forest")],
        "boosted": [Candidate("shared", "boosted", trees=rounds) for rounds in SHARED_ROUNDS],
        "products": [Candidate("shared", "products", spread=spread) for spread in PRODUCT_SPREADS],
    }
    return [c for name, members in listed.items() if name in names for c in members]


def boosting_samples(task: ListTask) -> list[kernels.BoostingSample]:
    """The samples of a task, as boosting takes them."""
    return [kernels.BoostingSample(s.reference, s.sample_weight, s.scale, s.asked) for s in task.samples]


@dataclass(frozen=True, eq=False)
class BoostingFrame:
    """How boosting sees forecasts and responses: (F - center) / unit, rounded, with the experts in an ``order``.

    A cut may hang on the last bit of a number. So the same rows in other units of y, or with the experts in another
    order, are the same bits here. Forecasts that have no unit, as probabilities, keep their values.
    """

    center: float
    unit: float
    order: Indices  # (M,)

    @classmethod
    def of(cls, task: ListTask) -> Self:
        """The frame of all samples of a task: the unit is near the noise of the first, by a power of two."""
        common = task.commons[0]
        if not isinstance(task.loss, ResidualLoss):
            return cls(0.0, 0.0, common.order)
        times = 2.0 ** np.rint(np.log2(common.unit / common.width))
        return cls(float(common.origin[common.order].mean()), float(common.width * times), common.order)

    def problem(self, columns: Floats, task: ListTask) -> kernels.BoostingProblem:
        """Trees on columns (n, p), for mixtures of the task's forecasts and their loss."""
        F, loss = task.rows.F[:, self.order], task.loss
        if isinstance(loss, ResidualLoss):
            F, y = (_on_grid((values - self.center) / self.unit) for values in (F, loss.y))
            loss = ResidualLoss(y, loss.noise)
        return boosting_problem(columns, F, loss)

    def samples(self, task: ListTask, references: Sequence[Floats]) -> list[kernels.BoostingSample]:
        """The samples of the task, with references (M,) of their own."""
        samples, kept = boosting_samples(task), _on_grid(np.stack(references)[:, self.order])
        if not self.unit:
            return [one._replace(reference=own) for one, own in zip(samples, kept, strict=True)]
        scales = np.maximum(_on_grid(np.array([one.scale for one in samples]) / self.unit), GRID).tolist()
        together = zip(samples, kept, scales, strict=True)
        return [one._replace(reference=own, scale=scale) for one, own, scale in together]

    def by_expert(self, found: kernels.Boosted) -> kernels.Boosted:
        """Boosted scores with the experts in the order of the task again."""
        back = np.argsort(self.order)
        value = np.ascontiguousarray(found.trees.value[:, back])
        return kernels.Boosted(found.trees._replace(value=value), found.outputs[:, :, back])


def _on_grid(values: Floats) -> Floats:
    """The values to the next multiple of GRID, as the softmax gates see them."""
    return np.asarray(np.rint(values / GRID) * GRID)


def forecast_tree_columns(common: CommonFit, rows: ListRows) -> Floats:
    """The columns (n, p + M) that a learner on inputs and forecasts splits."""
    forecasts = _on_grid((rows.F - common.origin)[:, common.order] / common.width)
    return np.column_stack([rows.inputs.columns, forecasts])


def boosting_problem(columns: Floats, F: Floats, loss: Loss) -> kernels.BoostingProblem:
    """Trees on columns (n, p), for mixtures of forecasts F (n, M) and their loss."""
    if isinstance(loss, ResidualLoss) and isinstance(loss.noise, Gaussian):
        return kernels.BoostingProblem(columns, F, loss.y)

    def judge(z: Floats, places: Indices, scale: float) -> tuple[Floats, Floats]:
        here = loss.scaled(scale).part(places)
        return here.slope(z), here.curvature(z)

    return kernels.BoostingProblem(columns, F, judge=judge)


@dataclass(frozen=True, eq=False)
class TreeGates:
    """Gates whose scores are sums of boosted trees in the inputs: ``trees`` has the ensemble of every depth.

    With many rows the scores of deep trees are means over GATE_BAGS ensembles, and each round has a tree of every one
    of them. Far from the data the scores fall to zero, and the gate is its reference there.
    """

    candidates: tuple[Candidate, ...]
    common: CommonFit
    trees: Mapping[str, kernels.Trees]

    @classmethod
    def fit(cls, candidates: tuple[Candidate, ...], task: ListTask, seed: int) -> FittedGroup:
        """Boost the scores of every gate."""
        rows = task.rows
        frame = BoostingFrame.of(task)
        problem = frame.problem(rows.inputs.columns, task)
        samples = frame.samples(task, [sample.reference for sample in task.samples])
        rounds = {c.depth: tuple(sorted(o.trees for o in candidates if o.depth == c.depth)) for c in candidates}
        found = {}
        for depth in sorted(rounds):
            bags = GATE_BAGS if depth == GATE_DEPTHS[-1] else 1  # shallow trees vary little
            plan = kernels.Boosting(depth, GATE_SHRINKAGE, rounds[depth], bags)
            found[depth] = kernels.boost(problem, samples, "scores", plan, seed)
        found = {depth: [frame.by_expert(one) for one in fits] for depth, fits in found.items()}
        groups: FittedGroup = []
        for number, (common, sample) in enumerate(zip(task.commons, task.samples, strict=True)):
            offset, inside, F = np.log(sample.reference), rows.inputs.inside[sample.asked], rows.F[sample.asked]
            columns = []
            for c in candidates:
                scores = found[c.depth][number].outputs[rounds[c.depth].index(c.trees)]
                weights = softmax(offset + scores * inside[:, None], axis=1)
                columns.append(np.einsum("im,im->i", weights, F))
            trees = {str(depth): fits[number].trees for depth, fits in found.items()}
            groups.append((cls(candidates, common, trees), np.stack(columns, axis=1)))
        return groups

    def add_weights(self, shares: Floats, rows: ListRows, total: Floats) -> None:
        most = {c.depth: c.trees for c in sorted(self.candidates, key=attrgetter("trees"))}  # rounds of all trees
        columns, inside, offset = rows.inputs.columns, rows.inputs.inside[:, None], np.log(self.common.reference)
        for s in np.flatnonzero(shares).tolist():
            c = self.candidates[s]
            trees = self.trees[str(c.depth)]
            scores = kernels.tree_sums(columns, trees, c.trees * (len(trees.roots) - 1) // most[c.depth]) * inside
            total += shares[s] * softmax(offset + scores, axis=1)

    def shared_parts(self, shares: Floats, rows: ListRows) -> dict[str, Floats]:  # noqa: ARG002 - there is none
        return {}

    def forecasts(self, rows: ListRows) -> Floats:
        out = np.empty((len(rows), len(self.candidates)))
        for s, alone in enumerate(np.eye(len(self.candidates))):
            weights = np.zeros(rows.F.shape)
            self.add_weights(alone, rows, weights)
            out[:, s] = np.einsum("im,im->i", weights, rows.F)
        return out


@dataclass(frozen=True, eq=False)
class SharedLearners:
    """The convex stack plus a shared part: what a learner on inputs and forecasts adds to it.

    "boosted" trees are fitted to what the stack leaves. A "forest" is fitted to the response; its shared part is the
    difference of its prediction and the stack's, so that the weights of the experts still have sum one.
    """

    candidates: tuple[Candidate, ...]
    common: CommonFit
    trees: Mapping[str, kernels.Trees]

    @classmethod
    def fit(cls, candidates: tuple[Candidate, ...], task: ListTask, seed: int) -> FittedGroup:
        """Fit every learner; the loss must be one of residuals."""
        assert isinstance(task.loss, ResidualLoss)  # other losses have no shared parts in their lists
        columns, samples = forecast_tree_columns(task.commons[0], task.rows), boosting_samples(task)
        rounds = tuple(sorted(c.trees for c in candidates if c.name == "boosted"))
        boosted: list[kernels.Boosted] = []
        if rounds:
            frame, plan = BoostingFrame.of(task), kernels.Boosting(SHARED_DEPTH, SHARED_SHRINKAGE, rounds)
            stacked = frame.samples(task, [common.stack for common in task.commons])
            boosted = kernels.boost(frame.problem(columns, task), stacked, "shared", plan, seed)
        grown: list[tuple[kernels.Trees, Floats]] = []
        if any(c.name == "forest" for c in candidates):
            targets = _on_grid(np.stack([(task.loss.y - c.center @ c.stack) / c.unit for c in task.commons]))
            grown = kernels.forests(columns, list(targets), samples, LEAST_LEAF, seed)
        groups: FittedGroup = []
        for number, (common, sample) in enumerate(zip(task.commons, task.samples, strict=True)):
            trees, found = {}, {}
            if boosted:
                trees["boosted"], outputs = boosted[number]
                stack = task.rows.F[sample.asked] @ common.stack
                found = {count: stack + common.unit * out[:, 0] for count, out in zip(rounds, outputs, strict=True)}
            if grown:
                trees["forest"], outputs = grown[number]
                found[0] = common.center @ common.stack + common.unit * outputs
            forecasts = np.stack([found[c.trees] for c in candidates], axis=1)
            groups.append((cls(candidates, common, trees), forecasts))
        return groups

    def add_weights(self, shares: Floats, rows: ListRows, total: Floats) -> None:  # noqa: ARG002 - constant in x
        total += shares.sum() * self.common.stack

    def shared_parts(self, shares: Floats, rows: ListRows) -> dict[str, Floats]:
        used = [s for s in range(len(shares)) if shares[s]]
        if not used:
            return {}
        columns = forecast_tree_columns(self.common, rows)
        total: dict[str, Floats] = {}
        for s in used:
            name = self.candidates[s].name
            total[name] = total.get(name, 0.0) + shares[s] * self._part(s, columns, rows.F)
        return total

    def forecasts(self, rows: ListRows) -> Floats:
        stack, columns = rows.F @ self.common.stack, forecast_tree_columns(self.common, rows)
        return np.stack([stack + self._part(s, columns, rows.F) for s in range(len(self.candidates))], axis=1)

    def _part(self, s: int, columns: Floats, F: Floats) -> Floats:
        c, common = self.candidates[s], self.common
        found = common.unit * kernels.tree_sums(columns, self.trees[c.name], c.trees or None)[:, 0]
        return found if c.name == "boosted" else found + (common.center - F) @ common.stack


@dataclass(frozen=True, eq=False)
class ProductMembers:
    """Constant weights plus a linear combination of the products of inputs and forecasts, (1, Z) times (1, F).

    Feature-weighted stacking: the weight of every expert is a linear function of the inputs, without bounds. The
    coefficients (S, 1 + r, 1 + M) are those of a ridge regression, one for every spread.
    """

    candidates: tuple[Candidate, ...]
    common: CommonFit
    coefficients: Floats

    @classmethod
    def fit(cls, candidates: tuple[Candidate, ...], task: ListTask) -> FittedGroup:
        """Fit every ridge regression, with many rows to an even choice of them."""
        F, M = task.rows.F, task.rows.F.shape[1]
        few = np.arange(0, len(F), -(-task.n_entries // MOST_PRODUCT_ROWS))
        features, factors = _factors(task.commons[0], task.rows, 1.0)
        columns = (features[few, :, None] * factors[few, None, :]).reshape(len(few), -1)
        spreads = [c.spread for c in candidates]
        ridge = PathRequest(np.zeros((len(few), 0)), np.ones(len(spreads)), columns, spreads, accuracy=RIDGE_FINE)
        units = [np.append(sample.scale, np.ones(M)) for sample in task.samples]
        samples = [
            RowSample(s.reference, s.sample_weight[few], s.scale, unit=np.tile(unit, features.shape[1]))
            for s, unit in zip(task.samples, units, strict=True)
        ]
        loss = task.loss if len(few) == len(F) else task.loss.part(few)
        found = sample_paths([ridge], F[few], loss, samples)
        groups: FittedGroup = []
        for common, sample, unit, (one,) in zip(task.commons, task.samples, units, found, strict=True):
            coefficients, asked = one.path.linear.reshape(len(candidates), -1, M + 1), sample.asked
            parts = np.einsum("ik,skm,im->is", features[asked], coefficients, factors[asked] * unit, optimize=True)
            forecasts = (F[asked] @ sample.reference)[:, None] + parts
            groups.append((cls(candidates, common, coefficients), forecasts))
        return groups

    def add_weights(self, shares: Floats, rows: ListRows, total: Floats) -> None:  # noqa: ARG002 - constant in x
        total += shares.sum() * self.common.reference

    def shared_parts(self, shares: Floats, rows: ListRows) -> dict[str, Floats]:
        features, factors = _factors(self.common, rows, self.common.unit)
        mean = np.tensordot(shares, self.coefficients, axes=1)
        return {"products": np.einsum("im,im->i", features @ mean, factors)}

    def forecasts(self, rows: ListRows) -> Floats:
        features, factors = _factors(self.common, rows, self.common.unit)
        parts = [np.einsum("im,im->i", features @ one, factors) for one in self.coefficients]
        return np.asarray((rows.F @ self.common.reference)[:, None] + np.stack(parts, axis=1))


def _factors(common: CommonFit, rows: ListRows, unit: float) -> tuple[Floats, Floats]:
    """The factors of the products: (n, 1 + r), which fade away from the data, and (n, 1 + M)."""
    most = max(1, MOST_PRODUCTS // (1 + rows.F.shape[1]) - 1)
    inputs = np.clip(rows.inputs.Z[:, :most], -FARTHEST, FARTHEST)
    return faded(rows.inputs, inputs), np.column_stack([np.full(len(rows.F), unit), rows.F - common.origin])
