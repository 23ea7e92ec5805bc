"""Candidates of a product net: every combination of one point per factor, with one factor for each free expert.

Candidate s = (i_1, ..., i_{M-1}) takes point i_m of factor m; candidates are in C order, the last factor fastest.
Expert M is the reference, with score 0; "the last expert" below is expert M-1, whose scores are the last factor.
With E_m = phi(score_m) / phi(0), let D be the sum of E_m and H the sum of E_m (F_last - F_m) over all experts but the
last one. The residual of a candidate at one observation is

    y - sum_m g_m F_m = (y - F_last) + H / (D + E_last),

where D and H belong to the prefix (i_1, ..., i_{M-2}) and E_last to the point i_{M-1}. A candidate thus needs no
exponential, and no array of size S x n is made. At an observation where some E is too large or too small for that,
the tables hold log E.
"""

from typing import NamedTuple

import numpy as np

from gatewise.arrays import Floats, Integers
from gatewise.kernels.compiled import inner, leaf
from gatewise.kernels.net.prefix import fill_prefix
from gatewise.kernels.simd.exponential import exp_nonpositive
from gatewise.kernels.simd.lanes import choose
from gatewise.kernels.simd.tile import aligned_rows, load_strip, MEMBERS, store_strip, STRIP, Strip, TILE


class ProductTables(NamedTuple):
    """What the kernels read about a product net, for n observations; N is n rounded up to a multiple of eight.

    last (T, n, TILE): E of the points of the last factor in T tiles, or log E where ``in_logs`` is 1.
    last_score: their scores in the same layout; empty when every expert is active.
    prefix (rows, N), prefix_score: the same for the points of the other factors, one factor below the other, and for
    the reference in the last row.
    start, length (M-1,): the first row and the number of rows of each of those factors; the reference is one of them.
    last_miss (N,): y - F_last.
    lead (M-1, N): F_last - F_m for the experts of those factors.
    in_logs (n,): 1 at the observations where the tables hold log E, else 0.
    last_size: the number of points of the last factor; n_prefixes: the number of prefixes; n_experts: M; n_active: K.
    """

    last: Floats
    last_score: Floats
    prefix: Floats
    prefix_score: Floats
    start: Integers
    length: Integers
    last_miss: Floats
    lead: Floats
    in_logs: Integers
    last_size: int
    n_prefixes: int
    n_experts: int
    n_active: int


class ProductWork(NamedTuple):
    """Sums over the experts of a block of neighbouring prefixes, (MEMBERS, N) each, and room for computing them.

    mass, lead_sum: D and H, over the experts that are active together with the last one.
    threshold: the score that the last expert must exceed to be active.
    inactive_residual: the residual where the last expert is not active.
    peak: the logarithm that was subtracted in D and H where the tables hold log E.
    block, tile (1,): the block of prefixes and the tile of the last factor that are prepared; -1 at first.
    rows, active (M-1,), best (M-1, STRIP): room for `prefix`.
    """

    mass: Floats
    lead_sum: Floats
    threshold: Floats
    inactive_residual: Floats
    peak: Floats
    block: Integers
    tile: Integers
    rows: Integers
    active: Integers
    best: Floats


@inner
def product_work(tables: ProductTables) -> ProductWork:
    """Work space for the units of a product net."""
    n, n_places = tables.last_miss.size, tables.length.size
    return ProductWork(
        mass=aligned_rows(MEMBERS, n),
        lead_sum=aligned_rows(MEMBERS, n),
        threshold=aligned_rows(MEMBERS, n),
        inactive_residual=aligned_rows(MEMBERS, n),
        peak=aligned_rows(MEMBERS, n),
        block=np.full(1, -1, np.int64),
        tile=np.full(1, -1, np.int64),
        rows=np.empty(n_places, np.int64),
        active=np.empty(n_places, np.int64),
        best=aligned_rows(n_places, STRIP),
    )


@leaf
def product_locate(tables: ProductTables, unit: int, member: int) -> tuple[int, int]:
    """(first, count): a member of a unit holds the candidates first, ..., first + count - 1.

    A unit combines a block of MEMBERS neighbouring prefixes with one tile of the last factor. Its member is one
    prefix of the block combined with the points of that tile.
    """
    n_tiles, width = tables.last.shape[0], tables.last_size
    block = unit // n_tiles
    tile = unit - block * n_tiles
    return (block * MEMBERS + member) * width + tile * TILE, min(TILE, width - tile * TILE)


