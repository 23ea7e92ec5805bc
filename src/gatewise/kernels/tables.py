"""Tables for the kernels, made once from scores or parameters; plain NumPy."""

from collections.abc import Sequence
from math import prod

import numpy as np

from gatewise.kernels.explicit import ExplicitTables
from gatewise.kernels.lanes import WIDTH
from gatewise.kernels.product import ProductTables
from gatewise.kernels.tile import aligned, Floats, MEMBERS, TILE
from gatewise.kernels.units import Tables

WIDEST = 75.0  # the product of eight sums of E, and its inverse, stay normal numbers


def product_tables(scores: Sequence[Floats], values: Sequence[Floats], y: Floats, F: Floats, k: int) -> ProductTables:
    """Tables of a product net.

    scores: M-1 arrays (G_m, n); values: log phi(score) - log phi(0) alike (the scores themselves when phi = exp);
    y (n,), F (n, M): responses and the experts' predictions at the time of each observation; k: active experts.
    """
    n, n_experts = F.shape
    dense = k == n_experts
    wild = _wild(values, dense)
    reference = np.zeros((1, n))
    length = np.array([len(v) for v in (*values[:-1], reference)], dtype=np.int64)
    last = F[:, n_experts - 2]
    return ProductTables(
        last=_exp(_tiles(values[-1]), wild),
        last_score=np.empty((0, 0, 0)) if dense else _tiles(scores[-1]),
        prefix=_exp(_stacked([*values[:-1], reference]), wild),
        prefix_score=np.empty((0, 0)) if dense else _stacked([*scores[:-1], reference]),
        start=np.cumsum(length) - length,
        length=length,
        gap=_stacked([(y - last)[None]])[0],
        lead=_stacked([(last[:, None] - np.delete(F, n_experts - 2, axis=1)).T]),
        wild=wild.astype(np.int64),
        shape=np.array([len(values[-1]), prod(length.tolist()), n_experts, k], dtype=np.int64),
    )


def explicit_tables(theta: Floats, features: Floats, y: Floats, F: Floats, k: int) -> ExplicitTables:
    """Tables of a list: theta (S, M-1, p), features (n, p), y (n,), F (n, M), k active experts."""
    theta, features, y, F = (np.ascontiguousarray(a, dtype=np.float64) for a in (theta, features, y, F))
    return ExplicitTables(theta, features, y, F, np.array([F.shape[1], k], dtype=np.int64))


def count_units(tables: Tables) -> int:
    """Number of units."""
    if isinstance(tables, ProductTables):
        return -(-int(tables.shape[1]) // MEMBERS) * len(tables.last)
    return -(-len(tables.theta) // TILE)


def count_candidates(tables: Tables) -> int:
    """S."""
    if isinstance(tables, ProductTables):
        return int(tables.shape[0] * tables.shape[1])
    return len(tables.theta)


def count_rows(tables: Tables) -> int:
    """n."""
    return len(tables.wild) if isinstance(tables, ProductTables) else len(tables.y)


def _wild(values: Sequence[Floats], dense: bool) -> np.ndarray:
    """Observations where some E, or with Top-K also some 1 / E, is beyond exp(WIDEST).

    When all experts are active the reference's E = 1 is in every sum, so a small E does no harm.
    """
    n = values[0].shape[1]
    wild = np.zeros(n, dtype=bool)
    for v in values:
        wild |= v.max(axis=0) > WIDEST
        if not dense:
            wild |= v.min(axis=0) < -WIDEST
    return wild


def _exp(values: Floats, wild: np.ndarray) -> Floats:
    """exp in place, except at the observations that are wild: along the second axis, perhaps fewer than are there."""
    if not wild.any():
        return np.exp(values, out=values)
    tame = np.flatnonzero(~np.pad(wild, (0, values.shape[1] - len(wild))))
    values[:, tame] = np.exp(values[:, tame])
    return values


def _tiles(rows: Floats) -> Floats:
    """(G, n) as (T, n, TILE): the rows of a tile are neighbours; lanes beyond G hold zeros."""
    width, n = rows.shape
    n_tiles = -(-width // TILE)
    tiles = aligned((n_tiles, n, TILE))
    for tile in range(n_tiles):
        part = rows[tile * TILE : (tile + 1) * TILE]
        tiles[tile, :, : len(part)] = part.T
        tiles[tile, :, len(part) :] = 0.0
    return tiles


def _stacked(parts: Sequence[Floats]) -> Floats:
    """Arrays (., n) one below the other, n filled up with zeros to whole lanes."""
    n = parts[0].shape[1]
    out = aligned((sum(map(len, parts)), -(-n // WIDTH) * WIDTH))
    np.concatenate(parts, out=out[:, :n])
    out[:, n:] = 0.0
    return out
