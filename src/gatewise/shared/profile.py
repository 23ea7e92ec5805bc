"""Profile least squares over one unknown threshold, for columns that do not move with it."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gatewise.arrays import Floats, Indices
from gatewise.kernels.triangular import bin_factors, running_profiles, stacked_rss
from gatewise.shared.least_squares import RANK_TOLERANCE


class ThresholdProfile(NamedTuple):
    """The residual sum of squares at every threshold of a grid; infinite where a region would have too few rows."""

    grid: Floats  # (G,)
    rss: Floats  # (G,)

    @property
    def threshold(self) -> float:
        """The threshold with the smallest residual sum of squares; the first one, if several share it."""
        return float(self.grid[np.argmin(self.rss)])


class Bins(NamedTuple):
    """Rows sorted into the bins that the grid cuts: bin b holds grid[b-1] < x <= grid[b]."""

    order: Indices  # (n,) rows, sorted by bin
    starts: Indices  # (B+1,)

    @property
    def cumulated(self) -> Indices:
        """The number of rows in bins 0..b, (B,)."""
        return self.starts[1:]


def cut(x: Floats, grid: Floats) -> Bins:
    """Sort the rows into bins; only the bin matters, not the order within one.

    >>> cut(np.array([0.9, 0.1, 0.5]), np.array([0.5])).starts
    array([0, 2, 3])
    """
    bins = np.searchsorted(grid, x, side="left").astype(np.uint16 if len(grid) < 2**16 else np.intp)
    order = np.argsort(bins, kind="stable")  # a radix sort on small whole numbers: linear in n
    counts = np.bincount(bins, minlength=len(grid) + 1)
    return Bins(order, np.concatenate([[0], np.cumsum(counts)]).astype(np.intp))


def profile_threshold(
    x: Floats,
    shared: Floats,
    routed: Sequence[Floats],
    y: Floats,
    grid: Floats,
    min_rows: Sequence[int] = (1, 1),
) -> ThresholdProfile:
    """RSS(c) = min ||y - S b - 1{x <= c} R_1 a_1 - 1{x > c} R_2 a_2||^2 at every c of the grid, no refits.

    The rows are read once: each bin between thresholds is reduced to the triangular factor of its normal equations,
    and those are cumulated from the left for the first region and from the right for the second. x (n,), shared
    (n, p_S), routed two arrays (n, p_j) on all rows, grid (G,) increasing. The search of the paper's simulations,
    `subsec:supp-mse-comparison-shared-expert`.

    >>> x = np.linspace(0, 1, 50)
    >>> ones = np.ones((50, 1))
    >>> profile_threshold(x, x[:, None], [ones, ones], x + (x > 0.26), np.linspace(0.125, 0.875, 7)).threshold
    0.25
    """
    bins = cut(x, grid)
    left = region_factors(routed[0], shared, y, bins)
    right = left if routed[1] is routed[0] else region_factors(routed[1], shared, y, bins)
    below = running_profiles(left, routed[0].shape[1], RANK_TOLERANCE)[:-1]
    above = running_profiles(right[::-1], routed[1].shape[1], RANK_TOLERANCE)[::-1][1:]
    scale = np.linalg.norm(shared, axis=0)
    rss = stacked_rss(np.concatenate([below, above], axis=1), scale, RANK_TOLERANCE)
    n_below = bins.cumulated[:-1]
    allowed = (n_below >= min_rows[0]) & (len(x) - n_below >= min_rows[1])
    return ThresholdProfile(grid, np.where(allowed, rss, np.inf))


def region_factors(routed: Floats, shared: Floats, y: Floats, bins: Bins) -> Floats:
    """The triangular factor of the QR decomposition of [routed | shared | y] in every bin, (B, q, q)."""
    rows = np.column_stack([routed, shared, y]).take(bins.order, axis=0)  # several times as fast as an index
    return bin_factors(rows, bins.starts)
