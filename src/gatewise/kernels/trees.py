"""Ensembles of trees: functional gradient boosting, and forests.

In boosting, the mixture at row i is z_i = g(x_i) . F_i + h(x_i), where g is the softmax of scores. A round fits one
tree to the gradient of the loss in the outputs that are boosted, the M scores or the one number h, and moves the
outputs of each leaf by a Newton step.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isqrt
from typing import Any, Literal, NamedTuple

import numba
import numpy as np
from joblib import delayed, Parallel
from scipy.special import softmax

from gatewise.arrays import Floats, Indices, TINY
from gatewise.kernels.compiled import compiled, inner
from gatewise.kernels.gating import Trees
from gatewise.kernels.tree_growth import grown_tree, Nodes, TreeShape

LARGEST_STEP = 4.0  # the Newton step of a score in a leaf is clipped to this
MOST_TARGETS = 4  # a tree is grown on so many principal components of the gradient, at most
MOST_GROWING = 20_000  # rows that one tree of boosting is grown on, at most; each round draws others
MOST_FOREST_ROWS = 50_000
MOST_DRAWN = 10_000  # rows that a tree of a forest draws; of n rows beyond that the square root of this times n
LEAST_THREADED = 5000  # rows from which on ensembles are grown on several threads
LEAST_LEAF = 5  # rows in a leaf of boosting, at least
N_TREES = 100  # of a forest
PRECISION = 1.0  # of the Gaussian prior of a leaf's step, in the unit of the outputs

Part = Literal["scores", "shared", "classes"]
# The slope of the loss and its curvature, both (rows,), at mixtures z of some rows and with a scale.
Judge = Callable[[Floats, Indices, float], tuple[Floats, Floats]]


class SortedColumns(NamedTuple):
    """Columns (p, n) of 32-bit numbers, and for each its rows by increasing value, (p, m): all n rows or some."""

    values: Any
    order: Any

    @classmethod
    def sort(cls, columns: Floats) -> "SortedColumns":
        """Sort the columns of an array (n, p)."""
        values = np.ascontiguousarray(columns.T, dtype=np.float32)
        return cls(values, np.argsort(values, axis=1, kind="stable").astype(np.int32))

    def part(self, rows: Indices) -> "SortedColumns":
        """The columns at some rows, given by increasing number."""
        place = np.full(self.values.shape[1], -1, dtype=np.int32)
        place[rows] = np.arange(len(rows), dtype=np.int32)
        order = place[self.order]
        return SortedColumns(
            np.ascontiguousarray(self.values[:, rows]), order[order >= 0].reshape(len(order), len(rows))
        )


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
    """The rows: columns (n, p) that trees split, forecasts F (n, M), and what tells the loss.

    ``judge`` gives slope and curvature of the loss. For squared error it is None, and the responses ``y`` (n,) are
    given in its place.
    """

    columns: Floats
    F: Floats
    y: Floats | None = None
    judge: Judge | None = None


class BoostingSample(NamedTuple):
    """The rows of one ensemble: its reference, the sample weights (n,), the scale, and the rows that are asked for.

    The reference is weights (M,); with "classes" it is probabilities (n, C).
    """

    reference: Floats
    sample_weight: Floats
    scale: float
    asked: Indices


class Boosted(NamedTuple):
    """The trees, and the outputs (R, rows, J) at the rows that were asked for, after each number of rounds."""

    trees: Trees
    outputs: Floats


class _Slopes(NamedTuple):
    gradient: Floats  # (n, J) in the boosted outputs
    curvature: Floats  # (n, J), not negative: the Gauss-Newton part


def boost(
    problem: BoostingProblem, samples: Sequence[BoostingSample], part: Part, plan: Boosting, seed: int
) -> list[Boosted]:
    """Boost the scores of a gate, or a shared part beside constant weights, on the loss of the mixture; or classes.

    "classes" boosts the scores of C classes beside probabilities: ``F`` (n, C) has a one at the class of each row,
    and the loss is the log loss. One ensemble for every sample of the rows. The sum of the trees (`tree_sums`) is the
    scores (n, M), or the shared part (n, 1) over the scale. The first r trees are what r rounds would have given.

    >>> x = np.linspace(-1, 1, 400)
    >>> F, y = np.column_stack([np.ones(400), -np.ones(400)]), np.sign(np.sin(9 * x))
    >>> sample = BoostingSample(np.array([0.5, 0.5]), np.ones(400), 0.3, np.arange(400))
    >>> plan = Boosting(depth=3, shrinkage=0.3, rounds=(40,))
    >>> found, = boost(BoostingProblem(x[:, None], F, y), [sample], "scores", plan, seed=0)
    >>> scores = found.outputs[0]
    >>> float(np.mean(np.sign(scores[:, 0] - scores[:, 1]) == y).round(1))
    1.0
    """
    columns = SortedColumns.sort(problem.columns)
    tasks = [delayed(_boost_one)(problem, columns, sample, part, plan, seed) for sample in samples]
    return _in_threads(tasks, columns)


def _boost_one(
    problem: BoostingProblem, columns: SortedColumns, sample: BoostingSample, part: Part, plan: Boosting, seed: int
) -> Boosted:
    rng, n_outputs = np.random.default_rng(seed), 1 if part == "shared" else problem.F.shape[1]
    used = sample.sample_weight > 0.0
    used[sample.asked] = True
    places = np.flatnonzero(used)
    columns, counted = columns.part(places), np.flatnonzero(sample.sample_weight[places])
    outputs = np.zeros((len(places), n_outputs))
    slopes_at = slopes_of(problem, sample, part, places)
    asked = np.searchsorted(places, sample.asked)
    grown: list[tuple[Nodes, Floats]] = []
    kept = {0: outputs[asked].copy()}
    shape = TreeShape(plan.depth, LEAST_LEAF, len(columns.values))
    for number in range(1, plan.rounds[-1] + 1 if len(columns.values) else 1):
        rows = counted
        if len(rows) > MOST_GROWING:
            rows = np.sort(rng.choice(rows, MOST_GROWING, replace=False))
        tree, steps = _newton_tree(*columns, *_targets(slopes_at(outputs), rows), shape, plan.shrinkage, outputs)
        grown.append((tree, steps))
        if number in plan.rounds:
            kept[number] = outputs[asked]
    found = np.stack([kept.get(number, kept[0]) for number in plan.rounds])
    return Boosted(join_trees(grown, n_outputs, len(columns.values)), found)


def _targets(now: _Slopes, rows: Indices) -> tuple[Floats, Floats, Floats, Floats]:
    """What a tree is grown on and moves by: targets, a mask of the rows (n,), gradient and curvature.

    The targets are the gradient, or its leading principal components if it has many columns. The gradient in the
    scores has sum zero over the experts, so one component of it is left out in any case.
    """
    n, J = now.gradient.shape
    mask, targets = np.zeros(n), now.gradient
    mask[rows] = 1.0
    if J > 1:
        some = now.gradient[rows]
        _, vectors = np.linalg.eigh(some.T @ some)
        targets = np.ascontiguousarray(now.gradient @ vectors[:, -min(J - 1, MOST_TARGETS) :])
    return targets, mask, now.gradient, now.curvature


@compiled
def _newton_tree(
    values: Any,
    order: Any,
    targets: Floats,
    mask: Floats,
    gradient: Floats,
    curvature: Floats,
    shape: TreeShape,
    shrinkage: float,
    outputs: Floats,
) -> tuple[Nodes, Floats]:
    """A tree grown on the rows of the mask, and its shrunken Newton steps (nodes, J); outputs (n, J) move by them."""
    tree, leaf = grown_tree(values, order, targets, mask, shape, 0)
    J = outputs.shape[1]
    slope, bend = _constant(len(tree.feature), J, 0.0), _constant(len(tree.feature), J, PRECISION)
    for i in range(len(leaf)):
        if mask[i] > 0.0:
            for j in range(J):
                slope[leaf[i], j] += gradient[i, j]
                bend[leaf[i], j] += curvature[i, j]
    steps = _bounded_steps(slope, bend, shrinkage)
    for i in range(len(leaf)):
        for j in range(J):
            outputs[i, j] += steps[leaf[i], j]
    return tree, steps


@inner
def _constant(n_rows: int, n_columns: int, value: float) -> Floats:
    out = np.empty((n_rows, n_columns))
    for k in range(n_rows):
        for j in range(n_columns):
            out[k, j] = value
    return out


@inner
def _bounded_steps(slope: Floats, bend: Floats, shrinkage: float) -> Floats:
    """Newton steps (nodes, J) of at most LARGEST_STEP, times the shrinkage."""
    out = np.empty(slope.shape)
    for k in range(slope.shape[0]):
        for j in range(slope.shape[1]):
            step = -slope[k, j] / bend[k, j]
            if abs(step) > LARGEST_STEP:
                step = LARGEST_STEP if step > 0.0 else -LARGEST_STEP
            out[k, j] = shrinkage * step
    return out


def slopes_of(
    problem: BoostingProblem, sample: BoostingSample, part: Part, places: Indices
) -> Callable[[Floats], _Slopes]:
    """The function from outputs (n, J) to the gradient and the curvature of the loss at every row of ``places``."""
    F, weight, unit = problem.F[places], sample.sample_weight[places], sample.scale
    if part == "classes":
        return _class_slopes(F, weight, np.log(sample.reference[places]))
    constant, precision = F @ sample.reference, weight / unit**2
    y, judge = None if problem.y is None else problem.y[places], problem.judge
    offset = np.log(np.maximum(sample.reference, np.finfo(float).tiny))

    def judged(z: Floats) -> tuple[Floats, Floats]:
        """The slope of the weighted loss at z (n,), and its curvature where that is positive."""
        if y is not None:
            return -precision * (y - z), precision
        assert judge is not None
        slope, curvature = judge(z, places, unit)
        return weight * slope, weight * np.maximum(curvature, 0.0)

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
    columns: Floats, targets: Sequence[Floats], samples: Sequence[BoostingSample], least_leaf: int, seed: int
) -> list[tuple[Trees, Floats]]:
    """For every sample a random forest on columns (n, p) that predicts its target (n,); and its predictions (rows,).

    Each tree is grown on as many rows, drawn with replacement, and tries half of the columns at each cut; where there
    are more than MOST_DRAWN rows it draws fewer. The predictions are those at the rows that the sample asks for. At
    most MOST_FOREST_ROWS rows are used.
    """
    whole = SortedColumns.sort(columns)
    both = zip(targets, samples, strict=True)
    return _in_threads([delayed(_forest)(whole, target, sample, least_leaf, seed) for target, sample in both], whole)


def _forest(
    whole: SortedColumns, target: Floats, sample: BoostingSample, least_leaf: int, seed: int
) -> tuple[Trees, Floats]:
    p = len(whole.values)
    shape, grown = TreeShape(-1, least_leaf, max(1, p // 2)), []
    counted, rng = some_rows(sample.sample_weight, MOST_FOREST_ROWS, seed), np.random.default_rng(seed)
    places = np.union1d(counted, sample.asked)
    part, weight, y = whole.part(places), np.zeros(len(places)), target[places]
    rows, total = np.searchsorted(places, counted), np.zeros(len(places))
    count = len(rows) if len(rows) <= MOST_DRAWN else isqrt(MOST_DRAWN * len(rows))
    for _ in range(N_TREES):
        drawn = np.bincount(rng.integers(0, len(rows), count), minlength=len(rows))
        weight[rows] = drawn * sample.sample_weight[counted]
        grown.append(_mean_tree(*part, y, weight, shape, int(rng.integers(2**31)), total))
    return join_trees(grown, 1, p), total[np.searchsorted(places, sample.asked)]


def _in_threads(tasks: list[Any], columns: SortedColumns) -> list[Any]:
    """The results of tasks of joblib, in order; on numba's number of threads if the columns are long."""
    count = numba.get_num_threads() if columns.values.shape[1] > LEAST_THREADED else 1
    return list(Parallel(n_jobs=count, prefer="threads", batch_size=1)(tasks))


