"""Residuals as rows over the observations: of a few candidates, or of all, block by block.

The sweeps have no need of them. They serve noise densities of the user's own, which are no compiled functions.
"""

import math
from collections.abc import Iterator

import numpy as np

from gatewise.arrays import Floats, Integers
from gatewise.kernels.net.mean_square import square_units
from gatewise.kernels.net.net_tables import count_candidates, count_rows, count_units
from gatewise.kernels.net.product_units import ProductTables
from gatewise.kernels.net.units import ALL, Tables
from gatewise.kernels.simd.tile import MEMBERS, TILE

BLOCK = 2_000_000  # residuals held at a time


def residual_blocks(tables: Tables) -> Iterator[tuple[Integers, Floats]]:
    """Yields (candidates (B,), residuals (B, n)); every candidate is in one of these blocks."""
    n, n_units, places = count_rows(tables), count_units(tables), TILE * _per_unit(tables)
    step = max(1, BLOCK // (places * max(n, 1)))
    for start in range(0, n_units, step):
        candidates = _candidates(tables, np.arange(start, min(start + step, n_units)))
        out, kept = _residuals(tables, start, candidates.size, ALL), candidates >= 0
        yield candidates[kept], out[kept.ravel()]


def residual_rows(tables: Tables, candidates: Integers) -> Floats:
    """Residuals (B, n) of the given candidates (B,)."""
    rows = np.empty((len(candidates), count_rows(tables)))
    for place, candidate in enumerate(candidates):
        unit, member = home_of(tables, int(candidate))
        here = _candidates(tables, np.array([unit]))[0, member]
        rows[place] = _residuals(tables, unit, TILE, member)[np.flatnonzero(here == candidate)[0]]
    return rows


def home_of(tables: Tables, candidate: int) -> tuple[int, int]:
    """The unit and the member that hold a candidate."""
    if not isinstance(tables, ProductTables):
        return candidate // TILE, 0
    prefix, point = divmod(candidate, tables.last_size)
    block, member = divmod(prefix, MEMBERS)
    return block * len(tables.last) + point // TILE, member


def _candidates(tables: Tables, units: Integers) -> Integers:
    """The candidates at the places of units (U,), (U, members, TILE), and -1 where there is none; see `home_of`."""
    member, place = np.arange(_per_unit(tables))[:, None], np.arange(TILE)
    if not isinstance(tables, ProductTables):
        candidate = units[:, None, None] * TILE + member + place
        return np.where(candidate < count_candidates(tables), candidate, -1)
    block, tile = np.divmod(units[:, None, None], len(tables.last))
    prefix, point = block * MEMBERS + member, tile * TILE + place
    there = (prefix < tables.n_prefixes) & (point < tables.last_size)
    return np.where(there, prefix * tables.last_size + point, -1)


def _per_unit(tables: Tables) -> int:
    """The largest number of members of a unit."""
    return MEMBERS if isinstance(tables, ProductTables) else 1


def _residuals(tables: Tables, start: int, n_places: int, member: int) -> Floats:
    """Residuals (n_places, n) at the places of the units from ``start`` on, of one member or of ALL."""
    n, per_unit = count_rows(tables), _per_unit(tables) if member == ALL else 1
    out = np.empty((n_places, n))
    square_units(tables, n, start, start + n_places // (per_unit * TILE), math.inf, np.empty(0), member, out)
    return out
