"""Sums over the experts of a prefix: all factors but the last, and the reference.

Written once per (prefix, observation) and met by every point of the last factor, so it may branch and need not be
vectorised, except where all experts are active.
"""

from typing import TYPE_CHECKING

import numpy as np

from gatewise.kernels.compiled import compiled, compiled_leaf
from gatewise.kernels.tile import Integers

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
    if k == n_experts:
        _fill_dense(tables, work, rows, inner)
    active = np.empty(n_experts, np.int64)
    for t in range(tables.gap.size):
        if k < n_experts:
            _fill_top(tables, work, rows, inner, t, active)
        elif tables.wild[t] != 0:
            for m in range(rows.size):
                active[m] = m
            active[rows.size] = n_experts - 1
            peak = peak_of(tables, rows, active, n_experts - 1, t)
            mass, pull = sums_of(tables, rows, active, n_experts - 1, t, peak)
            work.mass[inner, t], work.pull[inner, t], work.peak[inner, t] = mass, pull, peak


@compiled_leaf
def _fill_dense(tables: "ProductTables", work: "ProductWork", rows: Integers, inner: int) -> None:
    n_experts = tables.shape[2]
    for t in range(tables.gap.size):
        work.mass[inner, t] = 1.0
        work.pull[inner, t] = tables.lead[n_experts - 1, t]
    for m in range(rows.size):
        row = rows[m]
        for t in range(tables.gap.size):
            work.mass[inner, t] += tables.prefix[row, t]
            work.pull[inner, t] += tables.prefix[row, t] * tables.lead[m, t]


@compiled_leaf
def best_of(tables: "ProductTables", rows: Integers, k: int, t: int, active: Integers) -> float:
    """active[:k] = the k experts of largest score at observation t, without the last factor's; the k-th score.

    Larger score first, then smaller index: a scan from the first expert on keeps the earlier of two equal scores.
    """
    n_experts = tables.shape[2]
    last, last_index = np.inf, -1
    for rank in range(k):
        best, index = -np.inf, -1
        for place in range(rows.size + 1):
            m = place if place < rows.size else n_experts - 1
            score = tables.prefix_score[rows[place], t] if place < rows.size else 0.0
            after = score < last or (score == last and m > last_index)
            if after and (index < 0 or score > best):
                best, index = score, m
        active[rank] = index
        last, last_index = best, index
    return last


@compiled_leaf
def value_of(tables: "ProductTables", rows: Integers, m: int, t: int) -> float:
    """E of expert m at observation t, or log E where wild."""
    if m < rows.size:
        return tables.prefix[rows[m], t]
    return 0.0 if tables.wild[t] != 0 else 1.0


@compiled_leaf
def peak_of(tables: "ProductTables", rows: Integers, active: Integers, k: int, t: int) -> float:
    """Largest log E among active[:k] where wild; 0 elsewhere."""
    if tables.wild[t] == 0:
        return 0.0
    peak = -np.inf
    for rank in range(k):
        peak = max(peak, value_of(tables, rows, active[rank], t))
    return peak


@compiled_leaf
def weight_of(tables: "ProductTables", rows: Integers, m: int, t: int, peak: float) -> float:
    """E of expert m, where wild divided by exp(peak)."""
    value = value_of(tables, rows, m, t)
    return np.exp(value - peak) if tables.wild[t] != 0 else value


@compiled_leaf
def sums_of(
    tables: "ProductTables", rows: Integers, active: Integers, k: int, t: int, peak: float
) -> tuple[float, float]:
    """Sums of E_m and E_m (F_last - F_m) over active[:k]."""
    mass, pull = 0.0, 0.0
    for rank in range(k):
        weight = weight_of(tables, rows, active[rank], t, peak)
        mass += weight
        pull += weight * tables.lead[active[rank], t]
    return mass, pull


@compiled_leaf
def _fill_top(
    tables: "ProductTables", work: "ProductWork", rows: Integers, inner: int, t: int, active: Integers
) -> None:
    """Keep the k-th score of the others, and their sums over the best k - 1 and the best k.

    The last factor's expert is active when its score exceeds the k-th of the others, or equals it and the k-th is the
    reference, the only expert of larger index: then the bar is the next number below.
    """
    k = tables.shape[3]
    bar = best_of(tables, rows, k, t, active)
    is_reference = active[k - 1] == tables.shape[2] - 1
    work.bar[inner, t] = np.nextafter(bar, -np.inf) if is_reference else bar
    peak = peak_of(tables, rows, active, k, t)
    mass, pull = sums_of(tables, rows, active, k, t, peak)
    work.rest[inner, t] = tables.gap[t] + pull / mass
    peak = peak_of(tables, rows, active, k - 1, t)
    mass, pull = sums_of(tables, rows, active, k - 1, t, peak)
    work.mass[inner, t], work.pull[inner, t], work.peak[inner, t] = mass, pull, peak
