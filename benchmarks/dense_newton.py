"""The rival of `benchmarks.gate_fits`: softmax gates by a trust region with the whole Hessian, as in Gatewise 0.1.

NumPy builds the (M p + q)^2 Hessian of every step and `scipy.optimize.minimize` ("trust-ncg") takes the steps; a fit
stops when a step lowers the objective by less than 0.005 nats, or after 25 steps.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import softmax

from gatewise.arrays import Floats
from gatewise.solvers.softmax_path import GatePath, PathRequest

TOLERANCE, MAX_ITER, FIRST_RADIUS = 0.005, 25, 5.0


class _Point(NamedTuple):
    value: float
    weights: Floats  # (n, M)
    tilts: Floats  # (n, M)
    slope: Floats  # (n,)


class Problem(NamedTuple):
    """Penalised least squares: the objective of `gate_paths` for a quadratic loss."""

    features: Floats  # (n, p)
    experts: Floats  # (n, M)
    linear: Floats  # (n, q)
    offset: Floats  # (M,): log of the reference
    penalty: Floats  # (M p + q,)
    target: Floats  # (n,)
    precision: Floats  # (n,)

    def at(self, theta: Floats) -> _Point:
        n_scores = self.experts.shape[1] * self.features.shape[1]
        scores = self.features @ theta[:n_scores].reshape(len(self.offset), -1).T
        weights = softmax(self.offset + scores, axis=1)
        mixture = np.einsum("im,im->i", weights, self.experts)
        tilts = weights * (self.experts - mixture[:, None])
        residual = self.target - mixture - self.linear @ theta[n_scores:]
        value = 0.5 * float(self.precision @ residual**2 + self.penalty @ theta**2)
        return _Point(value, weights, tilts, -(self.precision * residual))

    def gradient(self, point: _Point, theta: Floats) -> Floats:
        scores = (point.tilts * point.slope[:, None]).T @ self.features
        return np.asarray(self.penalty * theta + np.concatenate([scores.ravel(), self.linear.T @ point.slope]))

    def product(self, point: _Point, v: Floats) -> Floats:
        """The product of the Hessian with v."""
        M, p = len(self.offset), self.features.shape[1]
        u = self.features @ v[: M * p].reshape(M, p).T
        tilted = (point.tilts * u).sum(axis=1)
        t = self.precision * (tilted + self.linear @ v[M * p :])
        bent = point.tilts * (u - (point.weights * u).sum(axis=1)[:, None]) - point.weights * tilted[:, None]
        pulls = t[:, None] * point.tilts + point.slope[:, None] * bent
        return np.asarray(self.penalty * v + np.concatenate([(pulls.T @ self.features).ravel(), self.linear.T @ t]))

    def hessian(self, point: _Point) -> Floats:
        M, p = len(self.offset), self.features.shape[1]
        matrix = np.zeros((len(self.penalty), len(self.penalty)))
        for m in range(M):
            here = slice(m * p, (m + 1) * p)
            for j in range(m + 1):
                both = self.precision * point.tilts[:, m] * point.tilts[:, j]
                both -= point.slope * (
                    point.tilts[:, m] * point.weights[:, j] + point.tilts[:, j] * point.weights[:, m]
                )
                if j == m:
                    both += point.slope * point.tilts[:, m]
                matrix[here, j * p : (j + 1) * p] = (self.features * both[:, None]).T @ self.features
            matrix[M * p :, here] = (self.linear * (self.precision * point.tilts[:, m])[:, None]).T @ self.features
        matrix[M * p :, M * p :] = (self.linear * self.precision[:, None]).T @ self.linear
        matrix = np.tril(matrix) + np.tril(matrix, -1).T
        matrix[np.diag_indices_from(matrix)] += self.penalty
        return matrix


def problem(
    request: PathRequest, spread: float, F: Floats, y: Floats, variance: float, reference: Floats, weight: Floats
) -> Problem:
    """The problem of one spread of a request, on the rows of positive weight."""
    used = np.flatnonzero(weight)
    linear = np.empty((len(F), 0)) if request.linear is None else request.linear
    sizes = [F.shape[1] * request.features.shape[1], linear.shape[1]]
    penalty = np.repeat([spread**-2.0, np.float64(request.linear_spread) ** -2.0], sizes)
    rows = request.features[used], F[used], linear[used]
    return Problem(*rows, np.log(reference), penalty, y[used], weight[used] / variance)


def dense_path(
    request: PathRequest,
    F: Floats,
    y: Floats,
    variance: float,
    reference: Floats,
    weight: Floats,
    minimise: Callable[[Problem, Floats], Floats] | None = None,
) -> GatePath:
    """One path, each fit started at the one before, by the Newton method unless another is given."""
    flat, found = None, []
    spreads = np.broadcast_arrays(request.spreads, request.linear_spread)
    for spread, linear_spread in sorted(zip(*spreads, strict=True)):
        own = request._replace(linear_spread=float(linear_spread))
        one = problem(own, float(spread), F, y, variance, reference, weight)
        flat = (minimise or _minimise)(one, np.zeros(len(one.penalty)) if flat is None else flat)
        found.append(flat)
    M, p = F.shape[1], request.features.shape[1]
    flats = np.array(found)
    return GatePath(flats[:, : M * p].reshape(len(found), M, p), flats[:, M * p :])


def _minimise(problem: Problem, theta: Floats) -> Floats:
    kept: dict[bytes, _Point] = {}

    def at(theta: Floats) -> _Point:
        key = theta.tobytes()
        if key not in kept:
            kept.clear()
            kept[key] = problem.at(theta)
        return kept[key]

    last: list[Any] = [theta, at(theta).value]

    def stop_when_little_is_left(theta: Floats) -> None:
        if (theta == last[0]).all():
            return
        before, last[:] = last[1], [theta.copy(), at(theta).value]
        if before - last[1] < TOLERANCE:
            raise StopIteration

    options: Any = {
        "gtol": TOLERANCE,
        "maxiter": MAX_ITER,
        "initial_trust_radius": FIRST_RADIUS,
        "max_trust_radius": 20.0 * FIRST_RADIUS,
    }
    found = minimize(
        lambda x: at(x).value,
        theta,
        jac=lambda x: problem.gradient(at(x), x),
        hess=lambda x: problem.hessian(at(x)),
        method="trust-ncg",
        callback=stop_when_little_is_left,
        options=options,
    )
    return np.asarray(found.x)
