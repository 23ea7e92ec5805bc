"""Ensembles of trees: functional gradient boosting, and forests.

In boosting, the mixture at row i is z_i = g(x_i) . F_i + h(x_i), where g is the softmax of scores. A round fits one
tree to the gradient of the loss in the outputs that are boosted, the M scores or the one number h, and moves the
outputs of each leaf by a Newton step. Columns of many rows are divided into bins, and every tree is grown on some of
the rows; the slopes of the loss are taken at these alone.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from math import isqrt
from typing import Any, Literal, NamedTuple

import numba
import numpy as np
from joblib import delayed, Parallel
from joblib.parallel import get_active_backend
from scipy.special import softmax

from gatewise.arrays import Floats, Indices, TINY
from gatewise.kernels.binned_growth import add_leaves, BinnedColumns, grow_binned_into, leaf_sums
from gatewise.kernels.compiled import compiled, inner
from gatewise.kernels.gating import Trees
from gatewise.kernels.tree_growth import grow_into, grown_tree, Nodes, put_nodes, TreeShape
from gatewise.progress import RUNNING

LARGEST_STEP = 4.0  # the Newton step of a score in a leaf is clipped to this
MOST_TARGETS = 4  # a tree is grown on so many principal components of the gradient, at most
MOST_GROWING = 20_000  # rows that a tree of boosting is grown on; of more, n, the square root of this times n
MOST_FOREST_ROWS = 50_000
MOST_DRAWN = 10_000  # rows that a tree of a forest draws; of n rows beyond that the square root of this times n
MOST_EXACT = 5000  # rows of columns that are sorted; those of more are binned, and ensembles grown on several threads
LEAST_LEAF = 5  # rows in a leaf of boosting, at least
N_TREES, TREES_AT_ONCE = 100, 25  # of a forest; of a piece of the work
PRECISION = 1.0  # of the Gaussian prior of a leaf's step, in the unit of the outputs
ALL = slice(None)  # rows

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

    The last number of rounds is the largest; the outputs are kept after each. Where trees are grown on some of the
    rows, the outputs are the mean over ``bags`` ensembles that draw other rows.
    """

    depth: int
    shrinkage: float
    rounds: tuple[int, ...]
    bags: int = 1


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


def grow_tree(
    values: Any, order: Any, targets: Floats, weight: Floats, shape: TreeShape, seed: int
) -> tuple[Nodes, Indices]:
    """Grow a tree on the rows of positive weight (n,), for targets (n, J); and the leaf of all n rows.

    ``values`` (p, n) are the columns as 32-bit numbers, ``order`` (p, n) the rows by increasing value of each.
    Of equally good cuts the first is taken.

    >>> x, order = np.array([[1.0, 2.0, 3.0, 4.0]], dtype=np.float32), np.arange(4, dtype=np.int32)[None]
    >>> y = np.array([[0.0], [0.0], [5.0], [5.0]])
    >>> tree, leaf = grow_tree(x, order, y, np.ones(4), TreeShape(1, 1, 1), 0)
    >>> tree.feature.tolist(), tree.threshold[0].item(), leaf.tolist()
    ([0, -1, -1], 2.5, [1, 1, 2, 2])
    """
    room, leaf = _room(len(weight), shape), np.empty(len(weight), np.intp)
    return _first(room, grow_into(values, order, targets, weight, shape, seed, room, leaf)), leaf


def grow_binned_tree(
    values: Any, bins: Any, targets: Floats, weight: Floats, shape: TreeShape, seed: int
) -> tuple[Nodes, Indices]:
    """Grow a tree on m rows of positive weight (m,), for up to six targets (m, J); and the leaf of each row.

    ``values`` and ``bins`` (p, m) are those of `BinnedColumns` at these rows.

    >>> columns = BinnedColumns.divide(np.array([[1.0], [2.0], [3.0], [4.0]]))
    >>> y = np.array([[0.0], [0.0], [5.0], [5.0]])
    >>> tree, leaf = grow_binned_tree(*columns, y, np.ones(4), TreeShape(1, 1, 1), 0)
    >>> tree.feature.tolist(), tree.threshold[0].item(), leaf.tolist()
    ([0, -1, -1], 2.5, [1, 1, 2, 2])
    """
    room, home = _room(len(weight), shape), np.empty(len(weight), np.intp)
    return _first(room, grow_binned_into(values, bins, targets, weight, shape, seed, room, home)), home


