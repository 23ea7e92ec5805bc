"""Residuals of many softmax gates at once, and the gradients of sums of losses of them.

Candidates are taken a strip of 32 at a time, side by side. Observations are taken four at a time, so that a parameter
that was loaded once serves four products. Every candidate runs through the same instructions in the same order, so
its results depend neither on its place nor on how the candidates are divided among threads.
"""

from typing import NamedTuple

import numpy as np

from gatewise.arrays import Floats
from gatewise.kernels.compiled import compiled, inner, leaf
from gatewise.kernels.loss_kinds import GIVEN, LEAST, OUTCOME, SQUARE
from gatewise.kernels.simd.elementary import exp_fine, log_lanes
from gatewise.kernels.simd.lanes import choose, fill, Lanes, larger, load, store, WIDTH
from gatewise.kernels.simd.tile import aligned_rows, STRIP
from gatewise.kernels.top_k import keep_best

NO_SLOPES = np.zeros((1, 1))  # in the place of slopes when the loss is not GIVEN


class PaddedRows(NamedTuple):
    """Observations, with rows of zeros at the end that make their number a multiple of four.

    features (rows, p); miss (rows, M): y - F, the error of every expert.
    """

    features: Floats
    miss: Floats


class StripWork(NamedTuple):
    """Work space for a strip of candidates and four observations.

    theta, grad (M-1, p, STRIP): parameters and gradient; scores, score_slopes (4, M, STRIP): the scores and the
    derivatives of the loss in them; scale, residual, slope (4, STRIP): one over the sum of the exponentials of the
    scores, the residual, and the derivative of the loss in the residual; value (STRIP,): the sum of the losses.
    """

    theta: Floats
    grad: Floats
    scores: Floats
    score_slopes: Floats
    scale: Floats
    residual: Floats
    slope: Floats
    value: Floats


@inner
def pad_rows(features: Floats, y: Floats, F: Floats) -> PaddedRows:
    """Features (n, p) and the errors y - F, (n,) and (n, M), padded to a multiple of four rows."""
    n, p = features.shape
    out = PaddedRows(np.zeros((n + -n % 4, p)), np.zeros((n + -n % 4, F.shape[1])))
    for t in range(n):
        for j in range(p):
            out.features[t, j] = features[t, j]
        for m in range(F.shape[1]):
            out.miss[t, m] = y[t] - F[t, m]
    return out


@inner
def strip_work(n_free: int, p: int) -> StripWork:
    """Work space for n_free + 1 experts and p features, filled with zeros."""
    return StripWork(
        theta=_zeros(n_free, p),
        grad=_zeros(n_free, p),
        scores=_zeros(4, n_free + 1),
        score_slopes=_zeros(4, n_free + 1),
        scale=_zeros(1, 4)[0],
        residual=_zeros(1, 4)[0],
        slope=_zeros(1, 4)[0],
        value=_zeros(1, 1)[0, 0],
    )


@inner
def _zeros(n_rows: int, n_columns: int) -> Floats:
    """Zeros (n_rows, n_columns, STRIP), starting at a cache line."""
    room = aligned_rows(n_rows * n_columns, STRIP)
    room[:] = 0.0
    return room.reshape(n_rows, n_columns, STRIP)


@inner
def load_strip_theta(theta: Floats, first: int, count: int, out: Floats) -> None:
    """out[m, j, i] = theta[first + i, m, j] for i < count; entries with i >= count are not changed and not used."""
    for m in range(theta.shape[1]):
        for j in range(theta.shape[2]):
            for i in range(count):
                out[m, j, i] = theta[first + i, m, j]


@leaf
def scores_of_four(theta: Floats, x: Floats, t: int, scores: Floats) -> None:
    """scores[r, m] = sum_j x[t + r, j] theta[m, j] for four observations r; 0 for the reference."""
    n_free, p = theta.shape[0], theta.shape[1]
    stride = (n_free + 1) * STRIP
    for m in range(n_free):
        for column in range(0, STRIP, 2 * WIDTH):
            a, b, c, d = fill(0.0), fill(0.0), fill(0.0), fill(0.0)
            e, f, g, h = fill(0.0), fill(0.0), fill(0.0), fill(0.0)
            for j in range(p):
                u = load(theta, (m * p + j) * STRIP + column)
                v = load(theta, (m * p + j) * STRIP + column + WIDTH)
                x0, x1, x2, x3 = x[t, j], x[t + 1, j], x[t + 2, j], x[t + 3, j]
                a, b, c, d = a + u * x0, b + u * x1, c + u * x2, d + u * x3
                e, f, g, h = e + v * x0, f + v * x1, g + v * x2, h + v * x3
            at = m * STRIP + column
            _store_four(scores, at, stride, a, b, c, d)
            _store_four(scores, at + WIDTH, stride, e, f, g, h)
    for column in range(0, STRIP, WIDTH):
        _store_four(scores, n_free * STRIP + column, stride, fill(0.0), fill(0.0), fill(0.0), fill(0.0))


