"""Sums over the experts of a prefix: all factors but the last, and the reference.

Written once per (prefix, observation) and met by every point of the last factor, so it may branch and need not be
vectorised, except where all experts are active. A table of values holds E, or log E where an observation is wild; the
reference, with score 0, has E = 1.
"""

import math
from typing import TYPE_CHECKING

import numpy as np

from gatewise.kernels.compiled import compiled, compiled_leaf
from gatewise.kernels.tile import Floats, Integers

if TYPE_CHECKING:
    from gatewise.kernels.product import ProductTables, ProductWork

PREFIXES = 8


@compiled_leaf
def prefix_rows(start: Integers, length: Integers, prefix: int, rows: Integers) -> None:
    """rows[m] = row of the stacked factors that prefix number `prefix` takes from factor m."""
    for m in range(length.size - 1, -1, -1):
        rows[m] = start[m] + prefix % length[m]
        prefix //= length[m]


@compiled
def fill_prefix(tables: "ProductTables", work: "ProductWork", prefix: int, inner: int) -> None:
    """mass, pull, bar, rest and peak of one prefix at every observation."""
    rows = np.empty(tables.length.size, np.int64)
    prefix_rows(tables.start, tables.length, prefix, rows)
    n_experts, k = tables.shape[2], tables.shape[3]
    active = np.empty(n_experts, np.int64)
    values, scores, lead, wild = tables.prefix, tables.prefix_score, tables.lead, tables.wild
    mass, pull, peak, bar, rest = work.mass, work.pull, work.peak, work.bar, work.rest
    if k == n_experts:
        _fill_dense(values, lead, rows, inner, mass, pull)
    for t in range(wild.size):
        if k < n_experts:
            bar[inner, t] = best_of(scores, rows, k, t, active)
            top = peak_of(values, wild, rows, active, k, t)
            whole, drawn = sums_of(values, wild, lead, rows, active, k, t, top)
            rest[inner, t] = tables.gap[t] + drawn / whole
        if k < n_experts or wild[t] != 0:
            kept = k - 1 if k < n_experts else all_of(rows, active)
            top = peak_of(values, wild, rows, active, kept, t)
            peak[inner, t] = top
            mass[inner, t], pull[inner, t] = sums_of(values, wild, lead, rows, active, kept, t, top)


@compiled_leaf
def _fill_dense(values: Floats, lead: Floats, rows: Integers, inner: int, mass: Floats, pull: Floats) -> None:
    n_experts, n = lead.shape
    for t in range(n):
        mass[inner, t] = 1.0
        pull[inner, t] = lead[n_experts - 1, t]
    for m in range(rows.size):
        row = rows[m]
        for t in range(n):
            mass[inner, t] += values[row, t]
            pull[inner, t] += values[row, t] * lead[m, t]


@compiled_leaf
def all_of(rows: Integers, active: Integers) -> int:
    """active = every expert but the last factor's, and how many they are."""
    for m in range(rows.size):
        active[m] = m
    active[rows.size] = rows.size + 1
    return rows.size + 1


@compiled_leaf
def best_of(scores: Floats, rows: Integers, k: int, t: int, active: Integers) -> float:
    """active[:k] = the k experts of largest score at observation t, without the last factor's; the bar for that one.

    Larger score first, then smaller index: a scan from the first expert on keeps the earlier of two equal scores. The
    last factor's expert is active when its score exceeds the k-th of the others, or equals it and the k-th is the
    reference, the only expert of larger index: then the bar is the next number below.
    """
    last, last_index = np.inf, -1
    for rank in range(k):
        best, index = -np.inf, -1
        for m in range(rows.size):
            score = scores[rows[m], t]
            if (score < last or (score == last and m > last_index)) and (index < 0 or score > best):
                best, index = score, m
        reference = rows.size + 1
        if (0.0 < last or (last == 0.0 and reference > last_index)) and (index < 0 or best < 0.0):
            best, index = 0.0, reference
        active[rank] = index
        last, last_index = best, index
    return math.nextafter(last, -np.inf) if last_index > rows.size else last


@compiled_leaf
def peak_of(values: Floats, wild: Integers, rows: Integers, active: Integers, k: int, t: int) -> float:
    """Largest log E among active[:k] where wild; 0 elsewhere."""
    if wild[t] == 0:
        return 0.0
    peak = -np.inf
    for rank in range(k):
        m = active[rank]
        peak = max(peak, values[rows[m], t] if m < rows.size else 0.0)
    return peak


@compiled_leaf
def weight_of(values: Floats, wild: Integers, rows: Integers, m: int, t: int, peak: float) -> float:
    """E of expert m; divided by exp(peak) where wild."""
    if wild[t] == 0:
        return values[rows[m], t] if m < rows.size else 1.0
    return math.exp((values[rows[m], t] if m < rows.size else 0.0) - peak)


@compiled_leaf
def sums_of(
    values: Floats, wild: Integers, lead: Floats, rows: Integers, active: Integers, k: int, t: int, peak: float
) -> tuple[float, float]:
    """Sums of E_m and E_m (F_last - F_m) over active[:k]."""
    mass, pull = 0.0, 0.0
    for rank in range(k):
        m = active[rank]
        weight = weight_of(values, wild, rows, m, t, peak)
        mass += weight
        pull += weight * lead[m, t]
    return mass, pull
