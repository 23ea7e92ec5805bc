"""Sums over the experts of a prefix of a product net: all experts but the last one (see `product_units`).

They are computed once per prefix and observation and serve every point of the last factor. The experts of a prefix
have places 0 to M-2: the free experts in their order, then the reference. A table of values holds E, or log E at the
observations where ``in_logs`` is 1.
"""

import math
from typing import NamedTuple, TYPE_CHECKING

import numpy as np

from gatewise.arrays import Floats, Integers
from gatewise.kernels.compiled import leaf
from gatewise.kernels.simd.lanes import choose, fill, Lanes, larger, load, smaller, store, WIDTH
from gatewise.kernels.simd.tile import load_strip, store_strip, STRIP
from gatewise.kernels.top_k import comes_after

if TYPE_CHECKING:
    from gatewise.kernels.net.product_units import ProductTables, ProductWork

BELOW_ZERO = -5e-324  # the largest number below the reference's score of 0: a score of 0 exceeds it


class Place(NamedTuple):
    """The expert at one place of a prefix, at eight observations.

    score; value: E; lead: E (F_last - F_m); is_reference: 1 or 0.
    """

    score: Lanes
    value: Lanes
    lead: Lanes
    is_reference: Lanes


@leaf
def prefix_rows(start: Integers, length: Integers, prefix: int, rows: Integers) -> None:
    """rows[m] = the row of the table at place m of the prefix with this number; start, length, rows (M-1,)."""
    for m in range(length.size - 1, -1, -1):
        rows[m] = start[m] + prefix % length[m]
        prefix //= length[m]


@leaf
def fill_prefix(tables: "ProductTables", work: "ProductWork", prefix: int, member: int) -> None:
    """Compute the sums D and H of one prefix (see `product_units`) at every observation.

    They are written to row ``member`` of ``work.mass`` and ``work.lead_sum``. For a Top-K gate so are the last
    expert's threshold and the residual where it is not active. ``prefix`` is the number of the prefix in the net.
    """
    k, rows = tables.n_active, work.rows
    prefix_rows(tables.start, tables.length, prefix, rows)
    if k > rows.size:
        _fill_dense(tables.prefix, tables.lead, rows, member, work.mass, work.lead_sum)
    else:
        _fill_top(tables, work, rows, k, member)
    for t in range(tables.in_logs.size):
        if tables.in_logs[t] != 0:
            _fill_logs(tables, work, rows, k, t, member)


@leaf
def _fill_dense(values: Floats, lead: Floats, rows: Integers, member: int, mass: Floats, lead_sum: Floats) -> None:
    """The sums over all places."""
    n = lead.shape[1]
    for t in range(n):
        mass[member, t] = 0.0
        lead_sum[member, t] = 0.0
    for m in range(rows.size):
        row = rows[m]
        for t in range(n):
            mass[member, t] += values[row, t]
            lead_sum[member, t] += values[row, t] * lead[m, t]


@leaf
def _fill_top(tables: "ProductTables", work: "ProductWork", rows: Integers, k: int, member: int) -> None:
    """The sums over the best k - 1 places, which the last expert joins where it is active.

    Where it is not active, the best k places are: they give the threshold and the residual.
    """
    width = tables.prefix.shape[1]
    for t in range(0, width, WIDTH):
        mass, lead_sum = fill(0.0), fill(0.0)
        if k > 2:
            _rank_places(tables, rows, k, t, work.best)
            for rank in range(k - 1):
                place = _load_place(work.best, rank)
                mass, lead_sum = mass + place.value, lead_sum + place.lead
            kth = _load_place(work.best, k - 1)
        else:
            kth, second = _best_two(tables, rows, t)
            if k == 2:
                mass, lead_sum, kth = kth.value, kth.lead, second
        at = member * width + t
        store(work.mass, at, mass)
        store(work.lead_sum, at, lead_sum)
        store(work.threshold, at, choose(kth.is_reference, 0.5, fill(BELOW_ZERO), kth.score))
        residual = load(tables.last_miss, t) + (lead_sum + kth.lead) / (mass + kth.value)
        store(work.inactive_residual, at, residual)


@leaf
def _read_place(tables: "ProductTables", rows: Integers, m: int, t: int) -> Place:
    """The expert at place m of the prefix, at the eight observations from t on."""
    width = tables.prefix.shape[1]
    at = rows[m] * width + t
    value = load(tables.prefix, at)
    lead = value * load(tables.lead, m * width + t)
    return Place(load(tables.prefix_score, at), value, lead, fill(1.0 if m == rows.size - 1 else 0.0))


@leaf
def _load_place(best: Floats, rank: int) -> Place:
    """The place of a rank, as `_rank_places` stores it."""
    a, b, c, d = load_strip(best, rank * STRIP)
    return Place(a, b, c, d)


