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
    rows = np.empty(n_places, np.int64)
    prefix_rows(tables.start, tables.length, prefix, rows)
    k = tables.shape[3]
    if k > n_places:
        _fill_dense(tables.prefix, tables.lead, rows, inner, work.mass, work.pull)
    else:
        _fill_top(tables, work, rows, k, inner)
    for t in range(tables.wild.size):
        if tables.wild[t] != 0:
            _fill_wild(tables, work, rows, k, t, inner)


@compiled
def _fill_top(tables: "ProductTables", work: "ProductWork", rows: Integers, k: int, inner: int) -> None:
    """The sums over the best k - 1 and the best k places, all observations together.

    Rank by rank the next place of every observation is found and its E is added to the sums: after k - 1 ranks they
    are what the last factor's expert joins if it is active, after one more the whole without it.
    """
    values, scores, lead, gap = tables.prefix, tables.prefix_score, tables.lead, tables.gap
    mass, pull, bar, rest = work.mass, work.pull, work.bar, work.rest
    n = gap.size
    last, place = np.full(n, np.inf), np.full(n, -1.0)
    best, found, value, drawn = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    for t in range(n):
        mass[inner, t] = 0.0
        pull[inner, t] = 0.0
    for rank in range(k):
        _next_place(scores, rows, last, place, best, found)
        _take_place(values, lead, rows, found, value, drawn)
        if rank < k - 1:
            for t in range(n):
                mass[inner, t] += value[t]
                pull[inner, t] += value[t] * drawn[t]
        last, best = best, last
        place, found = found, place
    for t in range(n):
        rest[inner, t] = gap[t] + (pull[inner, t] + value[t] * drawn[t]) / (mass[inner, t] + value[t])
        bar[inner, t] = BELOW_ZERO if place[t] == rows.size - 1 else last[t]


@compiled_leaf
def _next_place(scores: Floats, rows: Integers, last: Floats, place: Floats, best: Floats, found: Floats) -> None:
    """(best, found): score and place of the expert that comes after (last, place): smaller score or larger index."""
    n = last.size
    for t in range(n):
        best[t] = -np.inf
        found[t] = -1.0
    for m in range(rows.size):
        row, label = rows[m], float(m)
        for t in range(n):
            s = scores[row, t]
            s = s if (s < last[t]) | ((s == last[t]) & (label > place[t])) else -np.inf
            best[t] = s if s > best[t] else best[t]
    for m in range(rows.size - 1, -1, -1):  # of equal scores the smallest index is found last
        row, label = rows[m], float(m)
        for t in range(n):
            s = scores[row, t]
            hit = (s == best[t]) & ((s < last[t]) | (label > place[t]))
            found[t] = label if hit else found[t]


@compiled_leaf
def _take_place(values: Floats, lead: Floats, rows: Integers, found: Floats, value: Floats, drawn: Floats) -> None:
    """value and drawn: E and F_last - F_m of the place found at every observation."""
    n = found.size
    for m in range(rows.size):
        row, label = rows[m], float(m)
        for t in range(n):
            value[t] = values[row, t] if found[t] == label else value[t]
        for t in range(n):
            drawn[t] = lead[m, t] if found[t] == label else drawn[t]


@compiled
def _fill_wild(tables: "ProductTables", work: "ProductWork", rows: Integers, k: int, t: int, inner: int) -> None:
    """One observation whose tables hold logarithms."""
    values, wild, lead = tables.prefix, tables.wild, tables.lead
    active = np.arange(rows.size)
    if k <= rows.size:
        work.bar[inner, t] = best_of(tables.prefix_score, rows, k, t, active)
        top = peak_of(values, wild, rows, active, k, t)
        whole, drawn = sums_of(values, wild, lead, rows, active, k, t, top)
        work.rest[inner, t] = tables.gap[t] + drawn / whole
    top = peak_of(values, wild, rows, active, k - 1, t)
    work.peak[inner, t] = top
    work.mass[inner, t], work.pull[inner, t] = sums_of(values, wild, lead, rows, active, k - 1, t, top)


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
