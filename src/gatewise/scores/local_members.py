"""Score models that average centred scores over a category or over nearest neighbours.

Each mean is shrunk towards what is above it by n_0 rows: (sum over rows + n_0 mean above) / (rows + n_0).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from gatewise.arrays import Floats, Indices
from gatewise.scores.leaders import centre, leading_models, with_leaders
from gatewise.scores.queries import Queries

BLOCK = 512  # rows whose distances to all others are held at a time
MOST_AXES = 64  # principal axes of the features by which distances are measured
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
    """Shrunk means of centred scores (n, M) by level; the leaders' differences have a shrinkage of their own."""
    codes, levels, leaders = queries.codes[:, column], queries.n_levels[column], leading_models(centred)
    own = _shrunk_means(codes, levels, centre(centred[:, leaders]))
    return CategoryMember(column, with_leaders(_shrunk_means(codes, levels, centred), own, leaders))


def _shrunk_means(codes: Indices, levels: int, centred: Floats) -> Floats:
    """Means (levels + 1, M) of centred scores by level, shrunk by n_0 = noise variance / variance between levels.

    Both variances are by moments, as sums over the models.
    """
    counts = np.bincount(codes + 1, minlength=levels + 1)[1:].astype(np.float64)
    level = centred.mean(axis=0)
    deviation = centred - level
    found = [np.bincount(codes + 1, one, levels + 1) for one in deviation.T]  # code -1 comes first
    sums: Floats = np.stack(found, axis=1)
    shrinkage = moment_shrinkage(sums[1:], counts, float((deviation**2).sum()))
    means = np.zeros_like(sums)
    means[:-1] = sums[1:] / (counts + shrinkage)[:, None]
    return np.asarray(level + means)


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
    """Shrunk means of the centred scores (n, M) of the k nearest queries, on the leading axes of `Queries.full`."""

    axes: Any  # (q, r), float32
    rows: Any  # (n, r), float32
    squares: Any  # (n,), float32: their squared lengths
    deviations: Floats  # (n, M): centred scores less their level
    level: Floats  # (M,)
    k: int

    def forecast(self, queries: Queries) -> Floats:
        """Means over the k nearest rows of the fit, shrunk towards the level, (n, M)."""
        return neighbour_means(self.nearest(queries), self.deviations, self.level)

    def nearest(self, queries: Queries) -> Indices:
        """The places (n, k) of the nearest rows of the fit."""
        new = queries.full.astype(np.float32) @ self.axes
        blocks = [np.zeros((0, self.k), dtype=np.intp)]
        for start in range(0, len(new), BLOCK):
            distance = self.squares - 2.0 * (new[start : start + BLOCK] @ self.rows.T)
            blocks.append(np.argpartition(distance, self.k - 1, axis=1)[:, : self.k])
        return np.concatenate(blocks)


def fit_neighbours(queries: Queries, centred: Floats, k: int) -> NeighbourMember:
    """The k nearest neighbours, or all rows if there are fewer."""
    full = queries.full
    deviation = full - full.mean(axis=0)
    axes = np.linalg.eigh(deviation.T @ deviation)[1][:, ::-1][:, :MOST_AXES].astype(np.float32)
    rows = full.astype(np.float32) @ axes
    squares, level = np.einsum("ij,ij->i", rows, rows), centred.mean(axis=0)
    return NeighbourMember(axes, rows, squares, centred - level, level, min(k, len(rows)))


def neighbour_means(near: Indices, deviations: Floats, level: Floats) -> Floats:
    """The means (n, M) of deviations from the level (M,) at places (n, k), shrunk towards zero, beside the level."""
    out = np.empty((len(near), len(level)))
    for start in range(0, len(near), BLOCK):
        out[start : start + BLOCK] = deviations[near[start : start + BLOCK]].sum(axis=1)
    return np.asarray(level + out / (near.shape[1] + SHRINKAGE))
