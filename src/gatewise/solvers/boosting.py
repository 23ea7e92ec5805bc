"""Trees: functional gradient boosting of the scores of a gate, or of a part that is added to a mixture; forests.

For row i the mixture is z_i = g(x_i) . F_i + h(x_i), where g is the softmax of scores. A round fits one regression
tree to the negative gradient of the loss in the outputs that are boosted, the M scores or the one number h, and moves
the outputs of each leaf by a Newton step. The trees are scikit-learn's; a fitted ensemble is a few arrays
(`kernels.Trees`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.special import softmax

from gatewise import kernels
from gatewise.arrays import Floats, Indices
from gatewise.losses import Gaussian, Loss, ResidualLoss
from gatewise.solvers.softmax_path import RowSample

Part = Literal["scores", "shared", "classes"]
LARGEST_STEP = 4.0  # the Newton step of a score in a leaf is clipped to this
MOST_TARGETS = 4  # a tree is grown on so many principal components of the gradient, at most
MOST_GROWING = 20_000  # rows that one tree is grown on, at most; each round draws others
LEAST_LEAF = 5  # rows in a leaf, at least
N_TREES = 100  # of a forest
MOST_FOREST_ROWS = 50_000
PRECISION = 1.0  # of the Gaussian prior of a leaf's step, in the unit of the outputs


@dataclass(frozen=True)
class Boosting:
    """How an ensemble is grown: the depth of its trees, the shrinkage of their steps, and numbers of rounds.

    The last number of rounds is the largest; the outputs are kept after each.
    """

    depth: int
    shrinkage: float
    rounds: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class BoostingProblem:
    """The rows: columns (n, p) that trees split, forecasts F (n, M) and their loss."""

    columns: Floats
    F: Floats
    loss: Loss


class Boosted(NamedTuple):
    """The trees, and the outputs (R, rows, J) at the rows that were asked for, after each number of rounds."""

    trees: kernels.Trees
    outputs: Floats


class _Slopes(NamedTuple):
    gradient: Floats  # (n, J) in the boosted outputs
    curvature: Floats  # (n, J), not negative: the Gauss-Newton part


def boost(
    problem: BoostingProblem, samples: Sequence[RowSample], part: Part, plan: Boosting, seed: int
) -> list[Boosted]:
    """Boost the scores of a gate, or a shared part beside constant weights, on the loss of the mixture; or classes.

    "classes" boosts the scores of C classes beside probabilities (n, C), which a sample then has as its
    ``reference``: ``F`` (n, C) has a one at the class of each row, and the loss is the log loss.

    One ensemble for every sample of the rows. The sum of the trees (`kernels.tree_sums`) is the scores (n, M), or the
    shared part (n, 1) over the loss's scale. The first r trees are what r rounds would have given.

    >>> from gatewise.losses import ResidualLoss
    >>> x = np.linspace(-1, 1, 400)
    >>> F, y = np.column_stack([np.ones(400), -np.ones(400)]), np.sign(np.sin(9 * x))
    >>> sample = RowSample(np.array([0.5, 0.5]), np.ones(400), scale=0.3, asked=np.arange(400))
    >>> plan = Boosting(depth=3, shrinkage=0.3, rounds=(40,))
    >>> found, = boost(BoostingProblem(x[:, None], F, ResidualLoss(y)), [sample], "scores", plan, seed=0)
    >>> scores = found.outputs[0]
    >>> float(np.mean(np.sign(scores[:, 0] - scores[:, 1]) == y).round(1))
    1.0
    """
    columns = np.ascontiguousarray(problem.columns, dtype=np.float32)
    return [_boost_one(problem, columns, sample, part, plan, seed) for sample in samples]


def _boost_one(
    problem: BoostingProblem, columns: Any, sample: RowSample, part: Part, plan: Boosting, seed: int
) -> Boosted:
    rng, n_outputs = np.random.default_rng(seed), 1 if part == "shared" else problem.F.shape[1]
    used = sample.sample_weight > 0.0
    used[sample.asked] = True
    places = np.flatnonzero(used)
    columns, weight = columns[places], sample.sample_weight[places]
    outputs, counted = np.zeros((len(places), n_outputs)), np.flatnonzero(weight)
    slopes_at = slopes_of(problem, sample, part, places)
    asked = np.searchsorted(places, sample.asked)
    grown: list[Any] = []
    kept = {0: outputs[asked].copy()}
    for number in range(1, plan.rounds[-1] + 1 if columns.shape[1] else 1):
        rows = counted
        if len(rows) > MOST_GROWING:
            rows = np.sort(rng.choice(rows, MOST_GROWING, replace=False))
        tree, leaf, steps = _grow(columns, slopes_at(outputs), rows, plan, rng)
        outputs += plan.shrinkage * steps[leaf]
        grown.append((tree, plan.shrinkage * steps))
        if number in plan.rounds:
            kept[number] = outputs[asked]
    found = np.stack([kept.get(number, kept[0]) for number in plan.rounds])
    return Boosted(pack_trees(grown, n_outputs, columns.shape[1]), found)


def _grow(
    columns: Any, now: _Slopes, rows: Indices, plan: Boosting, rng: np.random.Generator
) -> tuple[Any, Indices, Floats]:
    """A tree grown on some rows, the leaf of every row, and the Newton step (nodes, J) of every leaf."""
    from sklearn.tree import DecisionTreeRegressor  # noqa: PLC0415 - slow to import

    tree = DecisionTreeRegressor(
        max_depth=plan.depth, min_samples_leaf=LEAST_LEAF, random_state=int(rng.integers(2**31))
    )
    tree.fit(columns[rows], _targets(now.gradient[rows]), check_input=False)
    inner = tree.tree_
    leaf = inner.apply(columns)
    here = leaf[rows]
    sums, curvatures = (_leaf_sums(here, values[rows], inner.node_count) for values in (now.gradient, now.curvature))
    return inner, leaf, np.clip(-sums / (curvatures + PRECISION), -LARGEST_STEP, LARGEST_STEP)


def _leaf_sums(leaf: Indices, values: Floats, count: int) -> Floats:
    return np.column_stack([np.bincount(leaf, column, count) for column in values.T])


def _targets(gradient: Floats) -> Floats:
    """The columns that a tree is grown on: the gradient, or its leading principal components if it has many columns.

    The gradient in the scores has sum zero over the experts, so one component of it is left out in any case.
    """
    J = gradient.shape[1]
    if J == 1:
        return gradient
    _, vectors = np.linalg.eigh(gradient.T @ gradient)
    return np.ascontiguousarray(gradient @ vectors[:, -min(J - 1, MOST_TARGETS) :])


def slopes_of(
    problem: BoostingProblem, sample: RowSample, part: Part, places: Indices
) -> Callable[[Floats], _Slopes]:
    """The function from outputs (n, J) to the gradient and the curvature of the loss at every row of ``places``."""
    F, weight, unit = problem.F[places], sample.sample_weight[places], sample.scale
    if part == "classes":
        return _class_slopes(F, weight, np.log(sample.reference[places]))
    constant = F @ sample.reference
    loss = problem.loss
    y = loss.y[places] if isinstance(loss, ResidualLoss) and isinstance(loss.noise, Gaussian) else None
    offset = np.log(np.maximum(sample.reference, np.finfo(float).tiny))

    def judged(z: Floats) -> tuple[Floats, Floats]:
        """The slope of the weighted loss at z (n,), and its curvature where that is positive."""
        if y is not None:  # squared error
            precision = weight / unit**2
            return -precision * (y - z), precision
        here = loss.scaled(unit).part(places)
        return weight * here.slope(z), weight * np.maximum(here.curvature(z), 0.0)

    def shared(outputs: Floats) -> _Slopes:
        slope, curvature = judged(constant + unit * outputs[:, 0])
        return _Slopes(unit * slope[:, None], unit**2 * curvature[:, None])

    def scores(outputs: Floats) -> _Slopes:
        weights = softmax(offset + outputs, axis=1)
        mixture = np.einsum("im,im->i", weights, F)
        slope, curvature = judged(mixture)
        tilts = weights * (F - mixture[:, None])
        return _Slopes(slope[:, None] * tilts, curvature[:, None] * tilts**2)

    return scores if part == "scores" else shared


def _class_slopes(outcome: Floats, weight: Floats, log_base: Floats) -> Callable[[Floats], _Slopes]:
    """The slopes of the log loss in scores (n, C) beside log_base; outcome (n, C) has a one in each row."""

    def classes(outputs: Floats) -> _Slopes:
        p = softmax(log_base + outputs, axis=1)
        return _Slopes(weight[:, None] * (p - outcome), weight[:, None] * p * (1.0 - p))

    return classes


def forests(
    columns: Floats, targets: Sequence[Floats], samples: Sequence[RowSample], least_leaf: int, seed: int
) -> list[tuple[kernels.Trees, Floats]]:
    """For every sample a forest on columns (n, p) that predicts its target (n,); and its predictions (rows,).

    The predictions are those at the rows that the sample asks for. At most MOST_FOREST_ROWS rows are used.
    """
    from sklearn.ensemble import RandomForestRegressor  # noqa: PLC0415 - slow to import

    found = []
    for target, sample in zip(targets, samples, strict=True):
        rows = some_rows(sample.sample_weight, MOST_FOREST_ROWS, seed)
        forest = RandomForestRegressor(
            N_TREES, min_samples_leaf=least_leaf, max_features=0.5, random_state=seed, n_jobs=1
        ).fit(columns[rows], target[rows], sample.sample_weight[rows])
        inner: list[Any] = [one.tree_ for one in forest.estimators_]
        packed = pack_trees([(tree, tree.value[:, :, 0] / N_TREES) for tree in inner], 1, columns.shape[1])
        asked = columns[sample.asked]
        found.append((packed, np.asarray(forest.predict(asked)) if len(asked) else np.zeros(0)))
    return found


def some_rows(sample_weight: Floats, most: int, seed: int) -> Indices:
    """The rows of positive sample weight; where there are more than ``most``, a random choice of them."""
    counted = np.flatnonzero(sample_weight)
    if len(counted) <= most:
        return counted
    return np.sort(np.random.default_rng(seed).choice(counted, most, replace=False))


def pack_trees(grown: Sequence[tuple[Any, Floats]], n_outputs: int, n_columns: int) -> kernels.Trees:
    """The arrays of trees of scikit-learn (``tree_``), each with the values (nodes, J) of its nodes."""
    roots = np.cumsum([0, *(tree.node_count for tree, _ in grown)])
    starts = np.repeat(roots[:-1], np.diff(roots))

    def joined(name: str, dtype: Any) -> Any:
        return np.concatenate([np.empty(0, dtype), *(getattr(tree, name) for tree, _ in grown)]).astype(dtype)

    leaf = joined("children_left", np.intp) < 0
    return kernels.Trees(
        roots.astype(np.intp),
        np.where(leaf, -1, joined("feature", np.intp)),
        joined("threshold", np.float64),
        joined("children_left", np.intp) + starts,
        joined("children_right", np.intp) + starts,
        np.concatenate([np.empty((0, n_outputs)), *(values for _, values in grown)]),
        n_columns,
    )
