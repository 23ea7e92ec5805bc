"""Mean squared residual of every candidate, and the candidate that minimises it."""

import numpy as np

from gatewise.kernels.compiled import compiled, compiled_leaf
from gatewise.kernels.tile import Floats, SPAN, TILE
from gatewise.kernels.units import locate, make_work, prepare, residuals, Tables


@compiled_leaf
def _add_squares(residual: Floats, n_rows: int, total: Floats) -> None:
    for row in range(n_rows):
        for i in range(TILE):
            total[i] += residual[row, i] * residual[row, i]


@compiled
def mean_square_units(tables: Tables, n: int, start: int, stop: int, out: Floats) -> None:
    """out[s] = sum_t residual[s, t]^2 / n for the candidates of units start to stop; out (S,)."""
    work = make_work(tables)
    residual, total = np.empty((SPAN, TILE)), np.empty(TILE)
    for unit in range(start, stop):
        first, count = locate(tables, unit)
        if count > 0:
            prepare(tables, work, unit)
            total[:] = 0.0
            for t in range(0, n, SPAN):
                stop_t = min(t + SPAN, n)
                residuals(tables, work, t, stop_t, residual)
                _add_squares(residual, stop_t - t, total)
            for i in range(count):
                out[first + i] = total[i] / n


@compiled_leaf
def _can_win(total: Floats, count: int, best: float) -> bool:
    able = 0
    for i in range(count):
        able += 1 if total[i] <= best else 0
    return able > 0


@compiled
def least_square_units(tables: Tables, n: int, start: int, stop: int, bound: float) -> tuple[float, int]:
    """Smallest sum_t residual^2 not above bound, and its candidate; (inf, -1) when all are above.

    Exact: a tile is left when the sums of all its candidates exceed the best so far, and sums only grow. Of equal
    sums the smaller candidate wins.
    """
    work = make_work(tables)
    residual, total = np.empty((SPAN, TILE)), np.empty(TILE)
    best, winner = bound, -1
    for unit in range(start, stop):
        first, count = locate(tables, unit)
        if count == 0:
            continue
        prepare(tables, work, unit)
        total[:] = 0.0
        t, open_ = 0, True
        while open_ and t < n:
            end = min(n, t + SPAN)
            residuals(tables, work, t, end, residual)
            _add_squares(residual, end - t, total)
            t = end
            open_ = _can_win(total, count, best)
        if open_:
            for i in range(count):
                if total[i] < best or (total[i] == best and (winner < 0 or first + i < winner)):
                    best, winner = total[i], first + i
    return (best, winner) if winner >= 0 else (np.inf, -1)
