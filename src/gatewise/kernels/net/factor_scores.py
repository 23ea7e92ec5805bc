"""Scores of the points of a product net's factors, laid out as the kernels read them.

The points of the last factor stand side by side in tiles of 64. Each point of the other factors is a row over the
observations, one factor below the other, and the last row is that of the reference expert, whose score is 0.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gatewise.arrays import Floats
from gatewise.kernels.compiled import compiled, compiled_fma
from gatewise.kernels.simd.lanes import fill, larger, largest, load, smaller, WIDTH
from gatewise.kernels.simd.tile import aligned, aligned_rows, load_strip, store_strip, STRIP, TILE


class FactorScores(NamedTuple):
    """Scores at n observations, and arrays into which `product_tables` may write what it computes from them.

    last (T, n, TILE): the points of the last factor in T tiles; places beyond the last point are 0.
    prefix (rows, N): the points of the other factors and the reference, where N is n rounded up to a multiple of
    eight and the columns beyond n are 0.
    sizes: the number of points of each factor.
    last_out, prefix_out: arrays of the shapes of last and prefix. They are these arrays themselves, which are then
    overwritten, unless the scores must be kept.
    """

    last: Floats
    prefix: Floats
    sizes: tuple[int, ...]
    last_out: Floats
    prefix_out: Floats


def factor_scores(features: Floats, factors: Sequence[Floats], keep: bool) -> FactorScores:
    """Scores features (n, p) . theta for the points theta (G_m, p) of every factor; all arrays contiguous float64.

    They are equal to `linear_scores` of the same parameters bit for bit. ``keep``: whether the scores are still
    needed after `product_tables`, as they are for Top-K.
    """
    scores = empty_scores([len(factor) for factor in factors], len(features), keep)
    row, columns = 0, np.ascontiguousarray(features.T)
    for factor in factors[:-1]:
        _row_scores(columns, factor, scores.prefix[row : row + len(factor)])
        row += len(factor)
    _tile_scores(features, factors[-1], scores.last)
    return scores


def pad_columns(rows: Floats) -> Floats:
    """A copy of rows (., n) with columns of zeros at the end that make their number a multiple of eight."""
    n = rows.shape[1]
    (out,) = aligned((len(rows), -(-n // WIDTH) * WIDTH))
    out[:, :n] = rows
    out[:, n:] = 0.0
    return out


@compiled
def extremes(last: Floats, prefix: Floats) -> tuple[Floats, Floats]:
    """The least and the greatest of 0 and all numbers of each observation, (n,) each; arrays as in `FactorScores`."""
    n = last.shape[1]
    low, high = np.zeros(n), np.zeros(n)
    for row in range(prefix.shape[0]):
        for t in range(n):
            low[t] = prefix[row, t] if prefix[row, t] < low[t] else low[t]
            high[t] = prefix[row, t] if prefix[row, t] > high[t] else high[t]
    for tile in range(last.shape[0]):
        for t in range(n):
            least, most = fill(low[t]), fill(high[t])
            for at in range((tile * n + t) * TILE, (tile * n + t + 1) * TILE, WIDTH):
                least, most = smaller(load(last, at), least), larger(load(last, at), most)
            low[t], high[t] = -largest(0.0 - least), largest(most)
    return low, high


def empty_scores(sizes: Sequence[int], n: int, keep: bool) -> FactorScores:
    """Arrays for the scores of factors of these sizes at n observations; places that belong to no point are 0."""
    shapes = [(-(-sizes[-1] // TILE), n, TILE), (sum(sizes[:-1]) + 1, -(-n // WIDTH) * WIDTH)]
    last, prefix, *others = aligned(*shapes, *(shapes if keep else []))
    last[-1] = 0.0
    prefix[:, n:] = 0.0
    prefix[-1] = 0.0
    last_out, prefix_out = others if keep else (last, prefix)
    return FactorScores(last, prefix, tuple(sizes), last_out, prefix_out)


@compiled_fma
def _row_scores(columns: Floats, theta: Floats, out: Floats) -> None:
    """out[s, i] = theta[s] . columns[:, i], summed from the first feature to the last; columns (p, n)."""
    p, n = columns.shape
    for s in range(theta.shape[0]):
        first = theta[s, 0]
        for i in range(n):
            out[s, i] = first * columns[0, i]
        for j in range(1, p):
            slope = theta[s, j]
            for i in range(n):
                out[s, i] = out[s, i] + slope * columns[j, i]


@compiled
def _tile_scores(features: Floats, theta: Floats, out: Floats) -> None:
    """out[tile, t, i] = features[t] . theta[tile * TILE + i], summed in the same order."""
    n, p = features.shape
    columns = aligned_rows(p, TILE)
    for tile in range(out.shape[0]):
        count = min(TILE, theta.shape[0] - tile * TILE)
        columns[:] = 0.0
        for i in range(count):
            for j in range(p):
                columns[j, i] = theta[tile * TILE + i, j]
        for t in range(n):
            for column in range(0, TILE, STRIP):
                x = features[t, 0]
                e, f, g, h = load_strip(columns, column)
                a, b, c, d = e * x, f * x, g * x, h * x
                for j in range(1, p):
                    x = features[t, j]
                    e, f, g, h = load_strip(columns, j * TILE + column)
                    a, b, c, d = a + e * x, b + f * x, c + g * x, d + h * x
                store_strip(out, (tile * n + t) * TILE + column, (a, b, c, d))
