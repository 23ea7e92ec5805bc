"""Residuals of many softmax gates at once, and the gradients of sums over them.

Lanes of a tile are candidates; observations and features are taken in fours, so that a number once loaded serves
sixteen products. Every lane runs through the same instructions in the same order: a candidate's results do not
depend on where it stands, nor on how the candidates are cut among threads.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gatewise.kernels.compiled import compiled, compiled_fma
from gatewise.kernels.exponential import exp_nonpositive

Floats = NDArray[np.float64]
LANES = 64
SQUARE, ABSOLUTE, GIVEN = 0, 1, 2
LOSSES = {"square": SQUARE, "absolute": ABSOLUTE}
NO_SLOPES = np.zeros((1, 1))


class Fours(NamedTuple):
    """Observations filled up with zeros to multiples of four: features (n4, p4), miss (n4, M) = y - F."""

    features: Floats
    miss: Floats


class Work(NamedTuple):
    """One tile: theta, grad (M-1, p4, LANES); scores, pull (4, M, LANES); rows (4, LANES); value (LANES,)."""

    theta: Floats
    grad: Floats
    scores: Floats
    pull: Floats
    top: Floats
    scale: Floats
    residual: Floats
    slope: Floats
    value: Floats


@compiled
def as_fours(features: Floats, y: Floats, F: Floats) -> Fours:
    n, p = features.shape
    out = Fours(np.zeros((n + -n % 4, p + -p % 4)), np.zeros((n + -n % 4, F.shape[1])))
    for t in range(n):
        for j in range(p):
            out.features[t, j] = features[t, j]
        for m in range(F.shape[1]):
            out.miss[t, m] = y[t] - F[t, m]
    return out


@compiled
def lanes_work(n_free: int, p: int) -> Work:
    p4 = p + -p % 4
    return Work(
        np.zeros((n_free, p4, LANES)),
        np.zeros((n_free, p4, LANES)),
        np.zeros((4, n_free + 1, LANES)),
        np.zeros((4, n_free + 1, LANES)),
        np.zeros((4, LANES)),
        np.zeros((4, LANES)),
        np.zeros((4, LANES)),
        np.zeros((4, LANES)),
        np.zeros(LANES),
    )


@compiled
def load_lanes(theta: Floats, first: int, count: int, out: Floats) -> None:
    """out[m, j, i] = theta[first + i, m, j]; lanes beyond the last candidate keep finite values and are not read."""
    for m in range(theta.shape[1]):
        for j in range(theta.shape[2]):
            for i in range(count):
                out[m, j, i] = theta[first + i, m, j]


@compiled_fma
def scores_of_four(theta: Floats, x: Floats, t: int, scores: Floats) -> None:
    """scores[r, m] = sum_j x[t + r, j] theta[m, j] for four observations r; 0 for the reference."""
    n_free = theta.shape[0]
    for m in range(n_free):
        for i in range(LANES):
            scores[0, m, i] = 0.0
            scores[1, m, i] = 0.0
            scores[2, m, i] = 0.0
            scores[3, m, i] = 0.0
        for j in range(0, theta.shape[1], 4):
            a0, a1, a2, a3 = x[t, j], x[t, j + 1], x[t, j + 2], x[t, j + 3]
            b0, b1, b2, b3 = x[t + 1, j], x[t + 1, j + 1], x[t + 1, j + 2], x[t + 1, j + 3]
            c0, c1, c2, c3 = x[t + 2, j], x[t + 2, j + 1], x[t + 2, j + 2], x[t + 2, j + 3]
            d0, d1, d2, d3 = x[t + 3, j], x[t + 3, j + 1], x[t + 3, j + 2], x[t + 3, j + 3]
            for i in range(LANES):
                p, q, u, v = theta[m, j, i], theta[m, j + 1, i], theta[m, j + 2, i], theta[m, j + 3, i]
                scores[0, m, i] = (((scores[0, m, i] + a0 * p) + a1 * q) + a2 * u) + a3 * v
                scores[1, m, i] = (((scores[1, m, i] + b0 * p) + b1 * q) + b2 * u) + b3 * v
                scores[2, m, i] = (((scores[2, m, i] + c0 * p) + c1 * q) + c2 * u) + c3 * v
                scores[3, m, i] = (((scores[3, m, i] + d0 * p) + d1 * q) + d2 * u) + d3 * v
    for r in range(4):
        for i in range(LANES):
            scores[r, n_free, i] = 0.0


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


@compiled_fma
def _residual(miss: Floats, t: int, scores: Floats, top: Floats, scale: Floats, residual: Floats) -> None:
    """residual = sum_m g_m miss_m; scores become exp(score - top), and scale one over their sum."""
    n_experts = scores.shape[1]
    for r in range(4):
        for i in range(LANES):
            top[r, i] = scores[r, 0, i]
        for m in range(1, n_experts):
            for i in range(LANES):
                s = scores[r, m, i]
                top[r, i] = s if s > top[r, i] else top[r, i]
        for m in range(n_experts):
            for i in range(LANES):
                scores[r, m, i] = exp_nonpositive(scores[r, m, i] - top[r, i])
        for i in range(LANES):
            scale[r, i] = scores[r, 0, i]
            residual[r, i] = scores[r, 0, i] * miss[t + r, 0]
        for m in range(1, n_experts):
            factor = miss[t + r, m]
            for i in range(LANES):
                scale[r, i] += scores[r, m, i]
                residual[r, i] += scores[r, m, i] * factor
        for i in range(LANES):
            inverse = 1.0 / scale[r, i]
            scale[r, i] = inverse
            residual[r, i] *= inverse


@compiled_fma
def losses(loss: int, residual: Floats, value: Floats, slope: Floats) -> None:
    """Add rho(r) to value and put rho'(r) into slope, rho(r) = r^2 or |r|."""
    for r in range(4):
        if loss == SQUARE:
            for i in range(LANES):
                value[i] += residual[r, i] * residual[r, i]
                slope[r, i] = 2.0 * residual[r, i]
        else:
            for i in range(LANES):
                value[i] += abs(residual[r, i])
                slope[r, i] = 1.0 if residual[r, i] > 0.0 else (-1.0 if residual[r, i] < 0.0 else 0.0)


