"""Candidates of a product net: one factor of scores per free expert, every combination a candidate.

Candidate s = (i_1, ..., i_{M-1}) in C order, the last factor fastest; expert M is the reference with score 0. With
E_m = phi(score_m) / phi(0), and D, H the sums of E_m and E_m (F_last - F_m) over the experts of all factors but the
last and the reference, the residual of a candidate at one observation is

    y - sum_m g_m F_m = (y - F_last) + H / (D + E_last),

where D and H belong to the prefix (i_1, ..., i_{M-2}) and E_last to i_{M-1}: no exponential, no array S x n.
An observation where E is too far from 1 for that is "wild": there the tables hold logarithms.
"""

from typing import NamedTuple

import numpy as np

from gatewise.arrays import Floats, Integers
from gatewise.kernels.compiled import compiled, compiled_leaf
from gatewise.kernels.net.prefix import fill_prefix
from gatewise.kernels.simd.exponential import exp_nonpositive
from gatewise.kernels.simd.lanes import choose
from gatewise.kernels.simd.tile import aligned_rows, load_strip, MEMBERS, store_strip, STRIP, Strip, TILE


class ProductTables(NamedTuple):
    """What the kernels read about a product net; T tiles of the last factor, n observations, M experts.

    last (T, n, TILE): E, or log E where wild; last_score: the scores alike, empty when every expert is active;
    prefix (rows, N) and prefix_score: the same for the points of the other factors, one factor after another, and the
    reference, N being n filled up to whole lanes; start, length (M-1,): where a factor's rows begin, and how many;
    gap (N,): y - F_last; lead (M-1, N): F_last - F_m for the experts of those factors and the reference;
    wild (n,): 1 or 0; shape (4,): length of the last factor, number of prefixes, M, K.
    """

    last: Floats
    last_score: Floats
    prefix: Floats
    prefix_score: Floats
    start: Integers
    length: Integers
    gap: Floats
    lead: Floats
    wild: Integers
    shape: Integers


class ProductWork(NamedTuple):
    """Sums over the experts of a few neighbouring prefixes, (MEMBERS, N) each, and what they belong to.

    mass: D; pull: H; bar: the score that the last factor's expert must exceed to be active; rest: the residual when
    it is not; peak: the logarithm subtracted in D and H where wild; at: block of prefixes, tile. The others are room
    for `prefix`: rows and active (M-1,), best (M-1, STRIP).
    """

    mass: Floats
    pull: Floats
    bar: Floats
    rest: Floats
    peak: Floats
    at: Integers
    rows: Integers
    active: Integers
    best: Floats


@compiled
def product_work(tables: ProductTables) -> ProductWork:
    n, n_places = tables.gap.size, tables.length.size
    return ProductWork(
        aligned_rows(MEMBERS, n),
        aligned_rows(MEMBERS, n),
        aligned_rows(MEMBERS, n),
        aligned_rows(MEMBERS, n),
        aligned_rows(MEMBERS, n),
        np.full(2, -1, np.int64),
        np.empty(n_places, np.int64),
        np.empty(n_places, np.int64),
        aligned_rows(n_places, STRIP),
    )


@compiled_leaf
def product_locate(tables: ProductTables, unit: int, member: int) -> tuple[int, int]:
    """First candidate and number of candidates of a member of a unit: neighbouring prefixes, one tile."""
    n_tiles, width = tables.last.shape[0], tables.shape[0]
    block = unit // n_tiles
    tile = unit - block * n_tiles
    return (block * MEMBERS + member) * width + tile * TILE, min(TILE, width - tile * TILE)


@compiled_leaf
def product_prepare(tables: ProductTables, work: ProductWork, unit: int) -> int:
    """Bring the sums of the unit's prefixes into work; how many there are."""
    n_tiles = tables.last.shape[0]
    block = unit // n_tiles
    n_members: int = min(MEMBERS, tables.shape[1] - block * MEMBERS)
    if work.at[0] != block:
        for member in range(n_members):
            fill_prefix(tables, work, block * MEMBERS + member, member)
        work.at[0] = block
    work.at[1] = unit - block * n_tiles
    return n_members


@compiled_leaf
def product_residuals(
    tables: ProductTables, work: ProductWork, member: int, start: int, stop: int, out: Floats
) -> None:
    """out[t - start, i] = y_t - (prediction of candidate i of the member) at observations start to stop."""
    tile, n = work.at[1], tables.wild.size
    mass, pull, bar, rest = work.mass, work.pull, work.bar, work.rest
    dense = tables.shape[2] == tables.shape[3]
    for t in range(start, stop):
        at, row = (tile * n + t) * TILE, (t - start) * TILE
        if tables.wild[t] != 0:
            _mix_wild(tables, work, member, t, t - start, out)
        elif dense:
            left, right = _mix(tables.last, at, tables.gap[t], mass[member, t], pull[member, t])
            store_strip(out, row, left)
            store_strip(out, row + STRIP, right)
        else:
            left, right = _mix(tables.last, at, tables.gap[t], mass[member, t], pull[member, t])
            store_strip(out, row, _active(tables.last_score, at, bar[member, t], left, rest[member, t]))
            store_strip(
                out, row + STRIP, _active(tables.last_score, at + STRIP, bar[member, t], right, rest[member, t])
            )


@compiled_leaf
def _mix(last: Floats, at: int, gap: float, mass: float, pull: float) -> tuple[Strip, Strip]:
    """gap + pull / (mass + E) for the tile of E that starts at ``at``, with one division for eight.

    Divisions are the dearest part of the whole library. 1 / a = b / (a b), and so on; the product of eight stays in
    range because E does. A candidate's last bit thus depends on its neighbours in the tile.
    """
    a, b, c, d = load_strip(last, at)
    e, f, g, h = load_strip(last, at + STRIP)
    a, b, c, d, e, f, g, h = a + mass, b + mass, c + mass, d + mass, e + mass, f + mass, g + mass, h + mass
    ab, cd, ef, gh = a * b, c * d, e * f, g * h
    abcd, efgh = ab * cd, ef * gh
    whole = pull / (abcd * efgh)
    left, right = whole * efgh, whole * abcd
    one, two, three, four = left * cd, left * ab, right * gh, right * ef
    return (
        (one * b + gap, one * a + gap, two * d + gap, two * c + gap),
        (three * f + gap, three * e + gap, four * h + gap, four * g + gap),
    )


@compiled_leaf
def _active(score: Floats, at: int, bar: float, x: Strip, rest: float) -> Strip:
    """x where the last factor's expert is among the best K, else the residual of the others alone."""
    a, b, c, d = load_strip(score, at)
    return (
        choose(a, bar, x[0], rest),
        choose(b, bar, x[1], rest),
        choose(c, bar, x[2], rest),
        choose(d, bar, x[3], rest),
    )


@compiled_leaf
def _mix_wild(tables: ProductTables, work: ProductWork, member: int, t: int, row: int, out: Floats) -> None:
    """The same from logarithms: of the prefix's peak and the last expert's value, the larger is subtracted."""
    tile, dense = work.at[1], tables.shape[2] == tables.shape[3]
    gap, mass, pull, peak = tables.gap[t], work.mass[member, t], work.pull[member, t], work.peak[member, t]
    for i in range(TILE):
        above = tables.last[tile, t, i] - peak
        small = exp_nonpositive(-abs(above))
        a = small if above > 0.0 else 1.0
        b = 1.0 if above > 0.0 else small
        out[row, i] = gap + pull * a / (mass * a + b)
        if not dense and tables.last_score[tile, t, i] <= work.bar[member, t]:
            out[row, i] = work.rest[member, t]
