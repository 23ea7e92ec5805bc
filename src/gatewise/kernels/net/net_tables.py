"""Makes the tables that the kernels read, from scores or from parameters, and counts what is in them."""

from collections.abc import Callable
from math import prod

import numpy as np

from gatewise.arrays import Floats
from gatewise.kernels.net.explicit import ExplicitTables
from gatewise.kernels.net.factor_scores import extremes, FactorScores, pad_columns
from gatewise.kernels.net.product_units import ProductTables
from gatewise.kernels.net.units import Tables
from gatewise.kernels.simd.tile import MEMBERS, TILE

LARGEST_LOG = 75.0  # with E above exp(75) or below exp(-75) a product of eight sums of E could leave the normal range


def product_tables(
    scores: FactorScores, log_phi: Callable[[Floats], Floats] | None, y: Floats, F: Floats, k: int
) -> ProductTables:
    """Tables of a product net, written into ``scores.last_out`` and ``scores.prefix_out``.

    log_phi: the function score -> log phi(score) - log phi(0), None when phi = exp; y (n,), F (n, M): responses and
    the experts' predictions at the time of each observation; k: the number of active experts. When k < M the tables
    hold the scores too, so these must have been kept.
    """
    n_experts = F.shape[1]
    dense = k == n_experts
    if not dense and scores.last_out is scores.last:
        raise ValueError("scores must be kept when k < M: Top-K compares them")
    last, prefix = (array if log_phi is None else log_phi(array) for array in (scores.last, scores.prefix))
    low, high = extremes(last, prefix)
    # When all experts are active, the reference's E = 1 is a term of every sum, so a small E does no harm.
    in_logs = (high > LARGEST_LOG) if dense else (high > LARGEST_LOG) | (low < -LARGEST_LOG)
    length = np.array([*scores.sizes[:-1], 1], dtype=np.int64)
    base = F[:, n_experts - 2]
    return ProductTables(
        last=_exp_outside_logs(last, in_logs, scores.last_out),
        last_score=np.empty((0, 0, 0)) if dense else scores.last,
        prefix=_exp_outside_logs(prefix, in_logs, scores.prefix_out),
        prefix_score=np.empty((0, 0)) if dense else scores.prefix,
        start=np.cumsum(length) - length,
        length=length,
        last_miss=pad_columns((y - base)[None])[0],
        lead=pad_columns((base[:, None] - np.delete(F, n_experts - 2, axis=1)).T),
        in_logs=in_logs.astype(np.int64),
        last_size=scores.sizes[-1],
        n_prefixes=prod(length.tolist()),
        n_experts=n_experts,
        n_active=k,
    )


def explicit_tables(theta: Floats, features: Floats, y: Floats, F: Floats, k: int) -> ExplicitTables:
    """Tables of a list of candidates: theta (S, M-1, p), features (n, p), y (n,), F (n, M), k active experts."""
    theta, features, y, F = (np.ascontiguousarray(a, dtype=np.float64) for a in (theta, features, y, F))
    return ExplicitTables(theta, features, y, F, n_experts=F.shape[1], n_active=k)


def count_units(tables: Tables) -> int:
    """The number of units into which the candidates are divided (see `units`)."""
    if isinstance(tables, ProductTables):
        return -(-tables.n_prefixes // MEMBERS) * len(tables.last)
    return -(-len(tables.theta) // TILE)


def count_candidates(tables: Tables) -> int:
    """S, the number of candidates."""
    if isinstance(tables, ProductTables):
        return tables.last_size * tables.n_prefixes
    return len(tables.theta)


def count_rows(tables: Tables) -> int:
    """n, the number of observations."""
    return len(tables.in_logs) if isinstance(tables, ProductTables) else len(tables.y)


def _exp_outside_logs(values: Floats, in_logs: np.ndarray, out: Floats) -> Floats:
    """exp(values) at the observations where in_logs (n,) is False, the values themselves at the others.

    Observations are the second axis of ``values``, which may be longer than n; of columns beyond n exp is taken.
    """
    if not in_logs.any():
        return np.exp(values, out=out)
    plain = np.flatnonzero(~np.pad(in_logs, (0, values.shape[1] - len(in_logs))))
    out[:] = values
    out[:, plain] = np.exp(values[:, plain])
    return out
