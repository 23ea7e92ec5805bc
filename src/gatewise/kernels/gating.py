"""Scores, linear ones and those of trees, and weights on the simplex from them, for many candidates and many rows.

Rows are taken in batches of 128, and a batch is laid out (expert, row). Every inner loop then runs over neighbouring
rows and uses vector instructions, and the features and scores of a batch stay in the first-level cache. The functions
of a batch index arrays and never slice them: each slice counts references by an atomic instruction, which is slow in
comparison with the arithmetic of 128 rows.
"""

from typing import Any, NamedTuple

import numpy as np

from gatewise.arrays import Floats, Indices
from gatewise.kernels.compiled import batch, batch_fma, compiled, inner, leaf
from gatewise.kernels.simd.exponential import exp_nonpositive
from gatewise.kernels.top_k import comes_after

BATCH = 128  # rows that are taken together


class Trees(NamedTuple):
    """Trees one after the other; tree t has the nodes roots[t] to roots[t + 1] - 1, the root first.

    A row goes to the node ``left`` if its column ``feature``, as a 32-bit number, is at most ``threshold``, else to
    ``right``; at a leaf ``feature`` is -1.
    """

    roots: Indices  # (T + 1,)
    feature: Indices  # (nodes,)
    threshold: Floats  # (nodes,)
    left: Indices  # (nodes,)
    right: Indices  # (nodes,)
    value: Floats  # (nodes, J)
    n_columns: int


class BatchWork(NamedTuple):
    """Work space for one batch: scores (M, BATCH), the others (BATCH,).

    top: the largest value of each row; scale: one over the sum of its exponentials; best, best_index, last and
    last_index: see `_mask_batch`.
    """

    scores: Floats
    top: Floats
    scale: Floats
    best: Floats
    best_index: Floats
    last: Floats
    last_index: Floats


@batch
def _load_batch(rows: Floats, start: int, stop: int, batch: Floats) -> None:
    """batch[j, i] = rows[start + i, j]; columns beyond the last row are zero, and nobody reads what comes of them."""
    for j in range(rows.shape[1]):
        for i in range(stop - start):
            batch[j, i] = rows[start + i, j]
        for i in range(stop - start, BATCH):
            batch[j, i] = 0.0


@batch
def _store_batch(batch: Floats, start: int, stop: int, rows: Floats) -> None:
    """rows[start + i, j] = batch[j, i]."""
    for i in range(stop - start):
        for j in range(rows.shape[1]):
            rows[start + i, j] = batch[j, i]


@batch_fma
def _scores_batch(features: Floats, theta: Floats, s: int, scores: Floats) -> None:
    """scores[m] = sum_j theta[s, m, j] features[j], from the first feature to the last; 0 for the reference.

    A batch is always full, so every row passes through the same instructions. Equal parameters and equal rows
    therefore give equal bits wherever they stand, and equal scores tie in Top-K.
    """
    n_free, p = theta.shape[1:]
    for m in range(n_free):
        first = theta[s, m, 0]
        for i in range(BATCH):
            scores[m, i] = first * features[0, i]
        # Two features a pass: half the loads and stores of the scores, in the same order of additions.
        for j in range(1, p - 1, 2):
            one, two = theta[s, m, j], theta[s, m, j + 1]
            for i in range(BATCH):
                scores[m, i] = scores[m, i] + one * features[j, i] + two * features[j + 1, i]
        if p % 2 == 0:
            last = theta[s, m, p - 1]
            for i in range(BATCH):
                scores[m, i] += last * features[p - 1, i]
    for i in range(BATCH):
        scores[n_free, i] = 0.0


@batch
def _mask_batch(scores: Floats, values: Floats, k: int, work: BatchWork, out: Floats) -> None:
    """out[m] = values[m] for the k experts of largest score (`top_k`) and -inf for the others; all (M, BATCH).

    In every pass each row moves on to its next expert in the order of `comes_after`. After k passes ``work.last`` and
    ``work.last_index`` are the score and the index of the last expert chosen.
    """
    best, index, last, last_index = work.best, work.best_index, work.last, work.last_index
    for i in range(BATCH):
        last[i] = np.inf
        last_index[i] = -1.0
    for _ in range(k):
        for i in range(BATCH):
            best[i] = -np.inf
        for m in range(scores.shape[0]):
            label = float(m)
            for i in range(BATCH):
                s = scores[m, i] if comes_after(scores[m, i], label, last[i], last_index[i]) else -np.inf
                index[i] = label if s > best[i] else index[i]
                best[i] = s if s > best[i] else best[i]
        for i in range(BATCH):
            last[i] = best[i]
            last_index[i] = index[i]
    for m in range(scores.shape[0]):
        label = float(m)
        for i in range(BATCH):
            out[m, i] = -np.inf if comes_after(scores[m, i], label, last[i], last_index[i]) else values[m, i]


