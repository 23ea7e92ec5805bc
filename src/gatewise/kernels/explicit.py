"""Candidates given one by one: parameters theta (S, M-1, p) and features (n, p), scores linear in the features.

Lanes of a tile are candidates. Scores are summed from the first feature to the last in every lane, so equal
parameters give equal scores to the bit, as in `gating`; one exponential per expert.
"""

from typing import NamedTuple

import numpy as np

from gatewise.kernels.compiled import compiled, compiled_leaf
from gatewise.kernels.exponential import exp_quick
from gatewise.kernels.tile import Floats, Integers, TILE


class ExplicitTables(NamedTuple):
    """theta (S, M-1, p), features (n, p), y (n,), F (n, M), shape (2,): M, K."""

    theta: Floats
    features: Floats
    y: Floats
    F: Floats
    shape: Integers


class ExplicitWork(NamedTuple):
    """One tile: its parameters (M-1, p, TILE), scores (M, TILE), and rows (TILE,)."""

    theta: Floats
    scores: Floats
    top: Floats
    mass: Floats
    rank: Floats
    active: Floats


@compiled
def explicit_work(tables: ExplicitTables) -> ExplicitWork:
    _, n_free, p = tables.theta.shape
    return ExplicitWork(
        np.zeros((n_free, p, TILE)),
        np.empty((n_free + 1, TILE)),
        np.empty(TILE),
        np.empty(TILE),
        np.empty(TILE),
        np.empty((n_free + 1, TILE)),
    )


@compiled
def explicit_locate(tables: ExplicitTables, unit: int) -> tuple[int, int]:
    """First candidate and number of candidates of a unit: a unit is a tile."""
    return unit * TILE, min(TILE, tables.theta.shape[0] - unit * TILE)


@compiled
def explicit_prepare(tables: ExplicitTables, work: ExplicitWork, unit: int) -> None:
    """Transpose the tile's parameters; lanes beyond the last candidate keep finite values and are not read."""
    first, count = explicit_locate(tables, unit)
    _, n_free, p = tables.theta.shape
    for i in range(count):
        for m in range(n_free):
            for j in range(p):
                work.theta[m, j, i] = tables.theta[first + i, m, j]


@compiled_leaf
def _scores(features: Floats, theta: Floats, t: int, scores: Floats) -> None:
    """scores[m] = sum_j features[t, j] theta[m, j], four features at a time to spare loads; 0 for the reference."""
    n_free, p = theta.shape[0], theta.shape[1]
    full = p - p % 4
    for m in range(n_free):
        for i in range(TILE):
            scores[m, i] = 0.0
        for j in range(0, full, 4):
            a, b, c, d = features[t, j], features[t, j + 1], features[t, j + 2], features[t, j + 3]
            for i in range(TILE):
                s = scores[m, i] + a * theta[m, j, i]
                s = s + b * theta[m, j + 1, i]
                s = s + c * theta[m, j + 2, i]
                scores[m, i] = s + d * theta[m, j + 3, i]
        for j in range(full, p):
            a = features[t, j]
            for i in range(TILE):
                scores[m, i] += a * theta[m, j, i]
    for i in range(TILE):
        scores[n_free, i] = 0.0


@compiled_leaf
def _keep_best(scores: Floats, k: int, rank: Floats, active: Floats) -> None:
    """active = scores of the k best experts, -inf for the others; ties to the smaller index.

    An expert is active when fewer than k experts come before it: larger score, or equal score and smaller index.
    """
    n_experts = scores.shape[0]
    for m in range(n_experts):
        for i in range(TILE):
            rank[i] = 0.0
        for j in range(m):
            for i in range(TILE):
                rank[i] += 1.0 if scores[j, i] >= scores[m, i] else 0.0
        for j in range(m + 1, n_experts):
            for i in range(TILE):
                rank[i] += 1.0 if scores[j, i] > scores[m, i] else 0.0
        for i in range(TILE):
            active[m, i] = scores[m, i] if rank[i] < k else -np.inf


@compiled_leaf
def _mix(scores: Floats, F: Floats, y: float, t: int, top: Floats, mass: Floats, row: int, out: Floats) -> None:
    """out[row] = sum_m e_m (y - F[t, m]) / sum_m e_m with e_m = exp(scores[m] - their maximum)."""
    n_experts = scores.shape[0]
    for i in range(TILE):
        top[i] = scores[0, i]
        mass[i] = 0.0
        out[row, i] = 0.0
    for m in range(1, n_experts):
        for i in range(TILE):
            top[i] = scores[m, i] if scores[m, i] > top[i] else top[i]
    for m in range(n_experts):
        miss = y - F[t, m]
        for i in range(TILE):
            e = exp_quick(scores[m, i] - top[i])
            mass[i] += e
            out[row, i] += e * miss
    for i in range(TILE):
        out[row, i] /= mass[i]


@compiled_leaf
def explicit_residuals(tables: ExplicitTables, work: ExplicitWork, start: int, stop: int, out: Floats) -> None:
    """out[t - start, i] = y_t - (prediction of candidate i of the tile) at observations start to stop."""
    features, y, F, k = tables.features, tables.y, tables.F, tables.shape[1]
    theta, scores, active, rank = work.theta, work.scores, work.active, work.rank
    top, mass = work.top, work.mass
    for t in range(start, stop):
        _scores(features, theta, t, scores)
        if k < scores.shape[0]:
            _keep_best(scores, k, rank, active)
            _mix(active, F, y[t], t, top, mass, t - start, out)
        else:
            _mix(scores, F, y[t], t, top, mass, t - start, out)
