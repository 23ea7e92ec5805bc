"""Mean squared residual of every candidate, and the candidate that minimises it; residuals themselves where asked."""

import numpy as np

from gatewise.arrays import Floats
from gatewise.kernels.compiled import compiled, leaf
from gatewise.kernels.net.units import ALL, locate, make_work, prepare, residuals, Tables
from gatewise.kernels.simd.tile import aligned_rows, load_strip, MEMBERS, SPAN, store_strip, STRIP, TILE


@leaf
def _add_squares(residual: Floats, n_rows: int, member: int, total: Floats) -> None:
    """total[member] += sum of residual[row]^2 over the first n_rows rows; residual (SPAN, TILE)."""
    for column in range(0, TILE, STRIP):
        a, b, c, d = load_strip(total, member * TILE + column)
        for row in range(n_rows):
            p, q, r, s = load_strip(residual, row * TILE + column)
            a, b, c, d = a + p * p, b + q * q, c + r * r, d + s * s
        store_strip(total, member * TILE + column, (a, b, c, d))


@leaf
def _can_win(total: Floats, member: int, count: int, best: float) -> bool:
    """Whether the sum of some candidate of the member is not above the best sum so far."""
    n_able = 0
    for i in range(count):
        n_able += 1 if total[member, i] <= best else 0
    return n_able > 0


@leaf
def _keep_rows(residual: Floats, begin: int, end: int, count: int, place: int, rows: Floats) -> None:
    """rows[place + i, t] = residual[t - begin, i] for the first ``count`` candidates i and begin <= t < end."""
    for i in range(count):
        for t in range(begin, end):
            rows[place + i, t] = residual[t - begin, i]


@compiled
def square_units(
    tables: Tables, n: int, start: int, stop: int, bound: float, out: Floats, only: int, rows: Floats
) -> tuple[float, int]:
    """Sums of squared residuals of the candidates of units start to stop: all of them, or the smallest one.

    out[s] = sum_t residual[s, t]^2 / n, where out is (S,). If it is empty, the smallest sum and its candidate are
    returned, (inf, -1) when all sums are above ``bound``. Of equal sums the smaller candidate wins. Once the sums of
    all candidates of a member exceed the best sum so far, the member is given up; this is exact, because sums only
    grow. rows, unless empty, becomes the residuals, one row for each of the TILE places of every member, and no
    member is given up. ``only``: the one member of every unit that is taken, or ALL.

    They are one function because most of what takes time to compile is common to them.
    """
    work = make_work(tables)
    residual, total = aligned_rows(SPAN, TILE), aligned_rows(MEMBERS, TILE)
    able = np.empty(MEMBERS, np.bool_)
    best, winner, per_unit = bound, -1, rows.shape[0] // max(stop - start, 1)
    for unit in range(start, stop):
        n_members = prepare(tables, work, unit)
        low, high = (0, n_members) if only == ALL else (only, min(only + 1, n_members))
        total[:] = 0.0
        able[:] = True
        n_able = high - low
        for begin in range(0, n, SPAN):
            end = min(begin + SPAN, n)
            for member in range(low, high):
                if able[member]:
                    residuals(tables, work, member, begin, end, residual)
                    _add_squares(residual, end - begin, member, total)
                    count = locate(tables, unit, member)[1]
                    if rows.size > 0:
                        place = (unit - start) * per_unit + (member - low) * TILE
                        _keep_rows(residual, begin, end, count, place, rows)
                    elif out.size == 0:
                        able[member] = _can_win(total, member, count, best)
                        n_able -= 0 if able[member] else 1
            if n_able == 0:
                break
        for member in range(low, high):
            first, count = locate(tables, unit, member)
            for i in range(count if able[member] else 0):
                if out.size > 0:
                    out[first + i] = total[member, i] / n
                elif total[member, i] < best or (total[member, i] == best and (winner < 0 or first + i < winner)):
                    best, winner = total[member, i], first + i
    return (best, winner) if winner >= 0 else (np.inf, -1)
