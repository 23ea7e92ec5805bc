"""Sums over the experts of a prefix: one of each factor but the last, and the reference.

Written once per (prefix, observation) and met by every point of the last factor, so it may branch and need not be
vectorised, except where all experts are active. The experts of a prefix have places 0 to M-2, the reference last. A
table of values holds E, or log E where an observation is wild.
"""

import math
from typing import TYPE_CHECKING

import numpy as np

from gatewise.kernels.compiled import compiled, compiled_leaf
from gatewise.kernels.tile import Floats, Integers

if TYPE_CHECKING:
    from gatewise.kernels.product import ProductTables, ProductWork

PREFIXES = 8
BELOW_ZERO = -5e-324  # a score of zero, the reference's, exceeds it; no negative one does


@compiled_leaf
def prefix_rows(start: Integers, length: Integers, prefix: int, rows: Integers) -> None:
    """rows[m] = row of the stacked factors that a prefix, by its number, takes from factor m; the reference is last.

    start, length, rows (M-1,): the reference counts as a factor of length 1.
    """
    for m in range(length.size - 1, -1, -1):
        rows[m] = start[m] + prefix % length[m]
        prefix //= length[m]


@compiled
def fill_prefix(tables: "ProductTables", work: "ProductWork", prefix: int, inner: int) -> None:
    """mass, pull, bar, rest and peak of one prefix at every observation."""
    n_places = tables.length.size
    rows, active = np.empty(n_places, np.int64), np.arange(n_places)
    prefix_rows(tables.start, tables.length, prefix, rows)
    k = tables.shape[3]
    values, scores, lead, wild = tables.prefix, tables.prefix_score, tables.lead, tables.wild
    mass, pull, peak, bar, rest = work.mass, work.pull, work.peak, work.bar, work.rest
    if k > n_places:
        _fill_dense(values, lead, rows, inner, mass, pull)
    for t in range(wild.size):
        if k <= n_places:
            bar[inner, t] = best_of(scores, rows, k, t, active)
            top = peak_of(values, wild, rows, active, k, t)
            whole, drawn = sums_of(values, wild, lead, rows, active, k, t, top)
            rest[inner, t] = tables.gap[t] + drawn / whole
        if k <= n_places or wild[t] != 0:
            top = peak_of(values, wild, rows, active, k - 1, t)
            peak[inner, t] = top
            mass[inner, t], pull[inner, t] = sums_of(values, wild, lead, rows, active, k - 1, t, top)


@compiled_leaf
def _fill_dense(values: Floats, lead: Floats, rows: Integers, inner: int, mass: Floats, pull: Floats) -> None:
    n = lead.shape[1]
    for t in range(n):
        mass[inner, t] = 0.0
        pull[inner, t] = 0.0
    for m in range(rows.size):
        row = rows[m]
        for t in range(n):
            mass[inner, t] += values[row, t]
            pull[inner, t] += values[row, t] * lead[m, t]


@compiled_leaf
def best_of(scores: Floats, rows: Integers, k: int, t: int, active: Integers) -> float:
    """active[:k] = the k places of largest score at observation t; what the last factor's score must exceed.

    Larger score first, then smaller index. The last factor's expert is active when its score exceeds the k-th of
    these, or equals it and the k-th is the reference, the only expert of larger index: then the bar is just below
    the reference's score. Selections and no branches: which expert is best cannot be foretold.
    """
    last, last_place = np.inf, -1
    for rank in range(k):
        best, place = -np.inf, -1
        for m in range(rows.size):
            score = scores[rows[m], t]
            after = (score < last) | ((score == last) & (m > last_place))
            take = after & ((score > best) | (place < 0))
            best = score if take else best
            place = m if take else place
        active[rank] = place
        last, last_place = best, place
    return BELOW_ZERO if last_place == rows.size - 1 else last


@compiled_leaf
def peak_of(values: Floats, wild: Integers, rows: Integers, active: Integers, k: int, t: int) -> float:
    """Largest log E among active[:k] where wild; 0 elsewhere."""
    if wild[t] == 0:
        return 0.0
    peak = -np.inf
    for rank in range(k):
        peak = max(peak, values[rows[active[rank]], t])
    return peak


@compiled_leaf
def weight_of(values: Floats, wild: Integers, row: int, t: int, peak: float) -> float:
    """E in a row of the table; divided by exp(peak) where wild."""
    value: float = values[row, t]
    return value if wild[t] == 0 else math.exp(value - peak)


@compiled_leaf
def sums_of(
    values: Floats, wild: Integers, lead: Floats, rows: Integers, active: Integers, k: int, t: int, peak: float
) -> tuple[float, float]:
    """Sums of E_m and E_m (F_last - F_m) over active[:k]."""
    mass, pull = 0.0, 0.0
    for rank in range(k):
        weight = weight_of(values, wild, rows[active[rank]], t, peak)
        mass += weight
        pull += weight * lead[active[rank], t]
    return mass, pull
