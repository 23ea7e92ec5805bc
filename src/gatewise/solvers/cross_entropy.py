"""One dense softmax gate fitted to soft labels by cross-entropy: a convex problem, solved with a certificate."""

import warnings
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve
from scipy.special import log_softmax
from sklearn.exceptions import ConvergenceWarning

from gatewise.arrays import Floats

EPS = float(np.finfo(float).eps)
RIDGE = 1e-13  # added to a Hessian with unit diagonal: along a flat direction the step is then zero
ARMIJO = 1e-4
MAX_HALVINGS = 50


class CrossEntropyFit(NamedTuple):
    """A minimiser over the box with its certificate: objective - gap <= the minimum <= objective, in nats."""

    theta: Floats  # (M-1, p)
    objective: float
    gap: float
    converged: bool
    n_iter: int


class _Point(NamedTuple):
    theta: Floats
    value: float
    gradient: Floats
    gap: float


def cross_entropy(theta: Floats, features: Floats, labels: Floats) -> tuple[float, Floats]:
    """The loss -(1/n) sum_i sum_m labels[i,m] log g_m(x_i; theta) of a softmax gate, and its gradient.

    theta (M-1, p), features (n, p), labels (n, M) with rows on the simplex; the gradient is (M-1, p). The
    loss is linear in the labels, so the time-expanded loss of `alg:cross-entropy` is this one at their time
    average.

    >>> value, gradient = cross_entropy(np.zeros((1, 1)), np.ones((1, 1)), np.array([[1.0, 0.0]]))
    >>> round(value, 6), gradient
    (0.693147, array([[-0.5]]))
    """
    log_weights = _log_weights(theta, features)
    n = len(features)
    value = -float(np.vdot(labels, log_weights)) / n
    return value, (np.exp(log_weights[:, :-1]) - labels[:, :-1]).T @ features / n


def box_gap(gradient: Floats, theta: Floats, radius: float) -> float:
    """The Frank-Wolfe gap max_u <gradient, theta - u> over |u_ij| <= radius.

    A convex function at theta exceeds its minimum over the box by at most this.

    >>> box_gap(np.array([[1.0, -2.0]]), np.array([[-3.0, 2.0]]), radius=3.0)
    2.0
    """
    return float(np.sum(gradient * theta + radius * np.abs(gradient)))


def minimise_cross_entropy(
    features: Floats, labels: Floats, radius: float, tol: float, max_iter: int
) -> CrossEntropyFit:
    """The minimiser of `cross_entropy` over the box |theta| <= radius; features (n, p), labels (n, M).

    A gap above ``tol``, and above what rounding allows, is a `ConvergenceWarning` and ``converged=False``.

    >>> labels = np.array([[0.8, 0.2], [0.8, 0.2]])
    >>> minimise_cross_entropy(np.ones((2, 1)), labels, radius=5.0, tol=1e-10, max_iter=50).theta.round(6)
    array([[1.386294]])
    """
    # A smaller gap cannot be told from rounding errors in the gradient, a mean of n terms.
    tol = max(tol, 16 * EPS * radius * (labels.shape[1] - 1) * float(np.abs(features).mean(axis=0).sum()))
    point, n_iter = _minimise(features, labels, radius, tol, max_iter)
    if point.gap > tol:
        warnings.warn(
            f"the cross-entropy fit stopped after {n_iter} steps with a gap of {point.gap:.1e}, above "
            f"{tol:.1e}; standardise X, or take a smaller radius",
            ConvergenceWarning,
            stacklevel=3,
        )
    return CrossEntropyFit(point.theta, point.value, point.gap, point.gap <= tol, n_iter)


def _log_weights(theta: Floats, features: Floats) -> Floats:
    scores = np.zeros((len(features), len(theta) + 1))
    scores[:, :-1] = features @ theta.T
    return np.asarray(log_softmax(scores, axis=1))


def _hessian(theta: Floats, features: Floats) -> Floats:
    """(1/n) sum_i (diag(g_i) - g_i g_i') x (features_i features_i'), ((M-1) p, (M-1) p)."""
    weights = np.exp(_log_weights(theta, features))[:, :-1] / len(features)
    (K, p), n = theta.shape, len(features)
    hessian = np.empty((K, p, K, p))
    for a in range(K):
        for b in range(a, K):
            share = weights[:, a] * ((a == b) - n * weights[:, b])
            hessian[a, :, b] = (features * share[:, None]).T @ features
            hessian[b, :, a] = hessian[a, :, b].T
    return hessian.reshape(K * p, K * p)


def _minimise(features: Floats, labels: Floats, radius: float, tol: float, max_iter: int) -> tuple[_Point, int]:
    """Projected Newton method from theta = 0, with halved steps: the point of least gap, and the number of steps."""

    def at(theta: Floats) -> _Point:
        value, gradient = cross_entropy(theta, features, labels)
        return _Point(theta, value, gradient, box_gap(gradient, theta, radius))

    point = best = at(np.zeros((labels.shape[1] - 1, features.shape[1])))
    for taken in range(max_iter):
        if best.gap <= tol:
            return best, taken
        direction = _newton_direction(point, _hessian(point.theta, features), radius)
        length = min(1.0, 2.0 * radius / max(float(np.abs(direction).max()), radius))
        for _ in range(MAX_HALVINGS):
            trial = at(np.clip(point.theta + length * direction, -radius, radius))
            promised = float(np.vdot(point.gradient, trial.theta - point.theta))
            # Near the minimum the decrease is below the rounding error of the loss; then it only must not rise.
            if trial.value <= point.value + ARMIJO * promised + 4 * EPS * abs(point.value):
                break
            length /= 2
        else:
            return best, taken
        point = trial
        best = min(best, point, key=lambda candidate: candidate.gap)
    return best, max_iter


def _newton_direction(point: _Point, hessian: Floats, radius: float) -> Floats:
    """Newton's step in the free coordinates; 0 in those at a bound where the loss falls towards the outside."""
    pressed = (np.abs(point.theta) >= radius) & (point.gradient * point.theta < 0)
    free = np.flatnonzero(~pressed)
    matrix = hessian[np.ix_(free, free)]
    scale = np.sqrt(np.where(matrix.diagonal() > 0, matrix.diagonal(), 1.0))
    matrix = matrix / np.outer(scale, scale) + RIDGE * np.eye(len(free))
    direction = np.zeros(point.theta.size)
    direction[free] = -solve(matrix, point.gradient.ravel()[free] / scale, assume_a="sym") / scale
    return direction.reshape(point.theta.shape)
