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

from gatewise.kernels.compiled import compiled, compiled_leaf
from gatewise.kernels.exponential import exp_nonpositive
from gatewise.kernels.prefix import fill_prefix, PREFIXES
from gatewise.kernels.tile import Floats, Integers, TILE

QUARTER = TILE // 4


class ProductTables(NamedTuple):
    """What the kernels read about a product net; T tiles of the last factor, n observations, M experts.

    last (T, n, TILE): E, or log E where wild; last_score: the scores alike, empty when every expert is active;
    prefix (rows, n) and prefix_score: the same for the points of the other factors, one factor after another, and the
    reference; start, length (M-1,): where a factor's rows begin, and how many; gap (n,): y - F_last;
    lead (M-1, n): F_last - F_m for the experts of those factors and the reference;
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
    """Sums over the experts of a few neighbouring prefixes, (PREFIXES, n) each, and what they belong to.

    mass: D; pull: H; bar: the score that the last factor's expert must exceed to be active; rest: the residual when
    it is not; peak: the logarithm subtracted in D and H where wild; at: block of prefixes, tile, prefix in the block.
    """

    mass: Floats
    pull: Floats
    bar: Floats
    rest: Floats
    peak: Floats
    at: Integers


@compiled
def product_work(tables: ProductTables) -> ProductWork:
    n = tables.gap.size
    at = np.full(3, -1, np.int64)
    return ProductWork(
        np.empty((PREFIXES, n)),
        np.empty((PREFIXES, n)),
        np.empty((PREFIXES, n)),
        np.empty((PREFIXES, n)),
        np.empty((PREFIXES, n)),
        at,
    )


@compiled
def product_locate(tables: ProductTables, unit: int) -> tuple[int, int]:
    """First candidate and number of candidates of a unit.

    Units run over blocks of prefixes, then tiles, then the prefixes of the block: a tile of the last factor stays in
    the second-level cache while it meets several prefixes.
    """
    n_tiles, width = tables.last.shape[0], tables.shape[0]
    block, rest = divmod(unit, n_tiles * PREFIXES)
    tile, inner = divmod(rest, PREFIXES)
    prefix = block * PREFIXES + inner
    if prefix >= tables.shape[1]:
        return 0, 0
    return prefix * width + tile * TILE, min(TILE, width - tile * TILE)


@compiled
def product_prepare(tables: ProductTables, work: ProductWork, unit: int) -> None:
    """Bring the sums of the unit's prefix into work."""
    n_tiles = tables.last.shape[0]
    block, rest = divmod(unit, n_tiles * PREFIXES)
    if work.at[0] != block:
        for inner in range(PREFIXES):
            if block * PREFIXES + inner < tables.shape[1]:
                fill_prefix(tables, work, block * PREFIXES + inner, inner)
        work.at[0] = block
    work.at[1], work.at[2] = divmod(rest, PREFIXES)


@compiled_leaf
def product_residuals(tables: ProductTables, work: ProductWork, start: int, stop: int, out: Floats) -> None:
    """out[t - start, i] = y_t - (prediction of candidate i of the tile) at observations start to stop."""
    tile, inner = work.at[1], work.at[2]
    last, last_score, gap, wild = tables.last, tables.last_score, tables.gap, tables.wild
    mass, pull, bar, rest, peak = work.mass, work.pull, work.bar, work.rest, work.peak
    dense = tables.shape[2] == tables.shape[3]
    for t in range(start, stop):
        row = t - start
        if wild[t] != 0:
            _mix_wild(last, tile, t, gap[t], mass[inner, t], pull[inner, t], peak[inner, t], row, out)
            if not dense:
                _replace_inactive(last_score, tile, t, bar[inner, t], rest[inner, t], row, out)
        elif dense:
            _mix(last, tile, t, gap[t], mass[inner, t], pull[inner, t], row, out)
        else:
            sums = gap[t], mass[inner, t], pull[inner, t], bar[inner, t], rest[inner, t]
            _mix_top(last, last_score, tile, t, sums, row, out)


@compiled_leaf
def _mix(last: Floats, tile: int, t: int, gap: float, mass: float, pull: float, row: int, out: Floats) -> None:
    """out[row, i] = gap + pull / (mass + last[tile, t, i]), with one division for four lanes.

    Divisions are the dearest part of the whole library. 1 / a = b c d / (a b c d), and so on; the product of four
    stays in range because E does. A candidate's last bit thus depends on its neighbours in the tile.
    """
    for i in range(QUARTER):
        a, b = mass + last[tile, t, i], mass + last[tile, t, i + QUARTER]
        c, d = mass + last[tile, t, i + 2 * QUARTER], mass + last[tile, t, i + 3 * QUARTER]
        ab, cd = a * b, c * d
        whole = pull / (ab * cd)
        first, second = whole * cd, whole * ab
        out[row, i] = gap + first * b
        out[row, i + QUARTER] = gap + first * a
        out[row, i + 2 * QUARTER] = gap + second * d
        out[row, i + 3 * QUARTER] = gap + second * c


@compiled_leaf
def _mix_top(
    last: Floats,
    last_score: Floats,
    tile: int,
    t: int,
    sums: tuple[float, float, float, float, float],
    row: int,
    out: Floats,
) -> None:
    """`_mix` where the last factor's expert is among the best K, else the residual of the others alone."""
    gap, mass, pull, bar, rest = sums
    for i in range(QUARTER):
        a, b = mass + last[tile, t, i], mass + last[tile, t, i + QUARTER]
        c, d = mass + last[tile, t, i + 2 * QUARTER], mass + last[tile, t, i + 3 * QUARTER]
        ab, cd = a * b, c * d
        whole = pull / (ab * cd)
        first, second = whole * cd, whole * ab
        ra, rb, rc, rd = gap + first * b, gap + first * a, gap + second * d, gap + second * c
        out[row, i] = ra if last_score[tile, t, i] > bar else rest
        out[row, i + QUARTER] = rb if last_score[tile, t, i + QUARTER] > bar else rest
        out[row, i + 2 * QUARTER] = rc if last_score[tile, t, i + 2 * QUARTER] > bar else rest
        out[row, i + 3 * QUARTER] = rd if last_score[tile, t, i + 3 * QUARTER] > bar else rest


@compiled_leaf
def _mix_wild(
    last: Floats, tile: int, t: int, gap: float, mass: float, pull: float, peak: float, row: int, out: Floats
) -> None:
    """The same from logarithms: of the prefix's peak and the last expert's value, the larger is subtracted."""
    for i in range(TILE):
        above = last[tile, t, i] - peak
        small = exp_nonpositive(-abs(above))
        a = small if above > 0.0 else 1.0
        b = 1.0 if above > 0.0 else small
        out[row, i] = gap + pull * a / (mass * a + b)


@compiled_leaf
def _replace_inactive(last_score: Floats, tile: int, t: int, bar: float, rest: float, row: int, out: Floats) -> None:
    """The residual of the others alone where the last factor's expert is not among the best K."""
    for i in range(TILE):
        out[row, i] = out[row, i] if last_score[tile, t, i] > bar else rest
