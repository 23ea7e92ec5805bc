"""The members of the list that are made of trees: boosted gates, and shared parts on inputs and forecasts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.special import softmax

from gatewise import kernels
from gatewise.arrays import Floats, Indices
from gatewise.losses import Loss, ResidualLoss
from gatewise.router.candidates import Candidate
from gatewise.router.members import CommonFit, ListRows
from gatewise.solvers.boosting import boost, Boosting, BoostingProblem

GATE_DEPTHS, GATE_SHRINKAGE, GATE_ROUNDS = (3, 7), 0.3, (8, 32)
SHARED_DEPTH, SHARED_SHRINKAGE, SHARED_ROUNDS = 4, 0.1, (15, 60)
N_TREES, LEAST_LEAF = 100, 3  # of a forest
MOST_FOREST_ROWS = 50_000


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
    def fit(
        cls,
        candidates: tuple[Candidate, ...],
        common: CommonFit,
        rows: ListRows,
        loss: Loss,
        sample_weight: Floats,
        seed: int,
    ) -> Self:
        """Boost the scores of every gate."""
        problem = BoostingProblem(rows.inputs.for_trees, rows.F, loss, common.reference, sample_weight)
        most = {
            depth: max(c.trees for c in candidates if c.depth == depth) for depth in {c.depth for c in candidates}
        }
        plans = {depth: Boosting(depth, GATE_SHRINKAGE, rounds) for depth, rounds in sorted(most.items())}
        return cls(candidates, common, {str(d): boost(problem, "scores", plan, seed) for d, plan in plans.items()})

    def add_weights(self, shares: Floats, rows: ListRows, total: Floats) -> None:
        for s in np.flatnonzero(shares).tolist():
            total += shares[s] * self._weights(s, rows)

    def shared_parts(self, shares: Floats, rows: ListRows) -> dict[str, Floats]:  # noqa: ARG002 - there is none
        return {}

    def forecasts(self, rows: ListRows) -> Floats:
        columns = [np.einsum("im,im->i", self._weights(s, rows), rows.F) for s in range(len(self.candidates))]
        return np.stack(columns, axis=1)

    def _weights(self, s: int, rows: ListRows) -> Floats:
        c = self.candidates[s]
        scores = (
            kernels.tree_sums(rows.inputs.for_trees, self.trees[str(c.depth)], c.trees) * rows.inputs.inside[:, None]
        )
        return np.asarray(softmax(np.log(self.common.reference) + scores, axis=1))


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
    def fit(
        cls,
        candidates: tuple[Candidate, ...],
        common: CommonFit,
        rows: ListRows,
        loss: ResidualLoss,
        sample_weight: Floats,
        seed: int,
    ) -> Self:
        """Fit every learner."""
        columns = common.tree_columns(rows)
        rounds = {c.name: max(other.trees for other in candidates if other.name == c.name) for c in candidates}
        trees = {}
        if "forest" in rounds:
            target = (loss.y - common.center @ common.stack) / common.unit
            trees["forest"] = _forest(columns, target, sample_weight, seed)
        if "boosted" in rounds:
            problem = BoostingProblem(columns, rows.F, loss, common.stack, sample_weight)
            plan = Boosting(SHARED_DEPTH, SHARED_SHRINKAGE, rounds["boosted"])
            trees["boosted"] = boost(problem, "shared", plan, seed)
        return cls(candidates, common, trees)

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


def _forest(columns: Floats, target: Floats, sample_weight: Floats, seed: int) -> kernels.Trees:
    from sklearn.ensemble import RandomForestRegressor  # noqa: PLC0415 - slow to import

    rows = some_rows(sample_weight, MOST_FOREST_ROWS, seed)
    forest = RandomForestRegressor(
        N_TREES, min_samples_leaf=LEAST_LEAF, max_features=0.5, random_state=seed, n_jobs=1
    ).fit(columns[rows], target[rows], sample_weight[rows])
    inner: list[Any] = [one.tree_ for one in forest.estimators_]
    return kernels.pack_trees([(tree, tree.value[:, :, 0] / N_TREES) for tree in inner], 1, columns.shape[1])


def some_rows(sample_weight: Floats, most: int, seed: int) -> Indices:
    """The rows of positive sample weight; where there are more than ``most``, a random choice of them."""
    counted = np.flatnonzero(sample_weight)
    if len(counted) <= most:
        return counted
    return np.sort(np.random.default_rng(seed).choice(counted, most, replace=False))
