"""Residuals of predictors that are linear in their parameters, and the gradients of sums of losses of them."""

import numpy as np

from gatewise.arrays import Floats
from gatewise.kernels.compiled import compiled, inner
from gatewise.kernels.gradient import (
    add_losses,
    add_outer,
    given_slopes,
    load_strip_theta,
    pad_rows,
    scores_of_four,
    strip_work,
)
from gatewise.kernels.loss_kinds import GIVEN
from gatewise.kernels.simd.tile import STRIP


@compiled
def linear_value_and_grad(
    theta: Floats, design: Floats, y: Floats, loss: int, slopes: Floats, value: Floats, grad: Floats
) -> None:
    """value[s] = sum_i rho(r_si) and grad[s], its gradient in theta_s, for the residuals r_s = y - design theta_s.

    theta (S, 1, q), design (n, q), y (n,), value (S,), grad (S, 1, q), all contiguous; ``loss`` and ``slopes`` as in
    `softmax_value_and_grad`.
    """
    rows = pad_rows(design, y, np.zeros((y.size, 1)))
    work = strip_work(1, theta.shape[2])
    for first in range(0, theta.shape[0], STRIP):
        count = min(STRIP, theta.shape[0] - first)
        load_strip_theta(theta, first, count, work.theta)
        work.value[:] = 0.0
        work.grad[:] = 0.0
        for t in range(0, y.size, 4):
            _residual(work.theta, rows.features, rows.miss, t, work.scores, work.residual)
            if loss == GIVEN:
                given_slopes(slopes, first, t, work.slope)
            else:
                add_losses(loss, work.residual, work.value, work.slope)
            for r in range(4):
                for i in range(STRIP):
                    work.score_slopes[r, 0, i] = -work.slope[r, i]
            add_outer(rows.features, t, work.score_slopes, work.grad)
        for i in range(count):
            value[first + i] = work.value[i]
            for j in range(theta.shape[2]):
                grad[first + i, 0, j] = work.grad[0, j, i]


@compiled
def linear_residuals(theta: Floats, design: Floats, y: Floats, out: Floats) -> None:
    """out[s, i] = y_i - design_i . theta_s; theta (S, 1, q), design (n, q), y (n,), out (S, n)."""
    rows = pad_rows(design, y, np.zeros((y.size, 1)))
    work = strip_work(1, theta.shape[2])
    for first in range(0, theta.shape[0], STRIP):
        count = min(STRIP, theta.shape[0] - first)
        load_strip_theta(theta, first, count, work.theta)
        for t in range(0, y.size, 4):
            _residual(work.theta, rows.features, rows.miss, t, work.scores, work.residual)
            for i in range(count):
                for r in range(min(4, y.size - t)):
                    out[first + i, t + r] = work.residual[r, i]


@inner
def _residual(theta: Floats, design: Floats, y: Floats, t: int, scores: Floats, residual: Floats) -> None:
    """residual[r] = y[t + r] - design[t + r] . theta for four observations r; scores is room for the products."""
    scores_of_four(theta, design, t, scores)
    for r in range(4):
        for i in range(STRIP):
            residual[r, i] = y[t + r, 0] - scores[r, 0, i]
