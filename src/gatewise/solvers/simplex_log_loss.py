"""The log loss over a kernel gate's parameters: a convex problem, solved with a certificate.

The mixture is z = design . theta, and the expansion of -log z about z_0 to second order is (z / z_0 - 2)^2 / 2 and a
constant: a Newton step is least squares over the same simplices, with rows divided by z_0 and the response 2.
"""

import warnings
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from gatewise.arrays import Floats
from gatewise.solvers.simplex_least_squares import simplex_least_squares

TOLERANCE, MAX_ITER = 1e-9, 100
DECREASE = 1e-4  # of what the slope promises, that a step has to reach
SHORTEST = 2.0**-30


class SimplexLogLoss(NamedTuple):
    """A minimiser with its certificate: log_loss - gap <= the minimum <= log_loss, the mean over the rows."""

    theta: Floats  # (M, C)
    log_loss: float
    gap: float
    converged: bool
    n_iter: int


def simplex_log_loss(features: Floats, F: Floats, tol: float = TOLERANCE, max_iter: int = MAX_ITER) -> SimplexLogLoss:
    """argmin over theta (M, C), a simplex vector per centre, of the mean of -log sum_{m,c} theta_mc features_ic F_im.

    features (n, C) are those of a `KernelGate`, F (n, M), all positive, the probabilities that the experts gave to
    what was observed. ``gap`` is the Frank-Wolfe duality gap; above ``tol`` it is a `ConvergenceWarning`.

    >>> fit = simplex_log_loss(np.ones((4, 1)), np.array([[0.9, 0.5], [0.9, 0.5], [0.9, 0.5], [0.1, 0.5]]))
    >>> fit.theta.ravel().round(3), fit.converged  # 3 / (0.5 + 0.4 t) = 1 / (0.5 - 0.4 t)
    (array([0.625, 0.375]), True)
    """
    theta = np.full((F.shape[1], features.shape[1]), 1.0 / F.shape[1])
    n_iter, gap = 0, np.inf
    while True:
        z = _mixture(features, F, theta)
        loss, gradient = -float(np.mean(np.log(z))), -((F / z[:, None]).T @ features) / len(F)  # (M, C)
        gap = float((theta * gradient).sum() - gradient.min(axis=0).sum())
        if gap <= tol or n_iter == max_iter:
            break
        with warnings.catch_warnings():  # the gap above tells whether the steps were good enough
            warnings.simplefilter("ignore", ConvergenceWarning)
            step = simplex_least_squares(features, F / z[:, None], np.full(len(F), 2.0)).theta - theta
        length = _length(features, F, theta, step, loss, float((gradient * step).sum()))
        if length == 0.0:
            break
        theta, n_iter = theta + length * step, n_iter + 1
    if gap > tol:
        warnings.warn(f"the log loss is within {gap:.2g} of its minimum, and not {tol:g}", ConvergenceWarning, 2)
    return SimplexLogLoss(theta, loss, gap, gap <= tol, n_iter)


def _mixture(features: Floats, F: Floats, theta: Floats) -> Floats:
    return np.asarray(np.einsum("im,im->i", features @ theta.T, F))


def _length(features: Floats, F: Floats, theta: Floats, step: Floats, loss: float, slope: float) -> float:
    """The first of 1, 1/2, 1/4, ... with which the step lowers the loss by enough; 0 if none does."""
    length = 1.0
    while slope < 0.0 and length > SHORTEST:
        z = _mixture(features, F, theta + length * step)
        if -float(np.mean(np.log(z))) <= loss + DECREASE * length * slope:
            return length
        length *= 0.5
    return 0.0