def _room(n: int, shape: TreeShape) -> Nodes:
    """Empty arrays for as many nodes as a tree on n rows may have."""
    most = max(1, 2 * (n // shape.least_leaf) - 1)
    if 0 <= shape.depth < 40:
        most = min(most, 2 ** (shape.depth + 1) - 1)
    return Nodes(np.empty(most, np.intp), np.empty(most), np.empty(most, np.intp), np.empty(most, np.intp))


def _first(room: Nodes, count: int) -> Nodes:
    """A copy of the first nodes."""
    feature, threshold = room.feature[:count].copy(), room.threshold[:count].copy()
    return Nodes(feature, threshold, room.left[:count].copy(), room.right[:count].copy())


def boost(
    problem: BoostingProblem, samples: Sequence[BoostingSample], part: Part, plan: Boosting, seed: int
) -> list[Boosted]:
    """Boost the scores of a gate, or a shared part beside constant weights, on the loss of the mixture; or classes.

    "classes" boosts the scores of C classes beside probabilities: ``F`` (n, C) has a one at the class of each row,
    and the loss is the log loss. One ensemble for every sample of the rows. The sum of the trees (`tree_sums`) is the
    scores (n, M), or the shared part (n, 1) over the scale. The first r trees are what r rounds would have given; of
    several bags the first r of each come first.

    >>> x = np.linspace(-1, 1, 400)
    >>> F, y = np.column_stack([np.ones(400), -np.ones(400)]), np.sign(np.sin(9 * x))
    >>> sample = BoostingSample(np.array([0.5, 0.5]), np.ones(400), 0.3, np.arange(400))
    >>> plan = Boosting(depth=3, shrinkage=0.3, rounds=(40,))
    >>> found, = boost(BoostingProblem(x[:, None], F, y), [sample], "scores", plan, seed=0)
    >>> scores = found.outputs[0]
    >>> float(np.mean(np.sign(scores[:, 0] - scores[:, 1]) == y).round(1))
    1.0
    """
    if _most_rows(samples) > MOST_EXACT:
        binned = BinnedColumns.divide(problem.columns)
        found = _in_threads([delayed(_boost_binned)(problem, binned, one, part, plan, seed) for one in samples])
    else:
        columns = SortedColumns.sort(problem.columns)
        found = (_boost_sorted(problem, columns, sample, part, plan) for sample in samples)
    return _counted(found)


def _boost_sorted(
    problem: BoostingProblem, columns: SortedColumns, sample: BoostingSample, part: Part, plan: Boosting
) -> Boosted:
    """One ensemble; every tree is grown on all rows of positive weight."""
    places, counted, asked = _used_rows(sample)
    columns, outputs = columns.part(places), np.zeros((1, len(places), _n_outputs(problem, part)))
    slopes_at, shape = (
        slopes_of(problem, sample, part, places),
        TreeShape(plan.depth, LEAST_LEAF, len(columns.values)),
    )
    mask = np.zeros(len(places))
    mask[counted] = 1.0

    room = _room(len(counted), shape)
    steps = np.empty((len(room.feature), outputs.shape[2]))

    def grow(own: Floats) -> tuple[Nodes, Floats]:
        now = slopes_at(own)
        targets, step = _targets(now.gradient, counted), plan.shrinkage
        count = _newton_tree(*columns, targets, mask, *now, shape, step, own, room, steps)
        return _first(room, count), steps[:count].copy()

    return _in_rounds(grow, plan, outputs, asked, len(columns.values))


def _boost_binned(
    problem: BoostingProblem, columns: BinnedColumns, sample: BoostingSample, part: Part, plan: Boosting, seed: int
) -> Boosted:
    """One ensemble; of more than MOST_GROWING rows of positive weight every tree is grown on others."""
    rng, (places, counted, asked) = np.random.default_rng(seed), _used_rows(sample)
    few = len(counted) <= MOST_GROWING
    outputs = np.zeros((1 if few else plan.bags, len(places), _n_outputs(problem, part)))
    slopes_at = slopes_of(problem, sample, part, places)
    shape = TreeShape(plan.depth, LEAST_LEAF, len(columns.values))

    def grow(own: Floats) -> tuple[Nodes, Floats]:
        rows = counted
        if not few:
            rows = np.sort(rng.choice(counted, isqrt(MOST_GROWING * len(counted)), replace=False))
        now = slopes_at(own[rows], rows)
        targets, some = _targets(now.gradient, ALL), columns.part(places[rows])
        tree, leaf = grow_binned_tree(*some, targets, np.ones(len(rows)), shape, 0)
        slope, bend = (leaf_sums(one, leaf, len(tree.feature)) for one in now)
        steps = plan.shrinkage * np.clip(-slope / (PRECISION + bend), -LARGEST_STEP, LARGEST_STEP)
        add_leaves(columns.values, places, tree, steps, own)
        return tree, steps

    return _in_rounds(grow, plan, outputs, asked, len(columns.values))


def _n_outputs(problem: BoostingProblem, part: Part) -> int:
    return 1 if part == "shared" else problem.F.shape[1]


def _most_rows(samples: Sequence[BoostingSample]) -> int:
    """The largest number of rows of positive weight in a sample."""
    return max(int(np.count_nonzero(sample.sample_weight)) for sample in samples)


def _used_rows(sample: BoostingSample) -> tuple[Indices, Indices, Indices]:
    """The rows with a weight or asked for; and which of these have a weight, and which are asked for."""
    used = sample.sample_weight > 0.0
    used[sample.asked] = True
    places = np.flatnonzero(used)
    return places, np.flatnonzero(sample.sample_weight[places]), np.searchsorted(places, sample.asked)


def _in_rounds(
    grow: Callable[[Floats], tuple[Nodes, Floats]], plan: Boosting, outputs: Floats, asked: Indices, n_columns: int
) -> Boosted:
    """The trees of all bags, one of each a round, and the mean outputs asked for after each number of rounds.

    ``grow`` makes a tree for the outputs (n, J) of one bag, and moves them; outputs (bags, n, J).
    """
    grown: list[tuple[Nodes, Floats]] = []
    kept = {0: outputs[0, asked]}
    for number in range(1, plan.rounds[-1] + 1 if n_columns else 1):
        for own in outputs:
            tree, steps = grow(own)
            grown.append((tree, steps / len(outputs)))
        if number in plan.rounds:
            kept[number] = outputs[:, asked].mean(axis=0)
    found = np.stack([kept.get(number, kept[0]) for number in plan.rounds])
    return Boosted(join_trees(grown, outputs.shape[2], n_columns), found)


def _targets(gradient: Floats, rows: Indices | slice) -> Floats:
    """What a tree is grown on: the gradient (n, J), or its leading principal components if it has many columns.

    The components are those of some rows. The gradient in the scores has sum zero over the experts, so one component
    of it is left out in any case.
    """
    J = gradient.shape[1]
    if J == 1:
        return gradient
    some = gradient[rows]
    _, vectors = np.linalg.eigh(some.T @ some)
    return np.ascontiguousarray(gradient @ vectors[:, -min(J - 1, MOST_TARGETS) :])


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
    room: Nodes,
    found: Floats,
) -> int:
    """Grow a tree on the rows of the mask into the room for its nodes, and say how many there are.

    Its shrunken Newton steps (nodes, J) go to ``found``; outputs (n, J) move by them.
    """
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
    _put(steps, found)
    return put_nodes(tree, room)


@inner
def _put(values: Floats, room: Floats) -> None:
    for k in range(values.shape[0]):
        for j in range(values.shape[1]):
            room[k, j] = values[k, j]


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
) -> Callable[..., _Slopes]:
    """The function from outputs (n, J) to the gradient and the curvature of the loss at every row of ``places``.

    With a second argument, the numbers of some of these rows, the outputs are those of these alone.
    """
    F, weight, unit = problem.F[places], sample.sample_weight[places], sample.scale
    if part == "classes":
        return _class_slopes(F, weight, np.log(sample.reference[places]))
    constant, precision = F @ sample.reference, weight / unit**2
    y, judge = None if problem.y is None else problem.y[places], problem.judge
    offset = np.log(np.maximum(sample.reference, np.finfo(float).tiny))

    def judged(z: Floats, rows: Indices | slice) -> tuple[Floats, Floats]:
        """The slope of the weighted loss at z (n,), and its curvature where that is positive."""
        if y is not None:
            return -precision[rows] * (y[rows] - z), precision[rows]
        assert judge is not None
        slope, curvature = judge(z, places[rows], unit)
        return weight[rows] * slope, weight[rows] * np.maximum(curvature, 0.0)

    def shared(outputs: Floats, rows: Indices | slice = ALL) -> _Slopes:
        slope, curvature = judged(constant[rows] + unit * outputs[:, 0], rows)
        return _Slopes(unit * slope[:, None], unit**2 * curvature[:, None])

    def scores(outputs: Floats, rows: Indices | slice = ALL) -> _Slopes:
        weights, some = softmax(offset + outputs, axis=1), F[rows]
        mixture = np.einsum("im,im->i", weights, some)
        slope, curvature = judged(mixture, rows)
        tilts = weights * (some - mixture[:, None])
        return _Slopes(slope[:, None] * tilts, curvature[:, None] * tilts**2)

    return scores if part == "scores" else shared


