"""The members of the list that are made of trees: boosted gates, and shared parts on inputs and forecasts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from gatewise import kernels
from gatewise.arrays import Floats
from gatewise.losses import ResidualLoss
from gatewise.router.candidates import Candidate
from gatewise.router.members import CommonFit, FittedGroup, ListRows, ListTask
from gatewise.solvers.boosting import boost, Boosted, Boosting, BoostingProblem, forests

GATE_DEPTHS, GATE_SHRINKAGE, GATE_ROUNDS = (3, 7), 0.3, (8, 32)
SHARED_DEPTH, SHARED_SHRINKAGE, SHARED_ROUNDS = 4, 0.1, (15, 60)
LEAST_LEAF = 3  # rows in a leaf of a forest, at least


def tree_gates() -> list[Candidate]:
    """The gates of boosted trees in the list: every depth with every number of rounds."""
    return [Candidate("gate", "tree", depth=depth, trees=rounds) for depth in GATE_DEPTHS for rounds in GATE_ROUNDS]


def shared_learners(names: Sequence[str]) -> list[Candidate]:
    """The shared parts in the list, by the names of their learners: "forest" and "boosted"."""
    forest = [Candidate("shared", "forest")] if "forest" in names else []
    return forest + [Candidate("shared", "boosted", trees=rounds) for rounds in SHARED_ROUNDS if "boosted" in names]


@dataclass(frozen=True, eq=False)
class TreeGates:
    """Gates whose scores are sums of boosted trees in the inputs: ``trees`` has the ensemble of every depth.

    Far from the data the scores fall to zero, and the gate is its reference there.
    """

    candidates: tuple[Candidate, ...]
    common: CommonFit
    trees: Mapping[str, kernels.Trees]

    @classmethod
    def fit(cls, candidates: tuple[Candidate, ...], task: ListTask, seed: int) -> FittedGroup:
        """Boost the scores of every gate."""
        rows = task.rows
        problem = BoostingProblem(rows.inputs.for_trees, rows.F, task.loss)
        rounds = {c.depth: tuple(sorted(o.trees for o in candidates if o.depth == c.depth)) for c in candidates}
        found = {
            depth: boost(problem, task.samples, "scores", Boosting(depth, GATE_SHRINKAGE, rounds[depth]), seed)
            for depth in sorted(rounds)
        }
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
        columns, inside, offset = rows.inputs.for_trees, rows.inputs.inside[:, None], np.log(self.common.reference)
        for s in np.flatnonzero(shares).tolist():
            c = self.candidates[s]
            scores = kernels.tree_sums(columns, self.trees[str(c.depth)], c.trees) * inside
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
        columns = task.commons[0].tree_columns(task.rows)
        rounds = tuple(sorted(c.trees for c in candidates if c.name == "boosted"))
        boosted: list[Boosted] = []
        if rounds:
            stacked = [s._replace(reference=c.stack) for s, c in zip(task.samples, task.commons, strict=True)]
            plan = Boosting(SHARED_DEPTH, SHARED_SHRINKAGE, rounds)
            boosted = boost(BoostingProblem(columns, task.rows.F, task.loss), stacked, "shared", plan, seed)
        grown: list[tuple[kernels.Trees, Floats]] = []
        if any(c.name == "forest" for c in candidates):
            targets = [(task.loss.y - c.center @ c.stack) / c.unit for c in task.commons]
            grown = forests(columns, targets, task.samples, LEAST_LEAF, seed)
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
        columns = self.common.tree_columns(rows)
        total: dict[str, Floats] = {}
        for s in used:
            name = self.candidates[s].name
            total[name] = total.get(name, 0.0) + shares[s] * self._part(s, columns, rows.F)
        return total

    def forecasts(self, rows: ListRows) -> Floats:
        stack, columns = rows.F @ self.common.stack, self.common.tree_columns(rows)
        return np.stack([stack + self._part(s, columns, rows.F) for s in range(len(self.candidates))], axis=1)

    def _part(self, s: int, columns: Floats, F: Floats) -> Floats:
        c, common = self.candidates[s], self.common
        found = common.unit * kernels.tree_sums(columns, self.trees[c.name], c.trees or None)[:, 0]
        return found if c.name == "boosted" else found + (common.center - F) @ common.stack