@leaf
def _store_four(array: Floats, at: int, stride: int, a: Lanes, b: Lanes, c: Lanes, d: Lanes) -> None:
    """Write eight numbers for each of four observations, whose places are ``stride`` apart."""
    store(array, at, a)
    store(array, at + stride, b)
    store(array, at + 2 * stride, c)
    store(array, at + 3 * stride, d)


@leaf
def _residual(miss: Floats, t: int, scores: Floats, scale: Floats, residual: Floats) -> None:
    """residual[r] = sum_m g_m miss[t + r, m] with g the softmax of the scores, for four observations r.

    The scores become exp(score - largest score), and scale becomes one over their sum.
    """
    n_experts = scores.shape[1]
    for r in range(4):
        for column in range(0, STRIP, WIDTH):
            first = r * n_experts * STRIP + column
            top = load(scores, first)
            for m in range(1, n_experts):
                top = larger(load(scores, first + m * STRIP), top)
            mass, weighted = fill(0.0), fill(0.0)
            for m in range(n_experts):
                e = exp_fine(load(scores, first + m * STRIP) - top)
                store(scores, first + m * STRIP, e)
                mass, weighted = mass + e, weighted + e * miss[t + r, m]
            inverse = 1.0 / mass
            store(scale, r * STRIP + column, inverse)
            store(residual, r * STRIP + column, weighted * inverse)


@leaf
def add_losses(loss: int, residual: Floats, value: Floats, slope: Floats) -> None:
    """Add rho(r) to value and put rho'(r) into slope.

    rho(r) = r^2 if ``loss`` is SQUARE, -log(-r) if it is OUTCOME, and 0 at the r = 0 of padded rows; else |r|.
    """
    for r in range(4):
        for column in range(0, STRIP, WIDTH):
            x, total = load(residual, r * STRIP + column), load(value, column)
            if loss == SQUARE:
                store(value, column, total + x * x)
                store(slope, r * STRIP + column, x + x)
            elif loss == OUTCOME:
                z = 0.0 - x
                store(value, column, total - choose(z, LEAST, log_lanes(z), 0.0))
                store(slope, r * STRIP + column, choose(z, LEAST, 1.0 / z, 0.0))
            else:
                store(value, column, total + larger(x, 0.0 - x))
                sign = choose(x, 0.0, fill(1.0), choose(0.0 - x, 0.0, fill(-1.0), 0.0))
                store(slope, r * STRIP + column, sign)


@inner
def given_slopes(slopes: Floats, first: int, t: int, slope: Floats) -> None:
    """Copy the slopes at four observations: slope[r, i] = slopes[first + i, t + r], and 0 beyond the last one."""
    for r in range(4):
        for i in range(min(STRIP, slopes.shape[0] - first)):
            slope[r, i] = slopes[first + i, t + r] if t + r < slopes.shape[1] else 0.0


@leaf
def _score_slopes(
    miss: Floats, t: int, scores: Floats, scale: Floats, residual: Floats, slope: Floats, out: Floats
) -> None:
    """out[r, m] = rho'(residual) d residual / d score_m = slope g_m (miss_m - residual), after `_residual`."""
    n_experts = scores.shape[1]
    for r in range(4):
        for column in range(0, STRIP, WIDTH):
            row = r * STRIP + column
            factor, x = load(slope, row) * load(scale, row), load(residual, row)
            for m in range(n_experts - 1):
                at = (r * n_experts + m) * STRIP + column
                store(out, at, factor * load(scores, at) * (miss[t + r, m] - x))