def _class_slopes(outcome: Floats, weight: Floats, log_base: Floats) -> Callable[..., _Slopes]:
    """The slopes of the log loss in scores (n, C) beside log_base; outcome (n, C) has a one in each row."""

    def classes(outputs: Floats, rows: Indices | slice = ALL) -> _Slopes:
        p, heavy = softmax(log_base[rows] + outputs, axis=1), weight[rows, None]
        return _Slopes(heavy * (p - outcome[rows]), heavy * p * (1.0 - p))

    return classes


def forests(
    columns: Floats, targets: Sequence[Floats], samples: Sequence[BoostingSample], least_leaf: int, seed: int
) -> list[tuple[Trees, Floats]]:
    """For every sample a random forest on columns (n, p) that predicts its target (n,); and its predictions (rows,).

    Each tree is grown on as many rows, drawn with replacement, and tries half of the columns at each cut; where there
    are more than MOST_DRAWN rows it draws fewer. The predictions are those at the rows that the sample asks for. At
    most MOST_FOREST_ROWS rows are used.
    """
    both = list(zip(targets, samples, strict=True))
    if _most_rows(samples) > MOST_EXACT:
        binned = BinnedColumns.divide(columns)
        pieces = [(*one, first) for one in both for first in range(0, N_TREES, TREES_AT_ONCE)]
        found = _in_threads([delayed(_binned_forest)(binned, *piece, least_leaf, seed) for piece in pieces])
        return _counted(_together(found, len(binned.values)) for _ in both)
    whole = SortedColumns.sort(columns)
    return _counted(_sorted_forest(whole, target, sample, least_leaf, seed) for target, sample in both)


