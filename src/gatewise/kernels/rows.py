"""Residuals laid out (candidate, observation): for a few candidates, or block by block for a user's density."""

from collections.abc import Iterator

import numpy as np

from gatewise.kernels.compiled import compiled
from gatewise.kernels.product import ProductTables
from gatewise.kernels.tables import count_rows, count_units
from gatewise.kernels.tile import Floats, Integers, MEMBERS, SPAN, TILE
from gatewise.kernels.units import locate, make_work, prepare, residuals, Tables

LANES = MEMBERS * TILE
BLOCK = 2_000_000  # residuals held at a time


@compiled
def _residual_units(tables: Tables, start: int, stop: int, out: Floats, candidates: Integers) -> None:
    """out[lane] = residuals over time, candidates[lane] = the candidate or -1; lanes of units start to stop.

    out (LANES * (stop - start), n), candidates (LANES * (stop - start),).
    """
    n = out.shape[1]
    work = make_work(tables)
    residual = np.empty((SPAN, TILE))
    candidates[:] = -1
    for unit in range(start, stop):
        for member in range(prepare(tables, work, unit)):
            first, count = locate(tables, unit, member)
            base = (unit - start) * LANES + member * TILE
            for i in range(count):
                candidates[base + i] = first + i
            for begin in range(0, n, SPAN):
                end = min(begin + SPAN, n)
                residuals(tables, work, member, begin, end, residual)
                for i in range(count):
                    for row in range(end - begin):
                        out[base + i, begin + row] = residual[row, i]


def residual_blocks(tables: Tables) -> Iterator[tuple[Integers, Floats]]:
    """Blocks (candidates (B,), residuals (B, n)) that together hold every candidate once."""
    n, n_units = count_rows(tables), count_units(tables)
    step = max(1, BLOCK // (LANES * max(n, 1)))
    for start in range(0, n_units, step):
        stop = min(start + step, n_units)
        candidates, out = _lanes(tables, start, stop)
        kept = candidates >= 0
        yield candidates[kept], out[kept]


def residual_rows(tables: Tables, candidates: Integers) -> Floats:
    """Residuals (B, n) of the given candidates (B,)."""
    rows = np.empty((len(candidates), count_rows(tables)))
    for place, candidate in enumerate(candidates):
        unit, _ = home_of(tables, int(candidate))
        found, out = _lanes(tables, unit, unit + 1)
        rows[place] = out[np.flatnonzero(found == candidate)[0]]
    return rows


def home_of(tables: Tables, candidate: int) -> tuple[int, int]:
    """The unit that holds a candidate, and the member of it."""
    if not isinstance(tables, ProductTables):
        return candidate // TILE, 0
    prefix, point = divmod(candidate, int(tables.shape[0]))
    block, member = divmod(prefix, MEMBERS)
    return block * len(tables.last) + point // TILE, member


def _lanes(tables: Tables, start: int, stop: int) -> tuple[Integers, Floats]:
    candidates = np.empty(LANES * (stop - start), dtype=np.int64)
    out = np.empty((candidates.size, count_rows(tables)))
    _residual_units(tables, start, stop, out, candidates)
    return candidates, out
