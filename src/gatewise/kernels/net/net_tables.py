"""Tables for the kernels, made once from scores or parameters."""

from collections.abc import Callable
from math import prod

import numpy as np

from gatewise.arrays import Floats
from gatewise.kernels.net.explicit import ExplicitTables
from gatewise.kernels.net.factor_scores import extremes, FactorScores, whole_lanes
from gatewise.kernels.net.product_units import ProductTables
from gatewise.kernels.net.units import Tables
from gatewise.kernels.simd.tile import MEMBERS, TILE

WIDEST = 75.0  # beyond exp(WIDEST) the product of eight sums of E, or its inverse, would not be a normal number


def product_tables(
    scores: FactorScores, log_phi: Callable[[Floats], Floats] | None, y: Floats, F: Floats, k: int
) -> ProductTables:
    """Tables of a product net, in the room beside its scores; these are kept when k < M.

    log_phi: log phi(score) - log phi(0), None when phi = exp; y (n,), F (n, M): responses and the experts'
    predictions at the time of each observation; k: active experts.
    """
    n_experts = F.shape[1]
    dense = k == n_experts
    if not dense and scores.room[0] is scores.last:
        raise ValueError("scores must be kept when k < M: Top-K compares them")
    last, prefix = (array if log_phi is None else log_phi(array) for array in scores[:2])
    low, high = extremes(last, prefix)
    # When all experts are active the reference's E = 1 is in every sum, so a small E does no harm.
    wild = (high > WIDEST) if dense else (high > WIDEST) | (low < -WIDEST)
    length = np.array([*scores.sizes[:-1], 1], dtype=np.int64)
    base = F[:, n_experts - 2]
    return ProductTables(
        last=_exp(last, wild, scores.room[0]),
        last_score=np.empty((0, 0, 0)) if dense else scores.last,
        prefix=_exp(prefix, wild, scores.room[1]),
        prefix_score=np.empty((0, 0)) if dense else scores.prefix,
        start=np.cumsum(length) - length,
        length=length,
        gap=whole_lanes((y - base)[None])[0],
        lead=whole_lanes((base[:, None] - np.delete(F, n_experts - 2, axis=1)).T),
        wild=wild.astype(np.int64),
        shape=np.array([scores.sizes[-1], prod(length.tolist()), n_experts, k], dtype=np.int64),
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


def _exp(values: Floats, wild: np.ndarray, out: Floats) -> Floats:
    """exp, except at the observations that are wild: along the second axis, which may be longer."""
    if not wild.any():
        return np.exp(values, out=out)
    tame = np.flatnonzero(~np.pad(wild, (0, values.shape[1] - len(wild))))
    out[:] = values
    out[:, tame] = np.exp(values[:, tame])
    return out
