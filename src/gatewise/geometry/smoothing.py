"""Losses of single rows are noise; these rules average them over neighbours."""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

import numpy as np
from scipy.spatial import KDTree
from scipy.spatial.distance import cdist
from scipy.special import softmax

from gatewise.arrays import as_count, as_positive, BLOCK_NUMBERS, Floats

Smoother = Callable[[Floats, Floats, Floats], Floats]


@dataclass(frozen=True)
class NeighborMean:
    """The mean loss of the nearest rows; their number is ceil(n^(2 / (2 + d))) unless given.

    That order balances bias against variance for losses that are Lipschitz in x.

    >>> NeighborMean(2)(np.array([[0.0], [1.0], [5.0]]), np.array([[1.0], [3.0], [9.0]]), np.array([[0.4]]))
    array([[2.]])
    """

    n_neighbors: int | None = None

    def __post_init__(self) -> None:
        if self.n_neighbors is not None:
            as_count(self.n_neighbors, "n_neighbors")

    def __call__(self, X: Floats, losses: Floats, X_new: Floats) -> Floats:
        """The smoothed losses at X_new (m, d), (m, M)."""
        n, d = X.shape
        count = ceil(n ** (2 / (2 + d))) if self.n_neighbors is None else self.n_neighbors
        if count > n:
            raise ValueError(f"n_neighbors must be at most the number of rows, {n}, not {count}")
        out = np.empty((len(X_new), losses.shape[1]))
        tree, step = KDTree(X), max(1, BLOCK_NUMBERS // (count * losses.shape[1]))
        for start in range(0, len(X_new), step):
            part = slice(start, start + step)
            nearest = tree.query(X_new[part], k=[*range(1, count + 1)])[1]  # (b, count)
            out[part] = losses[nearest].mean(axis=1)
        return out


@dataclass(frozen=True)
class KernelMean:
    """The mean loss under Gaussian weights exp(-|x - x_i|^2 / (2 bandwidth^2)) around every new row x.

    The bandwidth is n^(-1 / (4 + d)) times the columns' mean standard deviation unless given: Scott's rule, with one
    bandwidth for all columns.

    >>> KernelMean(0.1)(np.array([[0.0], [1.0]]), np.array([[1.0], [3.0]]), np.array([[0.0], [0.5], [99.0]]))
    array([[1.],
           [2.],
           [3.]])
    """

    bandwidth: float | None = None

    def __post_init__(self) -> None:
        if self.bandwidth is not None:
            as_positive(self.bandwidth, "bandwidth")

    def __call__(self, X: Floats, losses: Floats, X_new: Floats) -> Floats:
        """The smoothed losses at X_new (m, d), (m, M)."""
        n, d = X.shape
        width = n ** (-1 / (4 + d)) * X.std(axis=0).mean() if self.bandwidth is None else self.bandwidth
        width = as_positive(width, "the bandwidth by Scott's rule (X does not vary)")
        out = np.empty((len(X_new), losses.shape[1]))
        step = max(1, BLOCK_NUMBERS // n)
        for start in range(0, len(X_new), step):
            part = slice(start, start + step)
            # In log space the nearest rows decide however far away a new row is.
            logs = -0.5 * cdist(X_new[part], X, "sqeuclidean") / width**2
            out[part] = softmax(logs, axis=1) @ losses
        return out
