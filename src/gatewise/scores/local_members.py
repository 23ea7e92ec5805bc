"""Score models that average centred scores: over a category, over nearest neighbours, over leaves of trees.

Each mean is shrunk towards what is above it by n_0 rows: (sum over rows + n_0 mean above) / (rows + n_0).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from gatewise import kernels
from gatewise.arrays import Floats, Indices
from gatewise.scores.queries import Design, Queries

BLOCK = 1024  # rows whose distances to all others are held at a time
MOST_TARGETS = 6  # principal components of the centred scores that a tree is grown on
SHRINKAGE = 20.0  # n_0 of a leaf and of neighbours


@dataclass(frozen=True, eq=False)
class CategoryMember:
    """The best model per category: shrunk means (levels + 1, M) of one column; the last row is for other levels."""

    column: int
    means: Floats

    def forecast(self, queries: Queries) -> Floats:
        """The means of every query's level, (n, M)."""
        return self.means[queries.codes[:, self.column]]


def fit_category(queries: Queries, centred: Floats, column: int) -> CategoryMember:
    """Means of centred scores (n, M) by level, shrunk by n_0 = noise variance / variance between levels.

    Both variances are by moments, as sums over the models.
    """
    codes, levels = queries.codes[:, column], queries.n_levels[column]
    counts = np.bincount(codes + 1, minlength=levels + 1)[1:].astype(np.float64)
    level = centred.mean(axis=0)
    sums = np.zeros((levels + 1, centred.shape[1]))
    np.add.at(sums, codes, centred - level)  # code -1 is the last row
    shrinkage = moment_shrinkage(sums[:-1], counts, float(((centred - level) ** 2).sum()))
    means = np.zeros_like(sums)
    means[:-1] = sums[:-1] / (counts + shrinkage)[:, None]
    return CategoryMember(column, level + means)


def moment_shrinkage(sums: Floats, counts: Floats, total: float) -> float:
    """n_0 = noise variance / variance between groups from sums (G, M) of centred values; infinite if none is seen.

    With n rows the noise variance is s^2 = (total - sum_g |sum_g|^2 / n_g) / (n - G), and the variance between groups
    (sum_g |sum_g|^2 / n_g - (G - 1) s^2) / (n - sum_g n_g^2 / n).

    >>> moment_shrinkage(np.array([[10.0], [-10.0]]), np.array([10.0, 10.0]), 200.0)
    10.0
    """
    kept = counts > 0
    n, groups = float(counts.sum()), int(kept.sum())
    between = float((sums[kept] ** 2 / counts[kept, None]).sum())
    if n <= groups or groups < 2:
        return float("inf")
    noise = max((total - between) / (n - groups), 0.0)
    variance = (between - (groups - 1) * noise) / (n - float((counts**2).sum()) / n)
    return noise / variance if variance > 0.0 else float("inf")


@dataclass(frozen=True, eq=False)
class NeighbourMember:
    """Shrunk means of the centred scores (n, M) of the k nearest queries by the distance of `Queries.full`."""

    rows: Any  # (n, q), float32
    squares: Any  # (n,), float32: their squared lengths
    centred: Floats  # (n, M)
    level: Floats  # (M,)
    k: int

    def forecast(self, queries: Queries) -> Floats:
        """Means over the k nearest rows of the fit, shrunk towards the level, (n, M)."""
        new = queries.full.astype(np.float32)
        out = np.empty((len(new), self.centred.shape[1]))
        for start in range(0, len(new), BLOCK):
            distance = self.squares - 2.0 * (new[start : start + BLOCK] @ self.rows.T)
            near = np.argpartition(distance, self.k - 1, axis=1)[:, : self.k]
            out[start : start + BLOCK] = (self.centred[near] - self.level).sum(axis=1)
        return np.asarray(self.level + out / (self.k + SHRINKAGE))


def fit_neighbours(queries: Queries, centred: Floats, k: int) -> NeighbourMember:
    """The k nearest neighbours, or all rows if there are fewer."""
    rows = queries.full.astype(np.float32)
    return NeighbourMember(rows, np.einsum("ij,ij->i", rows, rows), centred, centred.mean(axis=0), min(k, len(rows)))


@dataclass(frozen=True, eq=False)
class TreeMember:
    """The mean over trees of the shrunk means of centred scores in a query's leaf; ``design`` is what they split."""

    design: Design
    trees: kernels.Trees
    level: Floats  # (M,)

    def forecast(self, queries: Queries) -> Floats:
        """The sum of the leaves' values, (n, M)."""
        return np.asarray(self.level + kernels.tree_sums(queries.design(self.design), self.trees))


def fit_tree(queries: Queries, centred: Floats, depth: int, least_leaf: int, seed: int) -> TreeMember:
    """One shallow tree on categories and numbers."""
    from sklearn.tree import DecisionTreeRegressor  # noqa: PLC0415 - slow to import

    columns = queries.plain.astype(np.float32)
    tree = DecisionTreeRegressor(max_depth=depth, min_samples_leaf=least_leaf, random_state=seed)
    grown = [tree.fit(columns, _targets(centred))]
    return _packed("plain", grown, columns, centred)


def fit_forest(queries: Queries, centred: Floats, n_trees: int, least_leaf: int, seed: int) -> TreeMember:
    """Extremely randomised trees on categories, numbers and text."""
    from sklearn.ensemble import ExtraTreesRegressor  # noqa: PLC0415 - slow to import

    columns = queries.full.astype(np.float32)
    forest = ExtraTreesRegressor(n_trees, min_samples_leaf=least_leaf, max_features=0.3, random_state=seed)
    return _packed("full", forest.fit(columns, _targets(centred)).estimators_, columns, centred)


def _targets(centred: Floats) -> Floats:
    """The leading principal components of centred scores, on which trees are grown, (n, at most MOST_TARGETS)."""
    Y = centred - centred.mean(axis=0)
    return np.asarray(Y @ np.linalg.eigh(Y.T @ Y)[1][:, ::-1][:, :MOST_TARGETS])


def _packed(design: Design, grown: Sequence[Any], columns: Any, centred: Floats) -> TreeMember:
    """Trees whose leaves hold the mean of all M centred scores, shrunk towards that of all rows."""
    level = centred.mean(axis=0)
    Y = centred - level
    leaves = [(_nodes(one.tree_), _leaf_means(one.tree_, one.apply(columns), Y) / len(grown)) for one in grown]
    return TreeMember(design, kernels.join_trees(leaves, Y.shape[1], columns.shape[1]), level)


def _nodes(tree: Any) -> kernels.Nodes:
    """The nodes of a tree of scikit-learn."""
    return kernels.Nodes(np.maximum(tree.feature, -1), tree.threshold, tree.children_left, tree.children_right)


def _leaf_means(tree: Any, leaf: Indices, Y: Floats) -> Floats:
    """Shrunk means (nodes, M) of Y (n, M) over the rows of each leaf; zero at inner nodes."""
    n = len(Y)
    member = csr_array((np.ones(n), (leaf, np.arange(n))), shape=(tree.node_count, n))
    counts = np.bincount(leaf, minlength=tree.node_count)
    sums: Floats = np.asarray(member @ Y)
    return sums / (counts + SHRINKAGE)[:, None]
