"""Threshold search with local coordinates that move with the threshold: every choice of thresholds is a refit."""

from collections.abc import Callable, Sequence

import numpy as np
from joblib import delayed, Parallel

from gatewise.arrays import Floats
from gatewise.experts.pool import bounded_jobs

Score = Callable[[Floats], float]  # thresholds (J-1,) -> residual sum of squares, infinite if not allowed


def search_moving(
    score: Score, grid: Floats, n_thresholds: int, n_jobs: int | None = None
) -> tuple[Floats, float, Floats]:
    """The thresholds, their RSS and the last profile: greedy insertion, then one threshold at a time till none moves.

    With one threshold this is the full profile, so the minimum on the grid; with several it is a minimum that no move
    of a single threshold improves. ``score`` is called in threads: the work is in LAPACK, which runs side by side.

    >>> search_moving(lambda c: float(((c - 0.31) ** 2).sum()), np.linspace(0, 1, 11), 1)[0].round(9)
    array([0.3])
    """
    workers = Parallel(n_jobs=bounded_jobs(n_jobs), prefer="threads")

    def profile(others: Sequence[float]) -> Floats:
        choices = [np.sort(np.append(others, point)) for point in grid]
        return np.array(workers(delayed(score)(thresholds) for thresholds in choices), dtype=np.float64)

    chosen: list[float] = []
    values = np.full(len(grid), np.inf)
    for _ in range(n_thresholds):
        values = profile(chosen)
        chosen = sorted([*chosen, float(grid[values.argmin()])])
    best, moved = float(values.min()), n_thresholds > 1
    while moved:
        moved = False
        for j in range(n_thresholds):
            others = chosen[:j] + chosen[j + 1 :]
            values = profile(others)
            if values.min() < best * (1.0 - 1e-12):
                best, moved = float(values.min()), True
                chosen = sorted([*others, float(grid[values.argmin()])])
    return np.array(chosen), best, values
