"""Candidates given one by one: parameters theta (S, M-1, p) and features (n, p), scores linear in the features.

Lanes of a tile are candidates. Scores are summed from the first feature to the last in every lane, so equal
parameters give equal scores to the bit, as in `gating`; one exponential per expert.
"""

from typing import NamedTuple

import numpy as np

from gatewise.arrays import Floats, Integers
from gatewise.kernels.compiled import compiled, compiled_leaf
from gatewise.kernels.simd.elementary import exp_lanes
from gatewise.kernels.simd.lanes import fill, larger, load, store, WIDTH
from gatewise.kernels.simd.tile import aligned_rows, load_strip, store_strip, STRIP, TILE


class ExplicitTables(NamedTuple):
    """theta (S, M-1, p), features (n, p), y (n,), F (n, M), shape (2,): M, K."""

    theta: Floats
    features: Floats
    y: Floats
    F: Floats
    shape: Integers


class ExplicitWork(NamedTuple):
    """One tile: parameters (M-1, p * TILE), scores (M, TILE), those of the active experts, and a row (1, TILE)."""

    theta: Floats
    scores: Floats
    active: Floats
    rank: Floats


@compiled
def explicit_work(tables: ExplicitTables) -> ExplicitWork:
    _, n_free, p = tables.theta.shape
    theta = aligned_rows(n_free, p * TILE)
    theta[:] = 0.0
    return ExplicitWork(theta, aligned_rows(n_free + 1, TILE), aligned_rows(n_free + 1, TILE), aligned_rows(1, TILE))


@compiled_leaf
def explicit_locate(tables: ExplicitTables, unit: int, _member: int) -> tuple[int, int]:
    """First candidate and number of candidates of a unit, which is one tile."""
    return unit * TILE, min(TILE, tables.theta.shape[0] - unit * TILE)


@compiled_leaf
def explicit_prepare(tables: ExplicitTables, work: ExplicitWork, unit: int) -> int:
    """Transpose the tile's parameters; lanes beyond the last candidate keep finite values and are not read."""
    first, count = explicit_locate(tables, unit, 0)
    n_free, p = tables.theta.shape[1], tables.theta.shape[2]
    for i in range(count):
        for m in range(n_free):
            for j in range(p):
                work.theta[m, j * TILE + i] = tables.theta[first + i, m, j]
    return 1


@compiled_leaf
def _scores(features: Floats, theta: Floats, t: int, scores: Floats) -> None:
    """scores[m] = sum_j features[t, j] theta[m, j], from the first feature to the last; 0 for the reference."""
    n_free, p = theta.shape[0], features.shape[1]
    for m in range(n_free):
        for column in range(0, TILE, STRIP):
            a, b, c, d = fill(0.0), fill(0.0), fill(0.0), fill(0.0)
            for j in range(p):
                x = features[t, j]
                e, f, g, h = load_strip(theta, (m * p + j) * TILE + column)
                a, b, c, d = a + e * x, b + f * x, c + g * x, d + h * x
            store_strip(scores, m * TILE + column, (a, b, c, d))
    for column in range(0, TILE, STRIP):
        store_strip(scores, n_free * TILE + column, (fill(0.0), fill(0.0), fill(0.0), fill(0.0)))


@compiled_leaf
def _keep_best(scores: Floats, k: int, rank: Floats, active: Floats) -> None:
    """active = scores of the k best experts, -inf for the others; ties to the smaller index.

    An expert is active when fewer than k experts come before it: larger score, or equal score and smaller index.
    """
    n_experts = scores.shape[0]
    for m in range(n_experts):
        for i in range(TILE):
            rank[0, i] = 0.0
        for j in range(m):
            for i in range(TILE):
                rank[0, i] += 1.0 if scores[j, i] >= scores[m, i] else 0.0
        for j in range(m + 1, n_experts):
            for i in range(TILE):
                rank[0, i] += 1.0 if scores[j, i] > scores[m, i] else 0.0
        for i in range(TILE):
            active[m, i] = scores[m, i] if rank[0, i] < k else -np.inf


@compiled_leaf
def _mix(scores: Floats, F: Floats, y: float, t: int, row: int, out: Floats) -> None:
    """out[row] = y - sum_m softmax(scores)_m F[t, m]."""
    n_experts = scores.shape[0]
    for column in range(0, TILE, WIDTH):
        top = load(scores, column)
        for m in range(1, n_experts):
            top = larger(load(scores, m * TILE + column), top)
        mass, pull = fill(0.0), fill(0.0)
        for m in range(n_experts):
            e = exp_lanes(load(scores, m * TILE + column) - top)
            mass, pull = mass + e, pull + e * (y - F[t, m])
        store(out, row * TILE + column, pull / mass)


@compiled_leaf
def explicit_residuals(
    tables: ExplicitTables, work: ExplicitWork, _member: int, start: int, stop: int, out: Floats
) -> None:
    """out[t - start, i] = y_t - (prediction of candidate i of the tile) at observations start to stop."""
    y, F, k = tables.y, tables.F, tables.shape[1]
    for t in range(start, stop):
        _scores(tables.features, work.theta, t, work.scores)
        if k < F.shape[1]:
            _keep_best(work.scores, k, work.rank, work.active)
            _mix(work.active, F, y[t], t, t - start, out)
        else:
            _mix(work.scores, F, y[t], t, t - start, out)
