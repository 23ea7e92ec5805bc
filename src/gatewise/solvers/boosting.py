"""Functional gradient boosting of what judges a mixture: scores of a gate, or a part that is added to it.

For row i the mixture is z_i = g(x_i) . F_i + h(x_i), where g is the softmax of scores. A round fits one regression
tree to the negative gradient of the loss in the outputs that are boosted, the M scores or the one number h, and moves
the outputs of each leaf by a Newton step. The trees are scikit-learn's; a fitted ensemble is a few arrays
(`kernels.Trees`).
"""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.special import softmax

from gatewise import kernels
from gatewise.arrays import Floats, Indices
from gatewise.losses import Loss

Part = Literal["scores", "shared"]
LARGEST_STEP = 4.0  # the Newton step of a score in a leaf is clipped to this
MOST_TARGETS = 4  # a tree is grown on so many principal components of the gradient, at most
MOST_GROWING = 20_000  # rows that one tree is grown on, at most; each round draws others
LEAST_LEAF = 5  # rows in a leaf, at least
PRECISION = 1.0  # of the Gaussian prior of a leaf's step, in the unit of the outputs


@dataclass(frozen=True)
class Boosting:
    """How an ensemble is grown: the depth of its trees, the shrinkage of their steps, and the number of rounds."""

    depth: int
    shrinkage: float
    rounds: int


@dataclass(frozen=True, eq=False)
class BoostingProblem:
    """The rows: columns (n, p) that trees split, forecasts F (n, M), their loss, and the weights of the rows."""

    columns: Floats
    F: Floats
    loss: Loss
    reference: Floats  # (M,): the weights where all scores are zero
    sample_weight: Floats


class _Slopes(NamedTuple):
    value: Floats  # (n,): the loss of every row, with its weight
    gradient: Floats  # (n, J) in the boosted outputs
    curvature: Floats  # (n, J), not negative: the Gauss-Newton part


def boost(problem: BoostingProblem, part: Part, plan: Boosting, seed: int) -> kernels.Trees:
    """Boost the scores of a gate, or a shared part beside constant weights, on the loss of the mixture.

    The sum of the trees (`kernels.tree_sums`) is the scores (n, M), or the shared part (n, 1) over the loss's scale.
    The first r trees are what r rounds would have given.

    >>> from gatewise.losses import ResidualLoss
    >>> x = np.linspace(-1, 1, 400)
    >>> F = np.column_stack([np.ones(400), -np.ones(400)])
    >>> loss = ResidualLoss(np.sign(np.sin(9 * x)), variance=0.1)
    >>> rows = BoostingProblem(x[:, None], F, loss, np.array([0.5, 0.5]), np.ones(400))
    >>> trees = boost(rows, "scores", Boosting(depth=3, shrinkage=0.3, rounds=40), seed=0)
    >>> scores = kernels.tree_sums(x[:, None], trees)
    >>> float(np.mean(np.sign(scores[:, 0] - scores[:, 1]) == loss.y).round(1))
    1.0
    """
    n, rng = len(problem.F), np.random.default_rng(seed)
    columns = np.ascontiguousarray(problem.columns, dtype=np.float32)
    outputs = np.zeros((n, problem.F.shape[1] if part == "scores" else 1))
    slopes_at = slopes_of(problem, part)
    grown: list[Any] = []
    for _ in range(plan.rounds if columns.shape[1] else 0):
        rows = np.arange(n) if n <= MOST_GROWING else np.sort(rng.choice(n, MOST_GROWING, replace=False))
        tree, leaf, steps = _grow(columns, slopes_at(outputs), rows, plan, rng)
        outputs += plan.shrinkage * steps[leaf]
        grown.append((tree, plan.shrinkage * steps))
    return kernels.pack_trees(grown, outputs.shape[1], columns.shape[1])


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


def slopes_of(problem: BoostingProblem, part: Part) -> Any:
    """The function from outputs (n, J) to the loss, its gradient and its curvature at every row."""
    F, loss, weight = problem.F, problem.loss, problem.sample_weight
    constant, unit = F @ problem.reference, float(loss.scale)
    offset = np.log(np.maximum(problem.reference, np.finfo(float).tiny))
    quadratic = loss.quadratic()

    def judged(z: Floats) -> tuple[Floats, Floats, Floats]:
        """The weighted loss at z (n,), its slope, and its curvature where that is positive."""
        if quadratic is not None:
            precision = weight / quadratic[1]
            residual = quadratic[0] - z
            return 0.5 * precision * residual**2, -precision * residual, precision
        return weight * loss.value(z), weight * loss.slope(z), weight * np.maximum(loss.curvature(z), 0.0)

    def shared(outputs: Floats) -> _Slopes:
        value, slope, curvature = judged(constant + unit * outputs[:, 0])
        return _Slopes(value, unit * slope[:, None], unit**2 * curvature[:, None])

    def scores(outputs: Floats) -> _Slopes:
        weights = softmax(offset + outputs, axis=1)
        mixture = np.einsum("im,im->i", weights, F)
        value, slope, curvature = judged(mixture)
        tilts = weights * (F - mixture[:, None])
        return _Slopes(value, slope[:, None] * tilts, curvature[:, None] * tilts**2)

    return scores if part == "scores" else shared