@leaf
def _insert(held: Place, new: Place) -> tuple[Place, Place]:
    """One step of an insertion sort: the place of larger score, which keeps the rank, and the other one.

    Of equal scores the new one keeps the rank.
    """
    first = Place(
        larger(new.score, held.score),
        choose(held.score, new.score, held.value, new.value),
        choose(held.score, new.score, held.lead, new.lead),
        choose(held.score, new.score, held.is_reference, new.is_reference),
    )
    second = Place(
        smaller(new.score, held.score),
        choose(held.score, new.score, new.value, held.value),
        choose(held.score, new.score, new.lead, held.lead),
        choose(held.score, new.score, new.is_reference, held.is_reference),
    )
    return first, second


@leaf
def _best_two(tables: "ProductTables", rows: Integers, t: int) -> tuple[Place, Place]:
    """The best two places by the rule of `top_k`, at the eight observations from t on.

    Places are inserted from the last to the first, so of equal scores the smaller index is the newer one and wins.
    """
    nobody = Place(fill(-np.inf), fill(0.0), fill(0.0), fill(0.0))
    first, second = nobody, nobody
    for m in range(rows.size - 1, -1, -1):
        first, new = _insert(first, _read_place(tables, rows, m, t))
        second, new = _insert(second, new)
    return first, second


@leaf
def _rank_places(tables: "ProductTables", rows: Integers, k: int, t: int, best: Floats) -> None:
    """best[rank] = the fields of the place of that rank, for the best k places, found as in `_best_two`."""
    for rank in range(k):
        store_strip(best, rank * STRIP, (fill(-np.inf), fill(0.0), fill(0.0), fill(0.0)))
    for m in range(rows.size - 1, -1, -1):
        new = _read_place(tables, rows, m, t)
        for rank in range(k):
            held, new = _insert(_load_place(best, rank), new)
            store_strip(best, rank * STRIP, held)


@leaf
def _fill_logs(tables: "ProductTables", work: "ProductWork", rows: Integers, k: int, t: int, member: int) -> None:
    """The sums at one observation whose tables hold log E."""
    values, in_logs, lead, active = tables.prefix, tables.in_logs, tables.lead, work.active
    for m in range(rows.size):
        active[m] = m
    if k <= rows.size:
        work.threshold[member, t] = best_places(tables.prefix_score, rows, k, t, active)
        peak = peak_of(values, in_logs, rows, active, k, t)
        mass, lead_sum = sums_of(values, in_logs, lead, rows, active, k, t, peak)
        work.inactive_residual[member, t] = tables.last_miss[t] + lead_sum / mass
    peak = peak_of(values, in_logs, rows, active, k - 1, t)
    work.peak[member, t] = peak
    mass, lead_sum = sums_of(values, in_logs, lead, rows, active, k - 1, t, peak)
    work.mass[member, t], work.lead_sum[member, t] = mass, lead_sum


@leaf
def best_places(scores: Floats, rows: Integers, k: int, t: int, active: Integers) -> float:
    """Find the k experts of a prefix with the largest scores at observation t; ties are broken as in `top_k`.

    scores[rows[m], t] is the score of the expert at place m of the prefix. Writes the k places to active[:k], best
    first. Returns the threshold of the last expert of the net, which is not in the prefix: it is active when its
    score exceeds this number. That is the k-th score. But if the k-th expert is the reference, the only one of larger
    index, then an equal score suffices, and the threshold is just below the reference's score.
    The loop selects without branches, because a processor cannot predict which expert is the best.
    """
    last, last_place = np.inf, -1
    for rank in range(k):
        best, place = -np.inf, -1
        for m in range(rows.size):
            score = scores[rows[m], t]
            take = comes_after(score, m, last, last_place) & ((score > best) | (place < 0))
            best = score if take else best
            place = m if take else place
        active[rank] = place
        last, last_place = best, place
    return BELOW_ZERO if last_place == rows.size - 1 else last


@leaf
def peak_of(values: Floats, in_logs: Integers, rows: Integers, active: Integers, k: int, t: int) -> float:
    """The largest log E among the places active[:k] where the table holds log E; 0 elsewhere."""
    if in_logs[t] == 0:
        return 0.0
    peak = -np.inf
    for rank in range(k):
        peak = max(peak, values[rows[active[rank]], t])
    return peak


@leaf
def scaled_value(values: Floats, in_logs: Integers, row: int, t: int, peak: float) -> float:
    """E of one row of the table, divided by exp(peak) where the table holds log E."""
    value: float = values[row, t]
    return value if in_logs[t] == 0 else math.exp(value - peak)


@leaf
def sums_of(
    values: Floats, in_logs: Integers, lead: Floats, rows: Integers, active: Integers, k: int, t: int, peak: float
) -> tuple[float, float]:
    """Sums of E_m and of E_m (F_last - F_m) over the places active[:k], scaled as in `scaled_value`."""
    mass, lead_sum = 0.0, 0.0
    for rank in range(k):
        value = scaled_value(values, in_logs, rows[active[rank]], t, peak)
        mass += value
        lead_sum += value * lead[active[rank], t]
    return mass, lead_sum
