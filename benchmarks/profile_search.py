"""The threshold search against NumPy with cumulated Gram matrices: 200 thresholds, 15 columns, one thread.

Both get the columns ready-made. The rival sums the Gram matrices of the rows between thresholds from the left, and
solves all normal equations at once; it squares the condition number of the columns, which the search does not.
``fit`` is the whole of `SharedRoutedRegressor.fit`: columns, search and the final QR.
"""

from itertools import pairwise
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.timing import in_turn, save
from gatewise import SharedRoutedRegressor
from gatewise.paper.shared_designs import SHARED_DESIGNS
from gatewise.shared import profile_threshold, ThresholdSearch

GRID = np.linspace(0.1, 0.9, 200)
DESIGN = SHARED_DESIGNS["simple-shared"]


def even_bins(x: np.ndarray) -> np.ndarray:
    """`numpy.searchsorted(GRID, x)` from the even steps of the grid: a guess, off by one at most, and mended."""
    bins = np.clip(np.ceil((x - GRID[0]) * ((len(GRID) - 1) / (GRID[-1] - GRID[0]))), 0, len(GRID)).astype(np.uint16)
    bins += x > np.append(GRID, np.inf).take(bins)
    bins -= x <= np.append(-np.inf, GRID).take(bins)
    return bins


def cumulated(x: np.ndarray, shared: np.ndarray, routed: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Sums of squares at all thresholds from Gram matrices (G, q, q) of the rows below each."""
    p, r = shared.shape[1], routed.shape[1]
    bins = even_bins(x)
    rows = np.column_stack([shared, routed, y]).take(np.argsort(bins, kind="stable"), axis=0)
    edges = np.concatenate([[0], np.cumsum(np.bincount(bins, minlength=len(GRID) + 1))])
    parts = np.stack([rows[a:b].T @ rows[a:b] for a, b in pairwise(edges.tolist())])
    below, total = np.cumsum(parts, axis=0)[:-1], parts.sum(axis=0)
    sides = (below, total - below)
    gram, right = np.zeros((len(GRID), p + 2 * r, p + 2 * r)), np.zeros((len(GRID), p + 2 * r))
    gram[:, :p, :p], right[:, :p] = total[:p, :p], total[:p, -1]
    for number, side in enumerate(sides):
        here = slice(p + number * r, p + (number + 1) * r)
        gram[:, here, here], right[:, here] = side[:, p:-1, p:-1], side[:, p:-1, -1]
        gram[:, :p, here] = side[:, :p, p:-1]
        gram[:, here, :p] = side[:, p:-1, :p]
    return total[-1, -1] - (right * np.linalg.solve(gram, right[:, :, None])[:, :, 0]).sum(axis=1)


def naive(x: np.ndarray, shared: np.ndarray, routed: np.ndarray, y: np.ndarray) -> np.ndarray:
    """A fit by `numpy.linalg.lstsq` at every threshold: what both must agree with."""
    rss = np.empty(len(GRID))
    for g, c in enumerate(GRID):
        below = (x <= c)[:, None]
        design = np.hstack([shared, routed * below, routed * ~below])
        rest = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
        rss[g] = rest @ rest
    return rss


def measure(n: int, rounds: int) -> dict[str, Any]:
    X, y = DESIGN.sample(n, np.random.default_rng(0))
    shared, routed = DESIGN.shared.transform(X), DESIGN.routed.transform(X)
    model = SharedRoutedRegressor(DESIGN.shared, DESIGN.routed, ThresholdSearch(0, grid=tuple(GRID)))
    jobs = {
        "search": lambda: profile_threshold(X[:, 0], shared, [routed, routed], y, GRID),
        "fit": lambda: model.fit(X, y),
        "cumulated": lambda: cumulated(X[:, 0], shared, routed, y),
    }
    fast, rival, slow = jobs["search"](), jobs["cumulated"](), naive(X[:, 0], shared, routed, y)
    times = in_turn(jobs, rounds)
    return {
        "n": n,
        "seconds": times.medians(),
        "faster_than_gram": times.ratio("cumulated", "search"),
        "largest_relative_difference": float(np.abs(fast.rss / slow - 1.0).max()),
        "largest_relative_difference_of_rival": float(np.abs(rival / slow - 1.0).max()),
        "same_threshold": bool(fast.rss.argmin() == slow.argmin() == rival.argmin()),
    }


def main() -> None:
    with threadpool_limits(1):
        rows = [measure(20_000, rounds=15), measure(100_000, rounds=9)]
    save("profile_search", {"thresholds": 200, "columns": 15, "threads": 1, "rows": rows})


if __name__ == "__main__":
    main()
