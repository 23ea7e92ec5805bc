"""Several thresholds at once: dynamic programming over the bins of a grid.

For given shared coefficients b the best partition is found exactly: the cost of a segment is a quadratic form in b
whose factor is computed once, and costs add up over segments. In turn, for a given partition the best b is a small
least-squares problem. The search alternates the two from several starts, then moves one threshold at a time. Every
step lowers the residual sum of squares. Without shared columns the first pass is already the global minimum on the
grid; with them the result is a minimum that no move of one threshold and no change of b alone can improve.
"""

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from gatewise.arrays import Booleans, Floats
from gatewise.kernels.triangular import running_profiles, stacked_rss
from gatewise.shared.least_squares import factorize, RANK_TOLERANCE
from gatewise.shared.partition import per_region
from gatewise.shared.profile import cut, region_factors

Cuts = tuple[int, ...]  # region j ends with bin cuts[j]; the last region ends with the last bin


class Segments(NamedTuple):
    """Every run of bins a..b as a region: what remains of [shared | y] after least squares on the region's columns.

    ``factors`` has one array (B, B, s, s) for every region j, the same for regions with one basis: at [a, b] the
    triangular factor F of the remainder. For shared coefficients b the region's residual sum of squares is
    ||F (-b, 1)||^2. ``allowed`` has one array (B, B) for every region: whether bins a..b have enough rows for it.
    ``scale`` (s - 1,) are the lengths of the shared columns.
    """

    factors: tuple[Floats, ...]
    allowed: tuple[Booleans, ...]
    scale: Floats

    def stack(self, cuts: Cuts) -> Floats:
        """The factors of the segments of a partition, one on the other, (J s, s)."""
        ends = (*cuts, self.factors[0].shape[0] - 1)
        starts = (0, *(cut + 1 for cut in cuts))
        return np.vstack([f[a, b] for f, a, b in zip(self.factors, starts, ends, strict=True)])

    def rss(self, partitions: Sequence[Cuts]) -> Floats:
        """The joint residual sum of squares of every partition, (P,)."""
        return stacked_rss(np.stack([self.stack(cuts) for cuts in partitions]), self.scale, RANK_TOLERANCE)

    def feasible(self, cuts: Cuts) -> bool:
        """Whether every region of the partition has rows enough."""
        ends = (*cuts, self.factors[0].shape[0] - 1)
        starts = (0, *(cut + 1 for cut in cuts))
        return all(a <= b and ok[a, b] for ok, a, b in zip(self.allowed, starts, ends, strict=True))


def segments_of(
    x: Floats, shared: Floats, routed: Sequence[Floats], y: Floats, grid: Floats, min_rows: Sequence[int]
) -> Segments:
    """The segments of a grid; regions whose columns are one and the same array are computed once."""
    bins = cut(x, grid)
    counts = bins.cumulated[None, :] - bins.starts[:-1, None]  # (B, B) rows in bins a..b
    factors = per_region(lambda _, R: _all_runs(region_factors(R, shared, y, bins), R.shape[1]), routed)
    allowed = tuple(counts >= max(rows, 1) for rows in min_rows)
    return Segments(factors, allowed, np.linalg.norm(shared, axis=0))


def best_cuts(segments: Segments, shared: Floats) -> Cuts | None:
    """The partition of the bins into J regions with the least residual sum of squares, at given shared coefficients.

    Dynamic programming: V_j(e) = min_a V_{j-1}(a - 1) + cost_j(a, e) is the least sum for the bins 0..e cut into the
    first j regions, where region j is the bins a..e and cost_j(a, e) = ||F_j[a, e] (-shared, 1)||^2 (see `Segments`).
    None where no partition leaves every region with rows enough.
    """
    direction = np.append(-shared, 1.0)
    best, back = None, []
    for factors, allowed in zip(segments.factors, segments.allowed, strict=True):
        costs = np.where(allowed, ((factors @ direction) ** 2).sum(axis=-1), np.inf)  # (B, B)
        if best is None:
            best = costs[0]
            continue
        total = np.vstack(
            [np.full(len(best), np.inf), best[:-1, None] + costs[1:]]
        )  # [a, b]: this region starts at a
        back.append(total.argmin(axis=0))
        best = total.min(axis=0)
    assert best is not None
    if not np.isfinite(best[-1]):
        return None
    cuts, end = [], len(best) - 1
    for step in reversed(back):
        end = int(step[end]) - 1
        cuts.append(end)
    return tuple(reversed(cuts))