@compiled
def given_slopes(slopes: Floats, first: int, t: int, slope: Floats) -> None:
    """slope[r, i] = slopes[first + i, t + r]; 0 beyond the last observation."""
    for r in range(4):
        for i in range(min(LANES, slopes.shape[0] - first)):
            slope[r, i] = slopes[first + i, t + r] if t + r < slopes.shape[1] else 0.0


@compiled_fma
def _pull(miss: Floats, t: int, scores: Floats, scale: Floats, residual: Floats, slope: Floats, pull: Floats) -> None:
    """pull[r, m] = rho'(r) dr/ds_m = slope g_m (miss_m - r)."""
    for r in range(4):
        for m in range(scores.shape[1] - 1):
            factor = miss[t + r, m]
            for i in range(LANES):
                pull[r, m, i] = slope[r, i] * scale[r, i] * scores[r, m, i] * (factor - residual[r, i])


@compiled_fma
def add_outer(x: Floats, t: int, pull: Floats, grad: Floats) -> None:
    """grad[m, j] += sum_r pull[r, m] x[t + r, j] over four observations r."""
    for m in range(grad.shape[0]):
        for j in range(0, grad.shape[1], 4):
            a0, a1, a2, a3 = x[t, j], x[t, j + 1], x[t, j + 2], x[t, j + 3]
            b0, b1, b2, b3 = x[t + 1, j], x[t + 1, j + 1], x[t + 1, j + 2], x[t + 1, j + 3]
            c0, c1, c2, c3 = x[t + 2, j], x[t + 2, j + 1], x[t + 2, j + 2], x[t + 2, j + 3]
            d0, d1, d2, d3 = x[t + 3, j], x[t + 3, j + 1], x[t + 3, j + 2], x[t + 3, j + 3]
            for i in range(LANES):
                p, q, u, v = pull[0, m, i], pull[1, m, i], pull[2, m, i], pull[3, m, i]
                grad[m, j, i] = (((grad[m, j, i] + a0 * p) + b0 * q) + c0 * u) + d0 * v
                grad[m, j + 1, i] = (((grad[m, j + 1, i] + a1 * p) + b1 * q) + c1 * u) + d1 * v
                grad[m, j + 2, i] = (((grad[m, j + 2, i] + a2 * p) + b2 * q) + c2 * u) + d2 * v
                grad[m, j + 3, i] = (((grad[m, j + 3, i] + a3 * p) + b3 * q) + c3 * u) + d3 * v


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
                _keep_best(work.scores, k, work.top, work.pull)
            _residual(rows.miss, t, work.scores, work.top, work.scale, work.residual)
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
            _residual(rows.miss, t, work.scores, work.top, work.scale, work.residual)
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