@compiled
def _mean_tree(
    values: Any, order: Any, y: Floats, weight: Floats, shape: TreeShape, seed: int, total: Floats
) -> tuple[Nodes, Floats]:
    """A tree grown for y (n,), and the mean of y in its leaves over the number of trees, which is added to total."""
    tree, leaf = grown_tree(values, order, y.reshape((len(y), 1)), weight, shape, seed)
    mass, means = _constant(len(tree.feature), 1, TINY), _constant(len(tree.feature), 1, 0.0)
    for i in range(len(leaf)):
        mass[leaf[i], 0] += weight[i]
        means[leaf[i], 0] += weight[i] * y[i]
    for node in range(len(means)):
        means[node, 0] /= N_TREES * mass[node, 0]
    for i in range(len(leaf)):
        total[i] += means[leaf[i], 0]
    return tree, means


def some_rows(sample_weight: Floats, most: int, seed: int) -> Indices:
    """The rows of positive sample weight; where there are more than ``most``, a random choice of them."""
    counted = np.flatnonzero(sample_weight)
    if len(counted) <= most:
        return counted
    return np.sort(np.random.default_rng(seed).choice(counted, most, replace=False))


def join_trees(grown: list[tuple[Nodes, Floats]], n_outputs: int, n_columns: int) -> Trees:
    """Trees one after the other, from their nodes and the values (nodes, J) of these."""
    roots = np.cumsum([0, *(len(tree.feature) for tree, _ in grown)])
    starts = np.repeat(roots[:-1], np.diff(roots))

    def joined(place: int, dtype: Any) -> Any:
        return np.concatenate([np.empty(0, dtype), *(tree[place] for tree, _ in grown)])

    return Trees(
        roots.astype(np.intp),
        joined(0, np.intp),
        joined(1, np.float64),
        joined(2, np.intp) + starts,
        joined(3, np.intp) + starts,
        np.concatenate([np.empty((0, n_outputs)), *(values for _, values in grown)]),
        n_columns,
    )