@leaf
def add_outer(x: Floats, t: int, score_slopes: Floats, grad: Floats) -> None:
    """grad[m, j] += sum_r score_slopes[r, m] x[t + r, j] over four observations r."""
    p, stride = grad.shape[1], score_slopes.shape[1] * STRIP
    for m in range(grad.shape[0]):
        for column in range(0, STRIP, 2 * WIDTH):
            at = m * STRIP + column
            a, b, c, d = _load_four(score_slopes, at, stride)
            e, f, g, h = _load_four(score_slopes, at + WIDTH, stride)
            for j in range(p):
                here = (m * p + j) * STRIP + column
                x0, x1, x2, x3 = x[t, j], x[t + 1, j], x[t + 2, j], x[t + 3, j]
                u, v = load(grad, here), load(grad, here + WIDTH)
                store(grad, here, (((u + a * x0) + b * x1) + c * x2) + d * x3)
                store(grad, here + WIDTH, (((v + e * x0) + f * x1) + g * x2) + h * x3)


@leaf
def _load_four(array: Floats, at: int, stride: int) -> tuple[Lanes, Lanes, Lanes, Lanes]:
    """Read what `_store_four` writes."""
    return load(array, at), load(array, at + stride), load(array, at + 2 * stride), load(array, at + 3 * stride)


@compiled
def softmax_residuals(theta: Floats, features: Floats, y: Floats, F: Floats, k: int, out: Floats) -> None:
    """out[s, i] = y_i - sum_m g_m(x_i; theta_s) F_im for the Top-k softmax gate.

    theta (S, M-1, p), features (n, p), y (n,), F (n, M), out (S, n).
    """
    rows = pad_rows(features, y, F)
    n_experts = F.shape[1]
    work = strip_work(theta.shape[1], theta.shape[2])
    active = work.score_slopes if k < n_experts else work.scores
    for first in range(0, theta.shape[0], STRIP):
        count = min(STRIP, theta.shape[0] - first)
        load_strip_theta(theta, first, count, work.theta)
        for t in range(0, y.size, 4):
            scores_of_four(work.theta, rows.features, t, work.scores)
            if k < n_experts:
                for r in range(4):
                    keep_best(work.scores, r * n_experts * STRIP, n_experts, STRIP, k, active)
            _residual(rows.miss, t, active, work.scale, work.residual)
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
    """value[s] = sum_i rho(r_si) and grad[s], its gradient in theta_s, for the residuals r of dense softmax gates.

    theta (S, M-1, p), features (n, p), y (n,), F (n, M), value (S,), grad (S, M-1, p), all contiguous. ``loss`` is
    SQUARE, rho(r) = r^2, ABSOLUTE, rho(r) = |r|, or OUTCOME, rho(r) = -log(-r) for r < 0, and ``slopes`` is
    `NO_SLOPES`. With GIVEN the derivatives rho'(r_si) are read from ``slopes`` (S, n), and value is 0.

    >>> from gatewise.kernels.loss_kinds import SQUARE
    >>> theta, features, y, F = np.zeros((1, 1, 1)), np.ones((1, 1)), np.ones(1), np.array([[0.0, 4.0]])
    >>> value, grad = np.empty(1), np.empty((1, 1, 1))
    >>> softmax_value_and_grad(theta, features, y, F, SQUARE, NO_SLOPES, value, grad)
    >>> value, grad.ravel()  # prediction 2, residual -1, d residual / d theta = 1
    (array([1.]), array([-2.]))
    """
    rows = pad_rows(features, y, F)
    work = strip_work(theta.shape[1], theta.shape[2])
    for first in range(0, theta.shape[0], STRIP):
        count = min(STRIP, theta.shape[0] - first)
        load_strip_theta(theta, first, count, work.theta)
        work.value[:] = 0.0
        work.grad[:] = 0.0
        for t in range(0, y.size, 4):
            scores_of_four(work.theta, rows.features, t, work.scores)
            _residual(rows.miss, t, work.scores, work.scale, work.residual)
            if loss == GIVEN:
                given_slopes(slopes, first, t, work.slope)
            else:
                add_losses(loss, work.residual, work.value, work.slope)
            _score_slopes(rows.miss, t, work.scores, work.scale, work.residual, work.slope, work.score_slopes)
            add_outer(rows.features, t, work.score_slopes, work.grad)
        for i in range(count):
            value[first + i] = work.value[i]
            for m in range(theta.shape[1]):
                for j in range(theta.shape[2]):
                    grad[first + i, m, j] = work.grad[m, j, i]
