"""Residuals of many softmax gates at once, and the gradients of sums over them.

Lanes of a tile are candidates; observations are taken in fours, so that a number once loaded serves four products.
Every lane runs through the same instructions in the same order: a candidate's results do not
depend on where it stands, nor on how the candidates are cut among threads.
"""

from typing import NamedTuple

import numpy as np

from gatewise.arrays import Floats
from gatewise.kernels.compiled import compiled, compiled_leaf
from gatewise.kernels.loss_kinds import ABSOLUTE, GIVEN, SQUARE
from gatewise.kernels.simd.elementary import exp_fine
from gatewise.kernels.simd.lanes import choose, fill, Lanes, larger, load, store, WIDTH
from gatewise.kernels.simd.tile import aligned_rows

LANES = 32
LOSSES = {"square": SQUARE, "absolute": ABSOLUTE}
NO_SLOPES = np.zeros((1, 1))


class Fours(NamedTuple):
    """Observations filled up with zeros to a multiple of four: features (n4, p), miss (n4, M) = y - F."""

    features: Floats
    miss: Floats


class Work(NamedTuple):
    """One tile: theta, grad (M-1, p, LANES); scores, pull (4, M, LANES); rows (4, LANES); value (LANES,)."""

    theta: Floats
    grad: Floats
    scores: Floats
    pull: Floats
    rank: Floats
    scale: Floats
    residual: Floats
    slope: Floats
    value: Floats


@compiled
def as_fours(features: Floats, y: Floats, F: Floats) -> Fours:
    n, p = features.shape
    out = Fours(np.zeros((n + -n % 4, p)), np.zeros((n + -n % 4, F.shape[1])))
    for t in range(n):
        for j in range(p):
            out.features[t, j] = features[t, j]
        for m in range(F.shape[1]):
            out.miss[t, m] = y[t] - F[t, m]
    return out


@compiled
def lanes_work(n_free: int, p: int) -> Work:
    return Work(
        _zeros(n_free, p),
        _zeros(n_free, p),
        _zeros(4, n_free + 1),
        _zeros(4, n_free + 1),
        _zeros(1, 4)[0],
        _zeros(1, 4)[0],
        _zeros(1, 4)[0],
        _zeros(1, 4)[0],
        _zeros(1, 1)[0, 0],
    )


@compiled
def _zeros(n_rows: int, n_columns: int) -> Floats:
    room = aligned_rows(n_rows * n_columns, LANES)
    room[:] = 0.0
    return room.reshape(n_rows, n_columns, LANES)


@compiled
def load_lanes(theta: Floats, first: int, count: int, out: Floats) -> None:
    """out[m, j, i] = theta[first + i, m, j]; lanes beyond the last candidate keep finite values and are not read."""
    for m in range(theta.shape[1]):
        for j in range(theta.shape[2]):
            for i in range(count):
                out[m, j, i] = theta[first + i, m, j]


@compiled_leaf
def scores_of_four(theta: Floats, x: Floats, t: int, scores: Floats) -> None:
    """scores[r, m] = sum_j x[t + r, j] theta[m, j] for four observations r; 0 for the reference."""
    n_free, p = theta.shape[0], theta.shape[1]
    stride = (n_free + 1) * LANES
    for m in range(n_free):
        for column in range(0, LANES, 2 * WIDTH):
            a, b, c, d = fill(0.0), fill(0.0), fill(0.0), fill(0.0)
            e, f, g, h = fill(0.0), fill(0.0), fill(0.0), fill(0.0)
            for j in range(p):
                u = load(theta, (m * p + j) * LANES + column)
                v = load(theta, (m * p + j) * LANES + column + WIDTH)
                x0, x1, x2, x3 = x[t, j], x[t + 1, j], x[t + 2, j], x[t + 3, j]
                a, b, c, d = a + u * x0, b + u * x1, c + u * x2, d + u * x3
                e, f, g, h = e + v * x0, f + v * x1, g + v * x2, h + v * x3
            at = m * LANES + column
            _store_four(scores, at, stride, a, b, c, d)
            _store_four(scores, at + WIDTH, stride, e, f, g, h)
    for column in range(0, LANES, WIDTH):
        _store_four(scores, n_free * LANES + column, stride, fill(0.0), fill(0.0), fill(0.0), fill(0.0))


