"""Scores of the points of a product net's factors, laid out as the kernels read them.

The last factor comes in tiles: its points are the lanes. The others are rows, one factor below the other, and the
reference's zeros.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gatewise.arrays import Floats
from gatewise.kernels.compiled import compiled, compiled_fma
from gatewise.kernels.simd.lanes import fill, larger, largest, load, smaller, WIDTH
from gatewise.kernels.simd.tile import aligned, aligned_rows, load_strip, store_strip, STRIP, TILE


class FactorScores(NamedTuple):
    """last (T, n, TILE), lanes beyond the last point 0; prefix (rows, N), N being n filled up with zeros to whole
    lanes; sizes: the number of points of each factor; room: two arrays of the same shapes, the same unless the scores
    are to be kept, where what is made of them may go."""

    last: Floats
    prefix: Floats
    sizes: tuple[int, ...]
    room: tuple[Floats, Floats]


def factor_scores(features: Floats, factors: Sequence[Floats], keep: bool) -> FactorScores:
    """Scores features (n, p) . theta for the points theta (G_m, p) of every factor, contiguous float64.

    Equal to `linear_scores` of the same parameters bit for bit.
    """
    scores = empty_scores([len(factor) for factor in factors], len(features), keep)
    row = 0
    for factor in factors[:-1]:
        _row_scores(features, factor, scores.prefix[row : row + len(factor)])
        row += len(factor)
    _tile_scores(features, factors[-1], scores.last)
    return scores


def whole_lanes(rows: Floats) -> Floats:
    """(., n) with n filled up with zeros to whole lanes."""
    n = rows.shape[1]
    (out,) = aligned((len(rows), -(-n // WIDTH) * WIDTH))
    out[:, :n] = rows
    out[:, n:] = 0.0
    return out


@compiled
def extremes(last: Floats, prefix: Floats) -> tuple[Floats, Floats]:
    """The least and the greatest number at each of n observations, (n,) each; arrays laid out as `FactorScores`."""
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
    """Room for the scores of factors of these sizes at n observations; what no point fills is 0."""
    shapes = [(-(-sizes[-1] // TILE), n, TILE), (sum(sizes[:-1]) + 1, -(-n // WIDTH) * WIDTH)]
    last, prefix, *room = aligned(*shapes, *(shapes if keep else []))
    last[-1] = 0.0
    prefix[:, n:] = 0.0
    prefix[-1] = 0.0
    return FactorScores(last, prefix, tuple(sizes), (room[0], room[1]) if keep else (last, prefix))


@compiled_fma
def _row_scores(features: Floats, theta: Floats, out: Floats) -> None:
    """out[s, i] = features[i] . theta[s], from the first feature to the last."""
    columns = np.ascontiguousarray(features.T)
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
    """out[tile, t, i] = features[t] . theta[tile * TILE + i], in the same order."""
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
