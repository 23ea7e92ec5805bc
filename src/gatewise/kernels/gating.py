"""Scores to weights on the simplex, many candidates at once.

Rows are taken in tiles of a fixed length, laid out (expert, row), so that every inner loop runs over neighbouring
rows and vectorises; a tile's features and scores stay in the first-level cache. The tile functions index and never
slice: a slice costs an atomic count, which is dear beside 128 rows.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gatewise.arrays import Floats
from gatewise.kernels.compiled import compiled, compiled_fma
from gatewise.kernels.simd.exponential import exp_nonpositive

TILE = 128


class Workspace(NamedTuple):
    """Room for one tile: scores (M, TILE), and four rows."""

    scores: Floats
    top: Floats
    scale: Floats
    last: Floats
    last_index: Floats


@compiled
def _load_tile(rows: Floats, start: int, stop: int, tile: Floats) -> None:
    """Transpose rows[start:stop] into tile; the columns beyond are zero and harmless."""
    for j in range(rows.shape[1]):
        for i in range(stop - start):
            tile[j, i] = rows[start + i, j]
        for i in range(stop - start, TILE):
            tile[j, i] = 0.0


@compiled
def _store_tile(tile: Floats, start: int, stop: int, rows: Floats) -> None:
    """Transpose tile back into rows[start:stop]."""
    for i in range(stop - start):
        for j in range(rows.shape[1]):
            rows[start + i, j] = tile[j, i]


@compiled_fma
def _scores_tile(features: Floats, theta: Floats, s: int, scores: Floats) -> None:
    """scores[m] = sum_j theta[s, m, j] features[j], from the first feature to the last; 0 for the reference.

    A tile is always full, so every row passes through the same instructions: equal parameters and equal rows
    give equal bits wherever they stand, which the tie rule of Top-K gates rests on.
    """
    n_free, p = theta.shape[1:]
    for m in range(n_free):
        first = theta[s, m, 0]
        for i in range(TILE):
            scores[m, i] = first * features[0, i]
        # Two features a pass: half the loads and stores of the scores, in the same order of additions.
        for j in range(1, p - 1, 2):
            one, two = theta[s, m, j], theta[s, m, j + 1]
            for i in range(TILE):
                scores[m, i] = scores[m, i] + one * features[j, i] + two * features[j + 1, i]
        if p % 2 == 0:
            last = theta[s, m, p - 1]
            for i in range(TILE):
                scores[m, i] += last * features[p - 1, i]
    for i in range(TILE):
        scores[n_free, i] = 0.0


@compiled
def _mask_tile(
    scores: Floats, values: Floats, k: int, best: Floats, index: Floats, last: Floats, last_index: Floats, out: Floats
) -> None:
    """out[m] = values[m] for the k experts of largest score, ties to the smaller index, and -inf for the others.

    Pass by pass (last, last_index) moves to the next expert of every row in the order: larger score, then
    smaller index; after k passes it is the last one chosen.
    """
    for i in range(TILE):
        last[i] = np.inf
        last_index[i] = -1.0
    for _ in range(k):
        for i in range(TILE):
            best[i] = -np.inf
        for m in range(scores.shape[0]):
            label = float(m)
            for i in range(TILE):
                s = scores[m, i]
                after = s < last[i] or (s == last[i] and label > last_index[i])
                s = s if after else -np.inf
                index[i] = label if s > best[i] else index[i]
                best[i] = s if s > best[i] else best[i]
        for i in range(TILE):
            last[i] = best[i]
            last_index[i] = index[i]
    for m in range(scores.shape[0]):
        label = float(m)
        for i in range(TILE):
            s = scores[m, i]
            chosen = s > last[i] or (s == last[i] and label <= last_index[i])
            out[m, i] = values[m, i] if chosen else -np.inf


@compiled
def _softmax_tile(values: Floats, top: Floats, scale: Floats) -> None:
    """values[m] = exp(values[m] - top), scale = 1 / their sum: the weights are their product."""
    for i in range(TILE):
        top[i] = values[0, i]
    for m in range(1, values.shape[0]):
        for i in range(TILE):
            top[i] = values[m, i] if values[m, i] > top[i] else top[i]
    for i in range(TILE):
        scale[i] = 0.0
    for m in range(values.shape[0]):
        for i in range(TILE):
            e = exp_nonpositive(values[m, i] - top[i])
            values[m, i] = e
            scale[i] += e
    for i in range(TILE):
        scale[i] = 1.0 / scale[i]


@compiled
def _weights_tile(features: Floats, theta: Floats, s: int, k: int, work: Workspace, values: Floats) -> None:
    """Unnormalised weights of candidate s in values, their scale in work.scale."""
    if k == values.shape[0]:
        _scores_tile(features, theta, s, values)
    else:
        _scores_tile(features, theta, s, work.scores)
        _mask_tile(work.scores, work.scores, k, work.top, work.scale, work.last, work.last_index, values)
    _softmax_tile(values, work.top, work.scale)


@compiled
def _workspace(n_experts: int) -> Workspace:
    return Workspace(np.empty((n_experts, TILE)), np.empty(TILE), np.empty(TILE), np.empty(TILE), np.empty(TILE))


@compiled
def linear_scores(features: Floats, theta: Floats, out: Floats) -> None:
    """out[s, i, m] = features[i] . theta[s, m], and 0 for the last expert.

    features (n, p), theta (S, M-1, p), out (S, n, M). The sum runs in one fixed order, so equal parameters give
    equal scores to the bit, which a matrix product does not promise.
    """
    n, p = features.shape
    tile = np.empty((p, TILE))
    scores = np.empty((theta.shape[1] + 1, TILE))
    for start in range(0, n, TILE):
        stop = min(start + TILE, n)
        _load_tile(features, start, stop, tile)
        for s in range(theta.shape[0]):
            _scores_tile(tile, theta, s, scores)
            _store_tile(scores, start, stop, out[s])


@compiled
def linear_softmax(features: Floats, theta: Floats, k: int, out: Floats) -> None:
    """out[s, i] = Top-k softmax of the scores of candidate s at row i: `linear_scores` and `softmax_rows` in one.

    features (n, p), theta (S, M-1, p), out (S, n, M).
    """
    n, p = features.shape
    n_experts = theta.shape[1] + 1
    tile = np.empty((p, TILE))
    values = np.empty((n_experts, TILE))
    work = _workspace(n_experts)
    for start in range(0, n, TILE):
        stop = min(start + TILE, n)
        _load_tile(features, start, stop, tile)
        for s in range(theta.shape[0]):
            _weights_tile(tile, theta, s, k, work, values)
            for m in range(n_experts):
                for i in range(TILE):
                    values[m, i] *= work.scale[i]
            _store_tile(values, start, stop, out[s])


@compiled
def add_linear_softmax(features: Floats, theta: Floats, k: int, share: Floats, total: Floats) -> None:
    """total[i] += sum_s share[s] * (Top-k softmax weights of candidate s at row i), candidate by candidate.

    features (n, p), theta (S, M-1, p), share (S,), total (n, M). Nothing of size S x n is made, and cutting the
    candidates into consecutive blocks changes no bit of the total.
    """
    n, p = features.shape
    n_experts = theta.shape[1] + 1
    tile = np.empty((p, TILE))
    values = np.empty((n_experts, TILE))
    sums = np.empty((n_experts, TILE))
    work = _workspace(n_experts)
    for start in range(0, n, TILE):
        stop = min(start + TILE, n)
        _load_tile(features, start, stop, tile)
        _load_tile(total, start, stop, sums)
        for s in range(theta.shape[0]):
            _weights_tile(tile, theta, s, k, work, values)
            for i in range(TILE):
                work.scale[i] *= share[s]
            for m in range(n_experts):
                for i in range(TILE):
                    sums[m, i] += work.scale[i] * values[m, i]
        _store_tile(sums, start, stop, total)


@compiled
def softmax_rows(values: Floats, scores: Floats, k: int, out: Floats) -> None:
    """out[i] = exp(values[i]) over the k largest scores of row i, normalised; all arrays (n, M)."""
    n, n_experts = values.shape
    tile = np.empty((n_experts, TILE))
    weights = np.empty((n_experts, TILE))
    work = _workspace(n_experts)
    for start in range(0, n, TILE):
        stop = min(start + TILE, n)
        if k == n_experts:
            _load_tile(values, start, stop, weights)
        else:
            _load_tile(values, start, stop, tile)
            _load_tile(scores, start, stop, work.scores)
            _mask_tile(work.scores, tile, k, work.top, work.scale, work.last, work.last_index, weights)
        _softmax_tile(weights, work.top, work.scale)
        for m in range(n_experts):
            for i in range(TILE):
                weights[m, i] *= work.scale[i]
        _store_tile(weights, start, stop, out)


@compiled
def top_k_rows(scores: Floats, k: int, out: NDArray[np.intp]) -> None:
    """out[i] = the k experts of largest score in row i, best first, ties to the smaller index; scores (n, M)."""
    for i in range(scores.shape[0]):
        last, last_index = np.inf, -1
        for rank in range(k):
            best, index = -np.inf, -1
            for m in range(scores.shape[1]):
                s = scores[i, m]
                if (s < last or (s == last and m > last_index)) and (index < 0 or s > best):
                    best, index = s, m
            out[i, rank] = index
            last, last_index = best, index