@compiled_leaf
def _store_four(array: Floats, at: int, stride: int, a: Lanes, b: Lanes, c: Lanes, d: Lanes) -> None:
    store(array, at, a)
    store(array, at + stride, b)
    store(array, at + 2 * stride, c)
    store(array, at + 3 * stride, d)


@compiled
def _keep_best(scores: Floats, k: int, rank: Floats, kept: Floats) -> None:
    """Set all scores but the k largest to -inf: fewer than k come before a kept one, ties to the smaller index."""
    n_experts = scores.shape[1]
    for r in range(4):
        for m in range(n_experts):
            for i in range(LANES):
                rank[r, i] = 0.0
            for j in range(m):
                for i in range(LANES):
                    rank[r, i] += 1.0 if scores[r, j, i] >= scores[r, m, i] else 0.0
            for j in range(m + 1, n_experts):
                for i in range(LANES):
                    rank[r, i] += 1.0 if scores[r, j, i] > scores[r, m, i] else 0.0
            for i in range(LANES):
                kept[r, m, i] = scores[r, m, i] if rank[r, i] < k else -np.inf
        for m in range(n_experts):
            for i in range(LANES):
                scores[r, m, i] = kept[r, m, i]


@compiled_leaf
def _residual(miss: Floats, t: int, scores: Floats, scale: Floats, residual: Floats) -> None:
    """residual = sum_m g_m miss_m; scores become exp(score - top), and scale one over their sum."""
    n_experts = scores.shape[1]
    for r in range(4):
        for column in range(0, LANES, WIDTH):
            first = r * n_experts * LANES + column
            top = load(scores, first)
            for m in range(1, n_experts):
                top = larger(load(scores, first + m * LANES), top)
            mass, pull = fill(0.0), fill(0.0)
            for m in range(n_experts):
                e = exp_fine(load(scores, first + m * LANES) - top)
                store(scores, first + m * LANES, e)
                mass, pull = mass + e, pull + e * miss[t + r, m]
            inverse = 1.0 / mass
            store(scale, r * LANES + column, inverse)
            store(residual, r * LANES + column, pull * inverse)


@compiled_leaf
def losses(loss: int, residual: Floats, value: Floats, slope: Floats) -> None:
    """Add rho(r) to value and put rho'(r) into slope, rho(r) = r^2 or |r|."""
    for r in range(4):
        for column in range(0, LANES, WIDTH):
            x, total = load(residual, r * LANES + column), load(value, column)
            if loss == SQUARE:
                store(value, column, total + x * x)
                store(slope, r * LANES + column, x + x)
            else:
                store(value, column, total + larger(x, 0.0 - x))
                sign = choose(x, 0.0, fill(1.0), choose(0.0 - x, 0.0, fill(-1.0), 0.0))
                store(slope, r * LANES + column, sign)


@compiled
def given_slopes(slopes: Floats, first: int, t: int, slope: Floats) -> None:
    """slope[r, i] = slopes[first + i, t + r]; 0 beyond the last observation."""
    for r in range(4):
        for i in range(min(LANES, slopes.shape[0] - first)):
            slope[r, i] = slopes[first + i, t + r] if t + r < slopes.shape[1] else 0.0


@compiled_leaf
def _pull(miss: Floats, t: int, scores: Floats, scale: Floats, residual: Floats, slope: Floats, pull: Floats) -> None:
    """pull[r, m] = rho'(r) dr/ds_m = slope g_m (miss_m - r)."""
    n_experts = scores.shape[1]
    for r in range(4):
        for column in range(0, LANES, WIDTH):
            row = r * LANES + column
            factor, x = load(slope, row) * load(scale, row), load(residual, row)
            for m in range(n_experts - 1):
                at = (r * n_experts + m) * LANES + column
                store(pull, at, factor * load(scores, at) * (miss[t + r, m] - x))


@compiled_leaf
def add_outer(x: Floats, t: int, pull: Floats, grad: Floats) -> None:
    """grad[m, j] += sum_r pull[r, m] x[t + r, j] over four observations r."""
    p, stride = grad.shape[1], pull.shape[1] * LANES
    for m in range(grad.shape[0]):
        for column in range(0, LANES, 2 * WIDTH):
            at = m * LANES + column
            a, b, c, d = _load_four(pull, at, stride)
            e, f, g, h = _load_four(pull, at + WIDTH, stride)
            for j in range(p):
                here = (m * p + j) * LANES + column
                x0, x1, x2, x3 = x[t, j], x[t + 1, j], x[t + 2, j], x[t + 3, j]
                u, v = load(grad, here), load(grad, here + WIDTH)
                store(grad, here, (((u + a * x0) + b * x1) + c * x2) + d * x3)
                store(grad, here + WIDTH, (((v + e * x0) + f * x1) + g * x2) + h * x3)