def search_thresholds(
    x: Floats, shared: Floats, routed: Sequence[Floats], y: Floats, grid: Floats, min_rows: Sequence[int]
) -> tuple[Floats, float]:
    """The thresholds (J-1,) of J regions that the search ends with, and their residual sum of squares.

    >>> x = np.linspace(0, 1, 90)
    >>> ones = np.ones((90, 1))
    >>> y = 2 * x + (x > 0.3) - 2 * (x > 0.6)
    >>> thresholds, rss = search_thresholds(x, x[:, None], [ones] * 3, y, np.linspace(0.1, 0.9, 17), [2] * 3)
    >>> thresholds.round(9), round(rss, 9)
    (array([0.3, 0.6]), 0.0)
    """
    segments = segments_of(x, shared, routed, y, grid, min_rows)
    found: dict[Cuts, float] = {}
    for start in _starts(segments, shared, y):
        cuts = best_cuts(segments, start)
        if cuts is None:
            wanted = ", ".join(map(str, min_rows))
            raise ValueError(f"no thresholds on the grid leave {len(routed)} regions with {wanted} rows or more")
        cuts = _descend(segments, cuts)
        found[cuts] = float(segments.rss([cuts])[0])
    best = min(found, key=lambda cuts: found[cuts])
    return grid[list(best)], found[best]


def _all_runs(factors: Floats, n_routed: int) -> Floats:
    n_bins, s = len(factors), factors.shape[1] - n_routed
    runs = np.zeros((n_bins, n_bins, s, s))
    for a in range(n_bins):
        runs[a, a:] = running_profiles(factors[a:], n_routed, RANK_TOLERANCE)
    return runs


def _starts(segments: Segments, shared: Floats, y: Floats) -> list[Floats]:
    """Shared coefficients to start from: none, those of y alone, and those of up to 20 coarse partitions."""
    if shared.shape[1] == 0:
        return [np.zeros(0)]
    n_bins, n_cuts = segments.factors[0].shape[0], len(segments.factors) - 1
    coarse = np.unique(np.linspace(0, n_bins - 2, n_cuts + 6).astype(int)[1:-1]).tolist()
    partitions = [cuts for cuts in combinations(coarse, n_cuts) if segments.feasible(cuts)]
    some = partitions[:: max(1, -(-len(partitions) // 20))]
    first = [np.zeros(shared.shape[1]), factorize(shared).solve(y)]
    return first + [_shared_coefficients(segments, cuts) for cuts in some]


def _shared_coefficients(segments: Segments, cuts: Cuts) -> Floats:
    stack = segments.stack(cuts)
    return factorize(stack[:, :-1], segments.scale).solve(stack[:, -1])


def _descend(segments: Segments, cuts: Cuts) -> Cuts:
    """Alternate b and the partition, then move one threshold at a time, until neither helps."""
    rss = segments.rss([cuts])[0]
    while True:
        moves = [cuts, *_single_moves(segments, cuts)]
        proposed = best_cuts(segments, _shared_coefficients(segments, cuts))
        if proposed is not None:
            moves.append(proposed)
        values = segments.rss(moves)
        best = int(values.argmin())
        if not values[best] < rss * (1.0 - 1e-12):
            return cuts
        cuts, rss = moves[best], values[best]


def _single_moves(segments: Segments, cuts: Cuts) -> list[Cuts]:
    n_grid = segments.factors[0].shape[0] - 1
    moved = [(*cuts[:j], k, *cuts[j + 1 :]) for j in range(len(cuts)) for k in range(n_grid)]
    return [new for new in moved if new != cuts and segments.feasible(new)]
