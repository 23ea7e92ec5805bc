"""Mean squared residual of every candidate, and the candidate that minimises it."""

import numpy as np

from gatewise.arrays import Floats
from gatewise.kernels.compiled import compiled, leaf
from gatewise.kernels.net.units import locate, make_work, prepare, residuals, Tables
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


@compiled
def square_units(tables: Tables, n: int, start: int, stop: int, bound: float, out: Floats) -> tuple[float, int]:
    """Sums of squared residuals of the candidates of units start to stop: all of them, or the smallest one.

    out[s] = sum_t residual[s, t]^2 / n, where out is (S,). If it is empty, the smallest sum and its candidate are
    returned, (inf, -1) when all sums are above ``bound``. Of equal sums the smaller candidate wins. Once the sums of
    all candidates of a member exceed the best sum so far, the member is given up; this is exact, because sums only
    grow.
    """
    work = make_work(tables)
    residual, total = aligned_rows(SPAN, TILE), aligned_rows(MEMBERS, TILE)
    able = np.empty(MEMBERS, np.bool_)
    best, winner = bound, -1
    for unit in range(start, stop):
        n_members = prepare(tables, work, unit)
        total[:] = 0.0
        able[:] = True
        n_able = n_members
        for begin in range(0, n, SPAN):
            end = min(begin + SPAN, n)
            for member in range(n_members):
                if able[member]:
                    residuals(tables, work, member, begin, end, residual)
                    _add_squares(residual, end - begin, member, total)
                    if out.size == 0:
                        able[member] = _can_win(total, member, locate(tables, unit, member)[1], best)
                        n_able -= 0 if able[member] else 1
            if n_able == 0:
                break
        for member in range(n_members):
            first, count = locate(tables, unit, member)
            for i in range(count if able[member] else 0):
                if out.size > 0:
                    out[first + i] = total[member, i] / n
                elif total[member, i] < best or (total[member, i] == best and (winner < 0 or first + i < winner)):
                    best, winner = total[member, i], first + i
    return (best, winner) if winner >= 0 else (np.inf, -1)