@batch
def _softmax_batch(values: Floats, top: Floats, scale: Floats) -> None:
    """values[m] becomes exp(values[m] - top) and scale one over their sum; the weights are values[m] * scale."""
    for i in range(BATCH):
        top[i] = values[0, i]
    for m in range(1, values.shape[0]):
        for i in range(BATCH):
            top[i] = values[m, i] if values[m, i] > top[i] else top[i]
    for i in range(BATCH):
        scale[i] = 0.0
    for m in range(values.shape[0]):
        for i in range(BATCH):
            e = exp_nonpositive(values[m, i] - top[i])
            values[m, i] = e
            scale[i] += e
    for i in range(BATCH):
        scale[i] = 1.0 / scale[i]


@inner
def _weights_batch(features: Floats, theta: Floats, s: int, k: int, work: BatchWork, values: Floats) -> None:
    """values[m] * work.scale = the Top-k softmax weight of expert m under candidate s; values (M, BATCH)."""
    if k == values.shape[0]:
        _scores_batch(features, theta, s, values)
    else:
        _scores_batch(features, theta, s, work.scores)
        _mask_batch(work.scores, work.scores, k, work, values)
    _softmax_batch(values, work.top, work.scale)


@inner
def _batch_work(n_experts: int) -> BatchWork:
    return BatchWork(
        scores=np.empty((n_experts, BATCH)),
        top=np.empty(BATCH),
        scale=np.empty(BATCH),
        best=np.empty(BATCH),
        best_index=np.empty(BATCH),
        last=np.empty(BATCH),
        last_index=np.empty(BATCH),
    )


@compiled
def linear_scores(features: Floats, theta: Floats, out: Floats) -> None:
    """out[s, i, m] = features[i] . theta[s, m], and 0 for the reference, the last expert.

    features (n, p), theta (S, M-1, p), out (S, n, M). The sum runs in one fixed order, so equal parameters give
    equal scores to the bit, which a matrix product does not promise.
    """
    n, p = features.shape
    batch = np.empty((p, BATCH))
    scores = np.empty((theta.shape[1] + 1, BATCH))
    for start in range(0, n, BATCH):
        stop = min(start + BATCH, n)
        _load_batch(features, start, stop, batch)
        for s in range(theta.shape[0]):
            _scores_batch(batch, theta, s, scores)
            _store_batch(scores, start, stop, out[s])


def linear_softmax(features: Floats, theta: Floats, k: int, out: Floats) -> None:
    """out[s, i] = Top-k softmax of the scores of candidate s at row i, as `softmax_rows` of `linear_scores`.

    features (n, p), theta (S, M-1, p), out (S, n, M).
    """
    _candidate_weights(features, theta, k, np.empty(0), out)


def add_linear_softmax(features: Floats, theta: Floats, k: int, share: Floats, total: Floats) -> None:
    """total[i] += sum_s share[s] * (Top-k softmax weights of candidate s at row i), candidate by candidate.

    features (n, p), theta (S, M-1, p), share (S,), total (n, M). No array of size S x n is made. Calls for
    consecutive parts of the candidates give the same bits as one call for all.
    """
    if len(share):
        _candidate_weights(features, theta, k, share, total[None])


@compiled
def _candidate_weights(features: Floats, theta: Floats, k: int, share: Floats, out: Floats) -> None:
    """The work of `add_linear_softmax`, with the total in out[0], or of `linear_softmax` if there are no shares.

    One function, because most of it is the same and it takes seconds to compile.
    """
    n, p = features.shape
    n_experts = theta.shape[1] + 1
    batch = np.empty((p, BATCH))
    values = np.empty((n_experts, BATCH))
    sums = np.empty((n_experts, BATCH))
    work = _batch_work(n_experts)
    for start in range(0, n, BATCH):
        stop = min(start + BATCH, n)
        _load_batch(features, start, stop, batch)
        if share.size > 0:
            _load_batch(out[0], start, stop, sums)
        for s in range(theta.shape[0]):
            _weights_batch(batch, theta, s, k, work, values)
            if share.size > 0:
                for i in range(BATCH):
                    work.scale[i] *= share[s]
                for m in range(n_experts):
                    for i in range(BATCH):
                        sums[m, i] += work.scale[i] * values[m, i]
            else:
                for m in range(n_experts):
                    for i in range(BATCH):
                        values[m, i] *= work.scale[i]
                _store_batch(values, start, stop, out[s])
        if share.size > 0:
            _store_batch(sums, start, stop, out[0])


