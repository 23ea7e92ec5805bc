"""Sums over the experts of a prefix: one of each factor but the last, and the reference.

Written once per (prefix, observation) and met by every point of the last factor. The experts of a prefix have places
0 to M-2, the reference last. A table of values holds E, or log E where an observation is wild.
"""

import math
from typing import TYPE_CHECKING

import numpy as np

from gatewise.arrays import Floats, Integers
from gatewise.kernels.compiled import compiled_leaf
from gatewise.kernels.simd.lanes import choose, fill, larger, load, smaller, store, WIDTH
from gatewise.kernels.simd.tile import load_strip, store_strip, STRIP, Strip

if TYPE_CHECKING:
    from gatewise.kernels.net.product_units import ProductTables, ProductWork

Place = Strip  # eight observations of one place: score, E, E (F_last - F_m), and 1 for the reference
BELOW_ZERO = -5e-324  # a score of zero, the reference's, exceeds it; no negative one does


@compiled_leaf
def prefix_rows(start: Integers, length: Integers, prefix: int, rows: Integers) -> None:
    """rows[m] = row of the stacked factors that a prefix, by its number, takes from factor m; the reference is last.

    start, length, rows (M-1,): the reference counts as a factor of length 1.
    """
    for m in range(length.size - 1, -1, -1):
        rows[m] = start[m] + prefix % length[m]
        prefix //= length[m]


@compiled_leaf
def fill_prefix(tables: "ProductTables", work: "ProductWork", prefix: int, inner: int) -> None:
    """mass, pull, bar, rest and peak of one prefix at every observation."""
    k, rows = tables.shape[3], work.rows
    prefix_rows(tables.start, tables.length, prefix, rows)
    if k > rows.size:
        _fill_dense(tables.prefix, tables.lead, rows, inner, work.mass, work.pull)
    else:
        _fill_top(tables, work, rows, k, inner)
    for t in range(tables.wild.size):
        if tables.wild[t] != 0:
            _fill_wild(tables, work, rows, k, t, inner)


@compiled_leaf
def _fill_top(tables: "ProductTables", work: "ProductWork", rows: Integers, k: int, inner: int) -> None:
    """Sums over the best k - 1 places, which the last factor's expert joins if it is active, and over the best k."""
    width = tables.prefix.shape[1]
    for t in range(0, width, WIDTH):
        mass, pull = fill(0.0), fill(0.0)
        if k > 2:
            _rank_places(tables, rows, k, t, work.best)
            for rank in range(k - 1):
                place = load_strip(work.best, rank * STRIP)
                mass, pull = mass + place[1], pull + place[2]
            last = load_strip(work.best, (k - 1) * STRIP)
        else:
            last, second = _best_two(tables, rows, t)
            if k == 2:
                mass, pull, last = last[1], last[2], second
        at = inner * width + t
        store(work.mass, at, mass)
        store(work.pull, at, pull)
        store(work.bar, at, choose(last[3], 0.5, fill(BELOW_ZERO), last[0]))
        store(work.rest, at, load(tables.gap, t) + (pull + last[2]) / (mass + last[1]))


@compiled_leaf
def _place(tables: "ProductTables", rows: Integers, m: int, t: int) -> Place:
    width = tables.prefix.shape[1]
    at = rows[m] * width + t
    value = load(tables.prefix, at)
    pull = value * load(tables.lead, m * width + t)
    return load(tables.prefix_score, at), value, pull, fill(1.0 if m == rows.size - 1 else 0.0)


@compiled_leaf
def _insert(held: Place, new: Place) -> tuple[Place, Place]:
    """What stays in a rank, held where its score is larger, else new, and what goes on to the next rank."""
    stays = (
        larger(new[0], held[0]),
        choose(held[0], new[0], held[1], new[1]),
        choose(held[0], new[0], held[2], new[2]),
        choose(held[0], new[0], held[3], new[3]),
    )
    goes = (
        smaller(new[0], held[0]),
        choose(held[0], new[0], new[1], held[1]),
        choose(held[0], new[0], new[2], held[2]),
        choose(held[0], new[0], new[3], held[3]),
    )
    return stays, goes


@compiled_leaf
def _best_two(tables: "ProductTables", rows: Integers, t: int) -> tuple[Place, Place]:
    """The best two places of eight observations from t on, by larger score, then smaller index.

    From the last place to the first: an equal one of smaller index comes later and goes before.
    """
    nobody = fill(-np.inf), fill(0.0), fill(0.0), fill(0.0)
    first, second = nobody, nobody
    for m in range(rows.size - 1, -1, -1):
        first, new = _insert(first, _place(tables, rows, m, t))
        second, new = _insert(second, new)
    return first, second


@compiled_leaf
def _rank_places(tables: "ProductTables", rows: Integers, k: int, t: int, best: Floats) -> None:
    """The best k places in the same way, into best (k or more, STRIP)."""
    for rank in range(k):
        store_strip(best, rank * STRIP, (fill(-np.inf), fill(0.0), fill(0.0), fill(0.0)))
    for m in range(rows.size - 1, -1, -1):
        new = _place(tables, rows, m, t)
        for rank in range(k):
            stays, new = _insert(load_strip(best, rank * STRIP), new)
            store_strip(best, rank * STRIP, stays)


@compiled_leaf
def _fill_wild(tables: "ProductTables", work: "ProductWork", rows: Integers, k: int, t: int, inner: int) -> None:
    """One observation whose tables hold logarithms."""
    values, wild, lead, active = tables.prefix, tables.wild, tables.lead, work.active
    for m in range(rows.size):
        active[m] = m
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