@compiled_leaf
def _load_four(array: Floats, at: int, stride: int) -> tuple[Lanes, Lanes, Lanes, Lanes]:
    return load(array, at), load(array, at + stride), load(array, at + 2 * stride), load(array, at + 3 * stride)


@compiled
def softmax_residuals(theta: Floats, features: Floats, y: Floats, F: Floats, k: int, out: Floats) -> None:
    """out[s, i] = y_i - sum_m g_m(x_i; theta_s) F_im for the Top-k softmax gate.

    theta (S, M-1, p), features (n, p), y (n,), F (n, M), out (S, n).
    """
    rows = as_fours(features, y, F)
    work = lanes_work(theta.shape[1], theta.shape[2])
    for first in range(0, theta.shape[0], LANES):
        count = min(LANES, theta.shape[0] - first)
        load_lanes(theta, first, count, work.theta)
        for t in range(0, y.size, 4):
            scores_of_four(work.theta, rows.features, t, work.scores)
            if k < F.shape[1]:
                _keep_best(work.scores, k, work.rank, work.pull)
            _residual(rows.miss, t, work.scores, work.scale, work.residual)
            for i in range(count):
                for r in range(min(4, y.size - t)):
                    out[first + i, t + r] = work.residual[r, i]


@compiled
def softmax_value_and_grad(
    theta: Floats,
    features: Floats,
    y: Floats,
    F: Floats,
    loss: int,
    slopes: Floats,
    value: Floats,
    grad: Floats,
) -> None:
    """value[s] = sum_i rho(r_si) and its gradient in theta_s, for the residuals r of dense softmax gates.

    theta (S, M-1, p), features (n, p), y (n,), F (n, M), value (S,), grad (S, M-1, p). ``loss`` is SQUARE or
    ABSOLUTE; with GIVEN the rho'(r_si) are taken from ``slopes`` (S, n) and value is 0.
    """
    rows = as_fours(features, y, F)
    work = lanes_work(theta.shape[1], theta.shape[2])
    for first in range(0, theta.shape[0], LANES):
        count = min(LANES, theta.shape[0] - first)
        load_lanes(theta, first, count, work.theta)
        work.value[:] = 0.0
        work.grad[:] = 0.0
        for t in range(0, y.size, 4):
            scores_of_four(work.theta, rows.features, t, work.scores)
            _residual(rows.miss, t, work.scores, work.scale, work.residual)
            if loss == GIVEN:
                given_slopes(slopes, first, t, work.slope)
            else:
                losses(loss, work.residual, work.value, work.slope)
            _pull(rows.miss, t, work.scores, work.scale, work.residual, work.slope, work.pull)
            add_outer(rows.features, t, work.pull, work.grad)
        for i in range(count):
            value[first + i] = work.value[i]
            for m in range(theta.shape[1]):
                for j in range(theta.shape[2]):
                    grad[first + i, m, j] = work.grad[m, j, i]


def value_and_grad(
    theta: Floats, features: Floats, y: Floats, F: Floats, loss: str = "square"
) -> tuple[Floats, Floats]:
    """Sums of losses of the residuals of dense softmax gates, (S,), and their gradients, (S, M-1, p).

    sum_i rho(y_i - sum_m g_m(x_i; theta_s) F_im) with rho(r) = r^2 for ``"square"`` and |r| for ``"absolute"``.
    theta (S, M-1, p), features (n, p), y (n,), F (n, M), all contiguous float64.

    >>> value, grad = value_and_grad(np.zeros((1, 1, 1)), np.ones((1, 1)), np.ones(1), np.array([[0.0, 4.0]]))
    >>> value, grad.ravel()  # prediction 2, residual -1, d residual / d theta = 1
    (array([1.]), array([-2.]))
    """
    value, grad = np.empty(len(theta)), np.empty(theta.shape)
    softmax_value_and_grad(theta, features, y, F, LOSSES[loss], NO_SLOPES, value, grad)
    return value, grad