def _sorted_forest(
    whole: SortedColumns, target: Floats, sample: BoostingSample, least_leaf: int, seed: int
) -> tuple[Trees, Floats]:
    """A forest whose trees each draw as many rows as there are."""
    p, rng = len(whole.values), np.random.default_rng(seed)
    shape, grown, counted = TreeShape(-1, least_leaf, max(1, p // 2)), [], np.flatnonzero(sample.sample_weight)
    places = np.union1d(counted, sample.asked)
    part, weight, y = whole.part(places), np.zeros(len(places)), target[places]
    rows, total = np.searchsorted(places, counted), np.zeros(len(places))
    room = _room(len(rows), shape)
    means = np.empty((len(room.feature), 1))
    for _ in range(N_TREES):
        drawn, number = _draw(rng, len(rows), len(rows))
        weight[rows] = drawn * sample.sample_weight[counted]
        count = _mean_tree(*part, y, weight, shape, number, total, room, means)
        grown.append((_first(room, count), means[:count].copy()))
    return join_trees(grown, 1, p), total[np.searchsorted(places, sample.asked)]


def _binned_forest(
    whole: BinnedColumns, target: Floats, sample: BoostingSample, first: int, least_leaf: int, seed: int
) -> tuple[list[tuple[Nodes, Floats]], Floats]:
    """The trees ``first`` to ``first`` + TREES_AT_ONCE of a forest, and their part of the predictions (rows,)."""
    p, rng = len(whole.values), np.random.default_rng(seed)
    shape, grown, total = TreeShape(-1, least_leaf, max(1, p // 2)), [], np.zeros((len(sample.asked), 1))
    counted = some_rows(sample.sample_weight, MOST_FOREST_ROWS, seed)
    count = len(counted) if len(counted) <= MOST_DRAWN else isqrt(MOST_DRAWN * len(counted))
    for tree_number in range(first + TREES_AT_ONCE):
        drawn, number = _draw(rng, len(counted), count)
        if tree_number < first:
            continue  # another piece has it
        rows = counted[drawn > 0]
        weight, y = drawn[drawn > 0] * sample.sample_weight[rows], target[rows]
        tree, leaf = grow_binned_tree(*whole.part(rows), y[:, None], weight, shape, number)
        mass, sums = leaf_sums(np.column_stack([weight, weight * y]), leaf, len(tree.feature)).T
        means = (sums / (N_TREES * np.maximum(mass, TINY)))[:, None]
        add_leaves(whole.values, sample.asked, tree, means, total)
        grown.append((tree, means))
    return grown, total[:, 0]


def _draw(rng: np.random.Generator, n: int, count: int) -> tuple[Indices, int]:
    """How often each of n rows is among ``count`` that are drawn with replacement, (n,); and the seed of a tree."""
    return np.bincount(rng.integers(0, n, count), minlength=n), int(rng.integers(2**31))


def _together(pieces: Iterator[tuple[list[tuple[Nodes, Floats]], Floats]], n_columns: int) -> tuple[Trees, Floats]:
    """The next pieces of a forest as one, and the sum of their predictions."""
    found = list(islice(pieces, N_TREES // TREES_AT_ONCE))
    total = np.sum([predictions for _, predictions in found], axis=0)
    return join_trees([tree for grown, _ in found for tree in grown], 1, n_columns), total


def _in_threads(tasks: list[Any]) -> Iterator[Any]:
    """The results of tasks of joblib, in order, on numba's number of threads; one by one where joblib can do that."""
    how = "generator" if get_active_backend(prefer="threads")[0].supports_return_generator else "list"
    return iter(Parallel(n_jobs=numba.get_num_threads(), prefer="threads", batch_size=1, return_as=how)(tasks))


def _counted(ensembles: Iterable[Any]) -> list[Any]:
    """The ensembles of all samples, each a part of the present piece of the progress."""
    found, now = [], RUNNING.get()
    for one in ensembles:
        found.append(one)
        if now is not None:
            now.part()
    return found


@compiled
def _mean_tree(
    values: Any,
    order: Any,
    y: Floats,
    weight: Floats,
    shape: TreeShape,
    seed: int,
    total: Floats,
    room: Nodes,
    found: Floats,
) -> int:
    """Grow a tree for y (n,) into the room for its nodes, and say how many there are.

    The mean of y in its leaves over the number of trees goes to ``found`` (nodes, 1), and is added to ``total`` (n,).
    """
    tree, leaf = grown_tree(values, order, y.reshape((len(y), 1)), weight, shape, seed)
    mass, means = _constant(len(tree.feature), 1, TINY), _constant(len(tree.feature), 1, 0.0)
    for i in range(len(leaf)):
        mass[leaf[i], 0] += weight[i]
        means[leaf[i], 0] += weight[i] * y[i]
    for node in range(len(means)):
        means[node, 0] /= N_TREES * mass[node, 0]
    for i in range(len(leaf)):
        total[i] += means[leaf[i], 0]
    _put(means, found)
    return put_nodes(tree, room)


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