@compiled
def add_few_softmax(features: Floats, theta: Floats, ks: Indices, share: Floats, total: Floats) -> None:
    """total[i] += sum_s share[s] * (Top-ks[s] softmax weights of candidate s at row i), row by row.

    features (n, p), theta (S, M-1, 1 + p), the first parameter that of a constant, ks and share (S,), total (n, M).
    Rows are not taken in batches: where there are a few only, most of a batch would be empty.
    """
    n_experts = theta.shape[1] + 1
    scores, values = np.empty(n_experts), np.empty(n_experts)
    for i in range(features.shape[0]):
        for s in range(theta.shape[0]):
            if share[s] == 0.0:
                continue
            _row_scores(features, i, theta, s, scores)
            _best_of_row(scores, ks[s], values)
            top, mass = -np.inf, 0.0
            for m in range(n_experts):
                top = max(top, values[m])
            for m in range(n_experts):
                values[m] = exp_nonpositive(values[m] - top)
                mass += values[m]
            for m in range(n_experts):
                total[i, m] += share[s] / mass * values[m]


@leaf
def _row_scores(features: Floats, i: int, theta: Floats, s: int, scores: Floats) -> None:
    """scores[m] = theta[s, m, 0] + sum_j theta[s, m, 1 + j] features[i, j]; 0 for the reference, the last expert."""
    for m in range(theta.shape[1]):
        score = theta[s, m, 0]
        for j in range(features.shape[1]):
            score += theta[s, m, 1 + j] * features[i, j]
        scores[m] = score
    scores[theta.shape[1]] = 0.0


@leaf
def _best_of_row(scores: Floats, k: int, values: Floats) -> None:
    """values[m] = scores[m] for the k experts of largest score (`top_k`) and -inf for the others."""
    for m in range(scores.size):
        values[m] = scores[m] if k == scores.size else -np.inf
    if k < scores.size:
        last, last_index = np.inf, -1.0
        for _ in range(k):
            best, index = -np.inf, -1
            for m in range(scores.size):
                if comes_after(scores[m], float(m), last, last_index) and (index < 0 or scores[m] > best):
                    best, index = scores[m], m
            values[index] = best
            last, last_index = best, float(index)


@compiled
def softmax_rows(values: Floats, scores: Floats, k: int, out: Floats) -> None:
    """out[i] = exp(values[i]) over the k largest scores of row i, normalised; all arrays (n, M)."""
    n, n_experts = values.shape
    batch = np.empty((n_experts, BATCH))
    weights = np.empty((n_experts, BATCH))
    work = _batch_work(n_experts)
    for start in range(0, n, BATCH):
        stop = min(start + BATCH, n)
        if k == n_experts:
            _load_batch(values, start, stop, weights)
        else:
            _load_batch(values, start, stop, batch)
            _load_batch(scores, start, stop, work.scores)
            _mask_batch(work.scores, batch, k, work, weights)
        _softmax_batch(weights, work.top, work.scale)
        for m in range(n_experts):
            for i in range(BATCH):
                weights[m, i] *= work.scale[i]
        _store_batch(weights, start, stop, out)


def tree_sums(columns: Floats, trees: Trees, first: int | None = None) -> Floats:
    """The sum over trees, or over the ``first`` few, of their leaves' values at rows of columns (n, p), (n, J)."""
    rows = np.ascontiguousarray(columns, dtype=np.float32)
    if rows.shape[1] != trees.n_columns:
        raise ValueError(
            f"columns must be {trees.n_columns}, as many as the trees were grown on, not {rows.shape[1]}"
        )
    out = np.zeros((len(rows), trees.value.shape[1]))
    if len(trees.feature):
        roots = trees.roots if first is None else trees.roots[: first + 1]
        _add_leaves(rows, roots, trees.feature, trees.threshold, trees.left, trees.right, trees.value, out)
    return out


@compiled
def _add_leaves(
    columns: Any,
    roots: Indices,
    feature: Indices,
    threshold: Floats,
    left: Indices,
    right: Indices,
    value: Floats,
    out: Floats,
) -> None:
    for t in range(len(roots) - 1):
        for i in range(len(columns)):
            node = roots[t]
            while feature[node] >= 0:
                node = left[node] if columns[i, feature[node]] <= threshold[node] else right[node]
            for j in range(out.shape[1]):
                out[i, j] += value[node, j]
