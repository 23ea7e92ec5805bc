"""Least squares and log loss over the parameters of a dense softmax gate in a box, by descent from many starts.

The problem is not convex. That many starts end in the same optimum is the best evidence that it is the minimum.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from gatewise.arrays import Floats, Indices
from gatewise.backends import thread_pools
from gatewise.kernels import linear_softmax
from gatewise.progress import each

SAME = 1e-6  # optima whose errors differ by less, relative to the responses' variation, count as one


class LeastSquares(NamedTuple):
    """theta (M-1, p) with the smallest mean squared error found, and the local optima that all starts led to.

    ``optima`` (L, M-1, p) are the distinct local optima, best first, with errors ``mses`` (L,) and the number of
    starts that ended in each, ``hits`` (L,); ``gap`` is the second error minus the first, infinite when there is
    only one optimum. Two optima count as distinct if their errors differ: different parameters may give the same
    gate.
    """

    theta: Floats
    mse: float
    optima: Floats
    mses: Floats
    hits: Indices
    gap: float
    n_starts: int


class LeastLogLoss(NamedTuple):
    """theta (M-1, p) with the smallest mean log loss found, and the local optima; else as in `LeastSquares`."""

    theta: Floats
    log_loss: float
    optima: Floats
    log_losses: Floats
    hits: Indices
    gap: float
    n_starts: int


def descend_from(starts: Floats, features: Floats, y: Floats, F: Floats, radius: float) -> LeastSquares:
    """The local minima of the mean squared error in [-radius, radius]^D that starts (L, M-1, p) lead to.

    features (n, p), y (n,), F (n, M); the error of theta is n^-1 sum_i (y_i - sum_m g_m(features_i; theta) F_im)^2.
    """
    unit = _unit(y, F)
    with thread_pools().limit(limits=1, user_api="blas"):  # of tiny matrices: more threads only wait for each other
        found = [descend(start, features, y / unit, F / unit, radius) for start in each(starts, len(starts))]
    mses = np.square(unit) * np.array([mse for _, mse in found])
    return LeastSquares(*_summary(np.array([theta for theta, _ in found]), mses, float(y.var())))


def descend_log_loss(starts: Floats, features: Floats, F: Floats, radius: float) -> LeastLogLoss:
    """The local minima of the mean log loss in [-radius, radius]^D that starts (L, M-1, p) lead to.

    features (n, p), F (n, M), all positive; the loss of theta is -n^-1 sum_i log(sum_m g_m(features_i; theta) F_im).
    """

    def objective(theta: Floats) -> tuple[float, Floats]:
        return log_loss_and_grad(theta, features, F)

    with thread_pools().limit(limits=1, user_api="blas"):
        found = [_descend(start, objective, radius) for start in each(starts, len(starts))]
    losses = np.array([loss for _, loss in found])
    return LeastLogLoss(*_summary(np.array([theta for theta, _ in found]), losses, 1.0))


def _unit(y: Floats, F: Floats) -> float:
    """A power of two near the size of the residuals of the mean expert: the search stops by absolute tolerances."""
    size = float(np.sqrt(np.mean((y - F.mean(axis=1)) ** 2) + np.mean((F - F.mean(axis=1, keepdims=True)) ** 2)))
    return float(2.0 ** np.round(np.log2(size))) if 0.0 < size < np.inf else 1.0


def mse_and_grad(theta: Floats, features: Floats, y: Floats, F: Floats) -> tuple[float, Floats]:
    """The mean squared error of one dense softmax gate and its gradient, (M-1, p).

    d/ds_m of (y - f)^2 is -2 (y - f) g_m (F_m - f). For one candidate at many rows; for many candidates see
    `kernels.gradient`, whose vectors run over candidates.
    """
    weights = np.empty((1, *F.shape))
    linear_softmax(features, theta[None], F.shape[1], weights)
    forecast = (weights[0] * F).sum(axis=1)
    residual = y - forecast
    slopes = residual[:, None] * weights[0] * (F - forecast[:, None])  # (n, M)
    return float(np.mean(residual**2)), (-2.0 / y.size) * (slopes[:, :-1].T @ features)


def log_loss_and_grad(theta: Floats, features: Floats, F: Floats) -> tuple[float, Floats]:
    """The mean log loss of one dense softmax gate and its gradient, (M-1, p).

    d/ds_m of -log z is -g_m (F_m - z) / z.
    """
    weights = np.empty((1, *F.shape))
    linear_softmax(features, theta[None], F.shape[1], weights)
    z = (weights[0] * F).sum(axis=1)
    slopes = weights[0] * (F / z[:, None] - 1.0)  # (n, M)
    return -float(np.mean(np.log(z))), (-1.0 / len(F)) * (slopes[:, :-1].T @ features)


def descend(start: Floats, features: Floats, y: Floats, F: Floats, radius: float) -> tuple[Floats, float]:
    """The local minimum that L-BFGS-B reaches from ``start`` (M-1, p), and its mean squared error."""

    return _descend(start, lambda theta: mse_and_grad(theta, features, y, F), radius)


def _descend(
    start: Floats, objective: Callable[[Floats], tuple[float, Floats]], radius: float
) -> tuple[Floats, float]:
    """The local minimum of theta -> (value, gradient) that L-BFGS-B reaches from a start, and its value."""

    def flattened(flat: Floats) -> tuple[float, Floats]:
        value, grad = objective(flat.reshape(start.shape))
        return value, grad.ravel()

    result = minimize(
        flattened,
        start.ravel(),
        jac=True,
        method="L-BFGS-B",
        bounds=[(-radius, radius)] * start.size,
        options={"maxiter": 2000, "maxfun": 20_000, "ftol": 1e-13, "gtol": 1e-9},
    )
    return np.asarray(result.x).reshape(start.shape), float(result.fun)


def _summary(
    thetas: Floats, losses: Floats, variation: float
) -> tuple[Floats, float, Floats, Floats, Indices, float, int]:
    """The fields of `LeastSquares` for L searches that ended in thetas (L, M-1, p) with these losses (L,).

    ``variation`` is the size of a loss that the differences of two optima are compared with, as the variance of y.
    """
    if not np.isfinite(losses).all():
        raise ValueError("the loss is not finite: rescale X, y or the experts' predictions")
    order = np.argsort(losses, kind="stable")
    thetas, losses = thetas[order], losses[order]
    new = np.append(True, np.diff(losses) > SAME * (variation + losses[0]))
    first = np.flatnonzero(new)
    hits = np.diff(np.append(first, losses.size))
    gap = float(losses[first[1]] - losses[0]) if first.size > 1 else np.inf
    return thetas[0], float(losses[0]), thetas[first], losses[first], hits, gap, losses.size
