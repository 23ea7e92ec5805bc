"""The threshold search against a naive loop with `numpy.linalg.lstsq`: 200 thresholds, 15 columns, one thread.

Both get the columns ready-made. The naive loop cuts the design anew and refits at every threshold. ``fit`` is the
whole of `SharedRoutedRegressor.fit`: columns, search and the final QR.
"""

from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.timing import best_times, save
from gatewise import SharedRoutedRegressor
from gatewise.paper.shared_designs import SHARED_DESIGNS
from gatewise.shared import profile_threshold, ThresholdSearch

GRID = np.linspace(0.1, 0.9, 200)
DESIGN = SHARED_DESIGNS["simple-shared"]


def naive(x: np.ndarray, shared: np.ndarray, routed: np.ndarray, y: np.ndarray) -> np.ndarray:
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
        "naive": lambda: naive(X[:, 0], shared, routed, y),
    }
    fast, slow = jobs["search"](), jobs["naive"]()
    seconds = best_times(jobs, rounds)
    return {
        "n": n,
        "seconds": seconds,
        "times_faster": seconds["naive"] / seconds["search"],
        "largest_relative_difference": float(np.abs(fast.rss / slow - 1.0).max()),
        "same_threshold": bool(fast.rss.argmin() == slow.argmin()),
    }


def main() -> None:
    with threadpool_limits(1):
        rows = [measure(20_000, rounds=5), measure(100_000, rounds=2)]
    save("profile_search", {"thresholds": 200, "columns": 15, "threads": 1, "rows": rows})


if __name__ == "__main__":
    main()
