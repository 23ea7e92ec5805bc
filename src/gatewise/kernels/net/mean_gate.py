"""The mean over candidates of their gates at query points, for a product net."""

import numpy as np

from gatewise.arrays import Floats, Integers
from gatewise.kernels.compiled import compiled, compiled_leaf, compiled_sum
from gatewise.kernels.net.prefix import best_of, peak_of, prefix_rows, sums_of, weight_of
from gatewise.kernels.net.product_units import product_locate, product_prepare, product_work, ProductTables
from gatewise.kernels.simd.exponential import exp_nonpositive
from gatewise.kernels.simd.tile import MEMBERS, TILE


@compiled_sum
def _shares(last: Floats, tile: int, t: int, mass: float, weight: Floats) -> tuple[float, float]:
    """Sums of w / (mass + E) and w E / (mass + E) over the tile."""
    others, own = 0.0, 0.0
    for i in range(TILE):
        share = weight[i] / (mass + last[tile, t, i])
        others += share
        own += share * last[tile, t, i]
    return others, own


@compiled_sum
def _shares_top(
    last: Floats, last_score: Floats, tile: int, t: int, mass: float, bar: float, weight: Floats
) -> tuple[float, float, float]:
    """The same over the candidates where the last factor's expert is active, and the weight of the others."""
    others, own, left = 0.0, 0.0, 0.0
    for i in range(TILE):
        active = last_score[tile, t, i] > bar
        share = weight[i] / (mass + last[tile, t, i])
        share = share if active else 0.0
        others += share
        own += share * last[tile, t, i]
        left += 0.0 if active else weight[i]
    return others, own, left


@compiled_leaf
def _shares_wild(
    last: Floats,
    last_score: Floats,
    tile: int,
    t: int,
    mass: float,
    peak: float,
    bar: float,
    dense: bool,
    weight: Floats,
) -> tuple[float, float, float]:
    """The same from logarithms, see `product._mix_wild`."""
    others, own, left = 0.0, 0.0, 0.0
    for i in range(TILE):
        if dense or last_score[tile, t, i] > bar:
            above = last[tile, t, i] - peak
            small = exp_nonpositive(-abs(above))
            a = small if above > 0.0 else 1.0
            b = 1.0 if above > 0.0 else small
            share = weight[i] / (mass * a + b)
            others += share * a
            own += share * b
        else:
            left += weight[i]
    return others, own, left


@compiled
def _spread(tables: ProductTables, rows: Integers, inner: int, others: Floats, left: Floats, out: Floats) -> None:
    """Divide what the candidates of one prefix give to the experts of its places among these."""
    values, scores, lead, wild = tables.prefix, tables.prefix_score, tables.lead, tables.wild
    k, active = tables.shape[3], np.arange(rows.size)
    reference = rows.size - 1  # its place; its label is one more, since the last factor's expert comes before it
    for t in range(wild.size):
        if k <= rows.size:
            best_of(scores, rows, k, t, active)
        peak = peak_of(values, wild, rows, active, k - 1, t)
        for rank in range(k - 1):
            place = active[rank]
            weight = weight_of(values, wild, rows[place], t, peak)
            out[t, place + (place == reference)] += others[inner, t] * weight
        if left[inner, t] > 0.0:
            peak = peak_of(values, wild, rows, active, k, t)
            mass, _ = sums_of(values, wild, lead, rows, active, k, t, peak)
            for rank in range(k):
                place = active[rank]
                weight = weight_of(values, wild, rows[place], t, peak)
                out[t, place + (place == reference)] += left[inner, t] * weight / mass


@compiled
def _spread_block(tables: ProductTables, block: int, others: Floats, left: Floats, out: Floats) -> None:
    """`_spread` for the prefixes of a block, which then starts anew."""
    rows = np.empty(tables.length.size, np.int64)
    for inner in range(min(MEMBERS, tables.shape[1] - block * MEMBERS)):
        prefix_rows(tables.start, tables.length, block * MEMBERS + inner, rows)
        _spread(tables, rows, inner, others, left, out)
    others[:] = 0.0
    left[:] = 0.0


@compiled
def mean_gate_units(tables: ProductTables, weights: Floats, start: int, stop: int, out: Floats) -> None:
    """out[t] += sum over the candidates of units start to stop of weights[s] times their gate at query t.

    weights (S,), out (Q, M). One division per (candidate, query): the experts of a prefix share its sum.
    """
    work = product_work(tables)
    n_experts, dense = tables.shape[2], tables.shape[2] == tables.shape[3]
    n_queries = out.shape[0]
    others, left = np.zeros((MEMBERS, n_queries)), np.zeros((MEMBERS, n_queries))
    weight = np.empty(TILE)
    last, last_score, wild = tables.last, tables.last_score, tables.wild
    mass, bar, peak = work.mass, work.bar, work.peak
    for unit in range(start, stop):
        before = work.at[0]
        n_members = product_prepare(tables, work, unit)
        if before >= 0 and before != work.at[0]:
            _spread_block(tables, before, others, left, out)
        tile = work.at[1]
        for inner in range(n_members):
            first, count = product_locate(tables, unit, inner)
            weight[:] = 0.0
            for i in range(count):
                weight[i] = weights[first + i]
            if not weight.any():
                continue
            for t in range(n_queries):
                rest, m = 0.0, mass[inner, t]
                if wild[t] != 0:
                    others_, own, rest = _shares_wild(
                        last, last_score, tile, t, m, peak[inner, t], bar[inner, t], dense, weight
                    )
                elif dense:
                    others_, own = _shares(last, tile, t, m, weight)
                else:
                    others_, own, rest = _shares_top(last, last_score, tile, t, m, bar[inner, t], weight)
                others[inner, t] += others_
                left[inner, t] += rest
                out[t, n_experts - 2] += own
    if work.at[0] >= 0:
        _spread_block(tables, work.at[0], others, left, out)
