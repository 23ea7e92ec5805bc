"""Tables for the kernels, made once from scores or parameters; plain NumPy."""

from collections.abc import Sequence
from math import prod

import numpy as np

from gatewise.kernels.explicit import ExplicitTables
from gatewise.kernels.prefix import PREFIXES
from gatewise.kernels.product import ProductTables
from gatewise.kernels.tile import Floats, TILE
from gatewise.kernels.units import Tables

WIDEST = 150.0  # the product of four sums of E, and its inverse, stay normal numbers


def product_tables(scores: Sequence[Floats], values: Sequence[Floats], y: Floats, F: Floats, k: int) -> ProductTables:
    """Tables of a product net.

    scores: M-1 arrays (G_m, n); values: log phi(score) - log phi(0) alike (the scores themselves when phi = exp);
    y (n,), F (n, M): responses and the experts' predictions at the time of each observation; k: active experts.
    """
    n, n_experts = F.shape
    wild = _wild(values, k == n_experts)
    reference = np.zeros((1, n))
    length = np.array([len(v) for v in (*values[:-1], reference)], dtype=np.int64)
    others = np.delete(F, n_experts - 2, axis=1)
    return ProductTables(
        last=_tiles(_in_range(values[-1], wild), 1.0),
        last_score=_tiles(scores[-1], 0.0) if k < n_experts else np.empty((0, 0, 0)),
        prefix=_in_range(np.concatenate([*values[:-1], reference]), wild),
        prefix_score=np.concatenate([*scores[:-1], reference]) if k < n_experts else np.empty((0, 0)),
        start=np.cumsum(length) - length,
        length=length,
        gap=y - F[:, n_experts - 2],
        lead=np.ascontiguousarray((F[:, n_experts - 2, None] - others).T),
        wild=wild.astype(np.int64),
        shape=np.array([len(values[-1]), prod(length.tolist()), n_experts, k], dtype=np.int64),
    )


def explicit_tables(theta: Floats, features: Floats, y: Floats, F: Floats, k: int) -> ExplicitTables:
    """Tables of a list: theta (S, M-1, p), features (n, p), y (n,), F (n, M), k active experts."""
    theta, features, y, F = (np.ascontiguousarray(a, dtype=np.float64) for a in (theta, features, y, F))
    return ExplicitTables(theta, features, y, F, np.array([F.shape[1], k], dtype=np.int64))


def count_units(tables: Tables) -> int:
    """Number of units; some of a product's last block may be empty."""
    if isinstance(tables, ProductTables):
        return -(-int(tables.shape[1]) // PREFIXES) * PREFIXES * len(tables.last)
    return -(-len(tables.theta) // TILE)


def count_candidates(tables: Tables) -> int:
    """S."""
    if isinstance(tables, ProductTables):
        return int(tables.shape[0] * tables.shape[1])
    return len(tables.theta)


def count_rows(tables: Tables) -> int:
    """n."""
    return len(tables.gap) if isinstance(tables, ProductTables) else len(tables.y)


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


def _in_range(values: Floats, wild: np.ndarray) -> Floats:
    """exp(values), and the values themselves in the columns that are wild; (G, n)."""
    if not wild.any():
        return np.exp(values)
    return np.where(wild, values, np.exp(np.where(wild, 0.0, values)))


def _tiles(rows: Floats, padding: float) -> Floats:
    """(G, n) as (T, n, TILE): the rows of a tile are neighbours; lanes beyond G hold the padding."""
    width, n = rows.shape
    n_tiles = -(-width // TILE)
    tiles = np.full((n_tiles, n, TILE), padding)
    for tile in range(n_tiles):
        part = rows[tile * TILE : (tile + 1) * TILE]
        tiles[tile, :, : len(part)] = part.T
    return tiles
