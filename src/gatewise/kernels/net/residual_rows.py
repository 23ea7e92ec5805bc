"""Residuals as rows over the observations: of a few candidates, or of all, block by block.

The sweeps have no need of them. They serve noise densities of the user's own, which are no compiled functions.
"""

from collections.abc import Iterator

import numpy as np

from gatewise.arrays import Floats, Integers
from gatewise.kernels.compiled import compiled
from gatewise.kernels.net.net_tables import count_rows, count_units
from gatewise.kernels.net.product_units import ProductTables
from gatewise.kernels.net.units import locate, make_work, prepare, residuals, Tables
from gatewise.kernels.simd.tile import MEMBERS, SPAN, TILE

BLOCK = 2_000_000  # residuals held at a time


@compiled
def _residual_members(
    tables: Tables, start: int, stop: int, per_unit: int, out: Floats, candidates: Integers
) -> None:
    """Residuals of the candidates of members start to stop, one row for each of the TILE places of a member.

    Members are numbered through all units, ``per_unit`` in each. candidates (TILE * (stop - start),): the candidate
    at each place, or -1 if there is none; out (TILE * (stop - start), n): its residuals.
    """
    n = out.shape[1]
    work = make_work(tables)
    residual = np.empty((SPAN, TILE))
    candidates[:] = -1
    for number in range(start, stop):
        unit, member = number // per_unit, number % per_unit
        if member < prepare(tables, work, unit):
            first, count = locate(tables, unit, member)
            base = (number - start) * TILE
            for i in range(count):
                candidates[base + i] = first + i
            for begin in range(0, n, SPAN):
                end = min(begin + SPAN, n)
                residuals(tables, work, member, begin, end, residual)
                for i in range(count):
                    for row in range(end - begin):
                        out[base + i, begin + row] = residual[row, i]


def residual_blocks(tables: Tables) -> Iterator[tuple[Integers, Floats]]:
    """Yields (candidates (B,), residuals (B, n)); every candidate is in one of these blocks."""
    n, n_members = count_rows(tables), count_units(tables) * _per_unit(tables)
    step = max(1, BLOCK // (TILE * max(n, 1)))
    for start in range(0, n_members, step):
        candidates, out = _places(tables, start, min(start + step, n_members))
        kept = candidates >= 0
        yield candidates[kept], out[kept]


def residual_rows(tables: Tables, candidates: Integers) -> Floats:
    """Residuals (B, n) of the given candidates (B,)."""
    rows = np.empty((len(candidates), count_rows(tables)))
    for place, candidate in enumerate(candidates):
        unit, member = home_of(tables, int(candidate))
        number = unit * _per_unit(tables) + member
        found, out = _places(tables, number, number + 1)
        rows[place] = out[np.flatnonzero(found == candidate)[0]]
    return rows


def home_of(tables: Tables, candidate: int) -> tuple[int, int]:
    """The unit and the member that hold a candidate."""
    if not isinstance(tables, ProductTables):
        return candidate // TILE, 0
    prefix, point = divmod(candidate, tables.last_size)
    block, member = divmod(prefix, MEMBERS)
    return block * len(tables.last) + point // TILE, member


def _per_unit(tables: Tables) -> int:
    """The largest number of members of a unit."""
    return MEMBERS if isinstance(tables, ProductTables) else 1


def _places(tables: Tables, start: int, stop: int) -> tuple[Integers, Floats]:
    """Candidates and residuals of the places of members start to stop, see `_residual_members`."""
    candidates = np.empty(TILE * (stop - start), dtype=np.int64)
    out = np.empty((candidates.size, count_rows(tables)))
    _residual_members(tables, start, stop, _per_unit(tables), out, candidates)
    return candidates, out
