"""Score models of trees: the mean of centred scores in a leaf, shrunk, of one tree, of many, or of boosted ones.

Trees split numbers, text, and the levels of a category in the order of what they are worth: each category becomes the
leading principal components of its levels' mean centred scores.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.sparse import csr_array

from gatewise import kernels
from gatewise.arrays import Floats, Indices
from gatewise.scores.leaders import centre, leading_models, with_leaders
from gatewise.scores.local_members import fit_category, SHRINKAGE
from gatewise.scores.queries import Queries

MOST_TARGETS = 6  # principal components of the centred scores that a tree is grown on
ORDERS = 2  # columns that a category becomes for all models, and as many for the leaders
TEXT_AXES = 20  # leading axes of the text that trees split
LEAST_LEAF = 30
FEATURES = 0.5  # of the columns that a random split looks at


class TreeColumns(NamedTuple):
    """The worth (levels + 1, J) of the levels of every category in several orders, the last row for other levels."""

    worth: tuple[Floats, ...]

    @classmethod
    def fit(cls, queries: Queries, centred: Floats) -> Self:
        """The worth of all levels from centred scores (n, M): among all models, and among the leaders."""
        leaders = leading_models(centred)
        axes = _axes(centred)[:, :ORDERS]
        own = np.zeros((centred.shape[1], ORDERS))
        among = _axes(centre(centred[:, leaders]))[:, :ORDERS]
        own[leaders, : among.shape[1]] = among
        both = np.concatenate([axes, own], axis=1)
        return cls(tuple(fit_category(queries, centred, j).means @ both for j in range(len(queries.n_levels))))

    def of(self, queries: Queries) -> Any:
        """What trees split, (n, p) in float32."""
        worth = [table[queries.codes[:, j]] for j, table in enumerate(self.worth)]
        parts = [*worth, queries.numbers, queries.text[:, :TEXT_AXES]]
        return np.concatenate(parts, axis=1, dtype=np.float32)


@dataclass(frozen=True, eq=False)
class TreeMember:
    """A level (M,) and the sum over trees of the values of a query's leaves."""

    columns: TreeColumns
    trees: kernels.Trees
    level: Floats

    def forecast(self, queries: Queries) -> Floats:
        """Forecasts (n, M) of centred scores."""
        return np.asarray(self.level + kernels.tree_sums(self.columns.of(queries), self.trees))


def fit_tree(queries: Queries, centred: Floats, depth: int, seed: int) -> TreeMember:
    """One shallow tree."""
    from sklearn.tree import DecisionTreeRegressor  # noqa: PLC0415 - slow to import

    def tree(number: int) -> Any:
        return DecisionTreeRegressor(max_depth=depth, min_samples_leaf=LEAST_LEAF, random_state=seed + number)

    return _fit(queries, centred, _Growing(1, tree, 1.0, boosted=False))


def fit_forest(queries: Queries, centred: Floats, n_trees: int, seed: int) -> TreeMember:
    """The mean of extremely randomised trees."""
    return _fit(queries, centred, _Growing(n_trees, _random_tree(None, seed), 1.0 / n_trees, boosted=False))


def fit_boosted(
    queries: Queries, centred: Floats, n_trees: int, depth: int, shrinkage: float, seed: int
) -> TreeMember:
    """Randomised trees, each grown on what the ones before it leave, with steps that are shrunk."""
    return _fit(queries, centred, _Growing(n_trees, _random_tree(depth, seed), shrinkage, boosted=True))


def _random_tree(depth: int | None, seed: int) -> Callable[[int], Any]:
    from sklearn.tree import ExtraTreeRegressor  # noqa: PLC0415 - slow to import

    options = {"max_depth": depth, "min_samples_leaf": LEAST_LEAF, "max_features": FEATURES}
    return lambda number: ExtraTreeRegressor(**options, random_state=seed + number)


class _Growing(NamedTuple):
    """How trees are grown: their number, what makes a tree, the factor of its leaves, whether on residuals."""

    n_trees: int
    tree: Callable[[int], Any]
    step: float
    boosted: bool


def _fit(queries: Queries, centred: Floats, plan: _Growing) -> TreeMember:
    """Trees for all models, and trees for the leaders, whose differences are taken from those."""
    columns, leaders = TreeColumns.fit(queries, centred), leading_models(centred)
    rows, level = columns.of(queries), centred.mean(axis=0)
    grown = _grow(rows, centred - level, plan) if rows.shape[1] else []
    if len(leaders) < centred.shape[1]:
        own = centre(centred[:, leaders] - level[leaders])
        grown = [(tree, with_leaders(values, np.zeros(len(leaders)), leaders)) for tree, values in grown]
        for tree, values in _grow(rows, own, plan) if rows.shape[1] else []:
            wide = np.zeros((len(values), len(level)))
            wide[:, leaders] = values
            grown.append((tree, wide))
    return TreeMember(columns, kernels.join_trees(grown, len(level), rows.shape[1]), level)


def _grow(rows: Any, residual: Floats, plan: _Growing) -> list[tuple[kernels.Nodes, Floats]]:
    """Trees on the residuals (n, M) of the level, with the values (nodes, M) of their leaves."""
    from sklearn import config_context  # noqa: PLC0415 - slow to import

    axes, grown = _axes(residual), []
    for number in range(plan.n_trees):
        with config_context(skip_parameter_validation=True):
            tree = plan.tree(number).fit(rows, residual @ axes, check_input=False).tree_
        leaf = tree.apply(rows)
        values = plan.step * _leaf_means(leaf, residual, tree.node_count)
        if plan.boosted:
            residual = residual - values[leaf]
        nodes = kernels.Nodes(np.maximum(tree.feature, -1), tree.threshold, tree.children_left, tree.children_right)
        grown.append((nodes, values))
    return grown


def _axes(centred: Floats) -> Floats:
    """The leading principal axes (M, at most MOST_TARGETS) of centred scores (n, M), the first one first."""
    Y = centred - centred.mean(axis=0)
    return np.asarray(np.linalg.eigh(Y.T @ Y)[1][:, ::-1][:, :MOST_TARGETS])


def _leaf_means(leaf: Indices, Y: Floats, count: int) -> Floats:
    """Means (nodes, M) of Y (n, M) over the rows of each leaf, shrunk towards zero; zero at inner nodes."""
    n = len(Y)
    member = csr_array((np.ones(n), (leaf, np.arange(n))), shape=(count, n))
    sums: Floats = np.asarray(member @ Y)
    return sums / (np.bincount(leaf, minlength=count) + SHRINKAGE)[:, None]