@leaf
def product_prepare(tables: ProductTables, work: ProductWork, unit: int) -> int:
    """Compute the sums of the unit's prefixes into work, unless they are there; returns the number of its members."""
    n_tiles = tables.last.shape[0]
    block = unit // n_tiles
    n_members: int = min(MEMBERS, tables.n_prefixes - block * MEMBERS)
    if work.block[0] != block:
        for member in range(n_members):
            fill_prefix(tables, work, block * MEMBERS + member, member)
        work.block[0] = block
    work.tile[0] = unit - block * n_tiles
    return n_members


@leaf
def product_residuals(
    tables: ProductTables, work: ProductWork, member: int, start: int, stop: int, out: Floats
) -> None:
    """out[t - start, i] = y_t - (prediction of candidate i of the member) for start <= t < stop."""
    tile, n = work.tile[0], tables.in_logs.size
    mass, lead_sum, threshold, inactive = work.mass, work.lead_sum, work.threshold, work.inactive_residual
    dense = tables.n_experts == tables.n_active
    for t in range(start, stop):
        at, row = (tile * n + t) * TILE, (t - start) * TILE
        if tables.in_logs[t] != 0:
            _mix_logs(tables, work, member, t, t - start, out)
        elif dense:
            left, right = _mix(tables.last, at, tables.last_miss[t], mass[member, t], lead_sum[member, t])
            store_strip(out, row, left)
            store_strip(out, row + STRIP, right)
        else:
            left, right = _mix(tables.last, at, tables.last_miss[t], mass[member, t], lead_sum[member, t])
            bar, other = threshold[member, t], inactive[member, t]
            store_strip(out, row, _where_active(tables.last_score, at, bar, left, other))
            store_strip(out, row + STRIP, _where_active(tables.last_score, at + STRIP, bar, right, other))


@leaf
def _mix(last: Floats, at: int, last_miss: float, mass: float, lead_sum: float) -> tuple[Strip, Strip]:
    """last_miss + lead_sum / (mass + E) for the tile of E that starts at place ``at``, with one division for eight.

    Divisions cost more than anything else in the sweeps. From the one quotient 1 / (a b) come 1 / a = b / (a b) and
    1 / b = a / (a b), and in the same way all eight from the product of eight, which stays in range because E does.
    The last bit of a candidate's residual therefore depends on its neighbours in the tile.
    """
    a, b, c, d = load_strip(last, at)
    e, f, g, h = load_strip(last, at + STRIP)
    a, b, c, d, e, f, g, h = a + mass, b + mass, c + mass, d + mass, e + mass, f + mass, g + mass, h + mass
    ab, cd, ef, gh = a * b, c * d, e * f, g * h
    abcd, efgh = ab * cd, ef * gh
    whole = lead_sum / (abcd * efgh)
    left, right = whole * efgh, whole * abcd
    one, two, three, four = left * cd, left * ab, right * gh, right * ef
    return (
        (one * b + last_miss, one * a + last_miss, two * d + last_miss, two * c + last_miss),
        (three * f + last_miss, three * e + last_miss, four * h + last_miss, four * g + last_miss),
    )


@leaf
def _where_active(score: Floats, at: int, threshold: float, x: Strip, inactive_residual: float) -> Strip:
    """x where the last expert is among the best K, else the residual of the other experts alone."""
    a, b, c, d = load_strip(score, at)
    return (
        choose(a, threshold, x[0], inactive_residual),
        choose(b, threshold, x[1], inactive_residual),
        choose(c, threshold, x[2], inactive_residual),
        choose(d, threshold, x[3], inactive_residual),
    )


@leaf
def _mix_logs(tables: ProductTables, work: ProductWork, member: int, t: int, row: int, out: Floats) -> None:
    """The residuals of a tile at an observation whose tables hold log E.

    Numerator and denominator of H / (D + E) are divided by the larger of exp(peak) and E, so nothing overflows.
    """
    tile, dense = work.tile[0], tables.n_experts == tables.n_active
    miss, mass, lead_sum = tables.last_miss[t], work.mass[member, t], work.lead_sum[member, t]
    for i in range(TILE):
        above = tables.last[tile, t, i] - work.peak[member, t]
        small = exp_nonpositive(-abs(above))
        a = small if above > 0.0 else 1.0
        b = 1.0 if above > 0.0 else small
        out[row, i] = miss + lead_sum * a / (mass * a + b)
        if not dense and tables.last_score[tile, t, i] <= work.threshold[member, t]:
            out[row, i] = work.inactive_residual[member, t]
