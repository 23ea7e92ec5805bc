"""The weighted mean over the candidates of a product net of their gates at query points.

A candidate's gate gives E_last / (D + E_last) to the last expert and E_m / (D + E_last) to every other active expert
m (see `product_units`). Summed over the candidates of one prefix with their weights w, expert m gets E_m times the
sum of w / (D + E_last). So each pair of candidate and query costs one division, whatever the number of experts. Where
the last expert is not active, the candidate's gate is that of the prefix alone, and only w has to be summed.
"""

import numpy as np

from gatewise.arrays import Floats, Integers
from gatewise.kernels.compiled import compiled, inner, leaf, sum_leaf
from gatewise.kernels.net.prefix import best_places, peak_of, prefix_rows, scaled_value, sums_of
from gatewise.kernels.net.product_units import product_locate, product_prepare, product_work, ProductTables
from gatewise.kernels.simd.exponential import exp_nonpositive
from gatewise.kernels.simd.tile import MEMBERS, TILE


@sum_leaf
def _sums_dense(last: Floats, tile: int, t: int, mass: float, weight: Floats) -> tuple[float, float]:
    """Sums of w / (mass + E) and of w E / (mass + E) over a tile of the last factor."""
    per_mass, last_weight = 0.0, 0.0
    for i in range(TILE):
        quotient = weight[i] / (mass + last[tile, t, i])
        per_mass += quotient
        last_weight += quotient * last[tile, t, i]
    return per_mass, last_weight


@sum_leaf
def _sums_top(
    last: Floats, last_score: Floats, tile: int, t: int, mass: float, threshold: float, weight: Floats
) -> tuple[float, float, float]:
    """The sums of `_sums_dense` over the candidates where the last expert is active, and w summed over the others."""
    per_mass, last_weight, inactive = 0.0, 0.0, 0.0
    for i in range(TILE):
        active = last_score[tile, t, i] > threshold
        quotient = weight[i] / (mass + last[tile, t, i])
        quotient = quotient if active else 0.0
        per_mass += quotient
        last_weight += quotient * last[tile, t, i]
        inactive += 0.0 if active else weight[i]
    return per_mass, last_weight, inactive


@leaf
def _sums_logs(
    last: Floats,
    last_score: Floats,
    tile: int,
    t: int,
    mass: float,
    peak: float,
    threshold: float,
    dense: bool,
    weight: Floats,
) -> tuple[float, float, float]:
    """The sums of `_sums_top` at an observation whose tables hold log E; scaled as in `product_units._mix_logs`."""
    per_mass, last_weight, inactive = 0.0, 0.0, 0.0
    for i in range(TILE):
        if dense or last_score[tile, t, i] > threshold:
            above = last[tile, t, i] - peak
            small = exp_nonpositive(-abs(above))
            a = small if above > 0.0 else 1.0
            b = 1.0 if above > 0.0 else small
            quotient = weight[i] / (mass * a + b)
            per_mass += quotient * a
            last_weight += quotient * b
        else:
            inactive += weight[i]
    return per_mass, last_weight, inactive


@inner
def _add_prefix(
    tables: ProductTables, rows: Integers, member: int, per_mass: Floats, inactive: Floats, out: Floats
) -> None:
    """Add to out (Q, M) what the candidates of one prefix give to the experts of the prefix.

    rows (M-1,): the prefix's rows of the tables; row ``member`` of per_mass and inactive (MEMBERS, Q): the sums of
    w / (D + E_last) where the last expert is active, and of w where it is not.
    """
    values, scores, lead, in_logs = tables.prefix, tables.prefix_score, tables.lead, tables.in_logs
    k, active = tables.n_active, np.arange(rows.size)
    reference = rows.size - 1  # a place; the reference's column of out is one further, after the last expert's
    for t in range(in_logs.size):
        if k <= rows.size:
            best_places(scores, rows, k, t, active)
        peak = peak_of(values, in_logs, rows, active, k - 1, t)
        for rank in range(k - 1):
            place = active[rank]
            value = scaled_value(values, in_logs, rows[place], t, peak)
            out[t, place + (place == reference)] += per_mass[member, t] * value
        if inactive[member, t] > 0.0:
            peak = peak_of(values, in_logs, rows, active, k, t)
            mass, _ = sums_of(values, in_logs, lead, rows, active, k, t, peak)
            for rank in range(k):
                place = active[rank]
                value = scaled_value(values, in_logs, rows[place], t, peak)
                out[t, place + (place == reference)] += inactive[member, t] * value / mass


@inner
def _add_block(tables: ProductTables, block: int, per_mass: Floats, inactive: Floats, out: Floats) -> None:
    """`_add_prefix` for every prefix of a block; then the sums are set to zero for the next block."""
    rows = np.empty(tables.length.size, np.int64)
    for member in range(min(MEMBERS, tables.n_prefixes - block * MEMBERS)):
        prefix_rows(tables.start, tables.length, block * MEMBERS + member, rows)
        _add_prefix(tables, rows, member, per_mass, inactive, out)
    per_mass[:] = 0.0
    inactive[:] = 0.0


@compiled
def mean_gate_units(tables: ProductTables, weights: Floats, start: int, stop: int, out: Floats) -> None:
    """out[t] += sum of weights[s] g(x_t; theta_s) over the candidates s of units start to stop.

    weights (S,), out (Q, M) for Q queries.
    """
    work = product_work(tables)
    n_experts, dense = tables.n_experts, tables.n_experts == tables.n_active
    n_queries = out.shape[0]
    per_mass, inactive = np.zeros((MEMBERS, n_queries)), np.zeros((MEMBERS, n_queries))
    weight = np.empty(TILE)
    last, last_score, in_logs = tables.last, tables.last_score, tables.in_logs
    mass, threshold, peak = work.mass, work.threshold, work.peak
    for unit in range(start, stop):
        previous = work.block[0]
        n_members = product_prepare(tables, work, unit)
        if previous >= 0 and previous != work.block[0]:
            _add_block(tables, previous, per_mass, inactive, out)
        tile = work.tile[0]
        for member in range(n_members):
            first, count = product_locate(tables, unit, member)
            weight[:] = 0.0
            empty = True
            for i in range(count):
                weight[i] = weights[first + i]
                empty = empty and weight[i] == 0.0
            if empty:
                continue
            for t in range(n_queries):
                m, bar, rest = mass[member, t], threshold[member, t], 0.0
                if in_logs[t] != 0:
                    part, own, rest = _sums_logs(last, last_score, tile, t, m, peak[member, t], bar, dense, weight)
                elif dense:
                    part, own = _sums_dense(last, tile, t, m, weight)
                else:
                    part, own, rest = _sums_top(last, last_score, tile, t, m, bar, weight)
                per_mass[member, t] += part
                inactive[member, t] += rest
                out[t, n_experts - 2] += own
    if work.block[0] >= 0:
        _add_block(tables, work.block[0], per_mass, inactive, out)
