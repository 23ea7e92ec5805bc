"""Softmax gates about a reference, fitted by penalised least squares along a path of penalties."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import softmax

from gatewise.arrays import Floats

TOLERANCE = 0.005  # the objective is a log likelihood: steps that gain less evidence than that are not worth taking
MAX_ITER = 25
FIRST_RADIUS = 5.0  # of the region that the quadratic model is trusted in


class Path(NamedTuple):
    """Score parameters theta (L, M, p) and coefficients of the linear part (L, q), one for each of L spreads."""

    theta: Floats
    linear: Floats


class _Point(NamedTuple):
    """The objective at a parameter, with what its derivatives need."""

    value: float
    weights: Floats  # (n, M)
    slopes: Floats  # (n, M): how the mixture moves with every score
    residual: Floats  # (n,)


class _Problem(NamedTuple):
    features: Floats  # (n, p)
    experts: Floats  # (n, M)
    linear: Floats  # (n, q)
    response: Floats  # (n,)
    offset: Floats  # (M,): log of the reference
    precision: Floats  # (n,): sample weight over the reference's error variance
    penalty: Floats  # (M p + q,)

    @property
    def n_scores(self) -> int:
        """M p."""
        return int(self.experts.shape[1] * self.features.shape[1])

    def at(self, theta: Floats) -> _Point:
        scores = self.features @ theta[: self.n_scores].reshape(len(self.offset), -1).T
        weights = softmax(self.offset + scores, axis=1)
        mixture = np.einsum("im,im->i", weights, self.experts)
        residual = self.response - mixture - self.linear @ theta[self.n_scores :]
        value = 0.5 * float(self.precision @ residual**2 + self.penalty @ theta**2)
        return _Point(value, weights, weights * (self.experts - mixture[:, None]), residual)

    def gradient(self, point: _Point, theta: Floats) -> Floats:
        pull = self.precision * point.residual
        scores = (point.slopes * pull[:, None]).T @ self.features
        return np.asarray(self.penalty * theta - np.concatenate([scores.ravel(), self.linear.T @ pull]))

    def curvature(self, point: _Point) -> Floats:
        """The Hessian. A row adds C (x) features features', where, with slopes a, weights g and residual r,

        C = precision {a a' - r (diag(a) - a g' - g a')}.
        """
        M, p = len(self.offset), self.features.shape[1]
        pull = self.precision * point.residual
        matrix = np.zeros((len(self.penalty), len(self.penalty)))
        for m in range(M):
            here = slice(m * p, (m + 1) * p)
            for j in range(m + 1):
                both = self.precision * point.slopes[:, m] * point.slopes[:, j]
                both += pull * (point.slopes[:, m] * point.weights[:, j] + point.slopes[:, j] * point.weights[:, m])
                if j == m:
                    both -= pull * point.slopes[:, m]
                matrix[here, j * p : (j + 1) * p] = (self.features * both[:, None]).T @ self.features
            tilted = self.linear * (self.precision * point.slopes[:, m])[:, None]
            matrix[M * p :, here] = tilted.T @ self.features
        matrix[M * p :, M * p :] = (self.linear * self.precision[:, None]).T @ self.linear
        matrix = np.tril(matrix) + np.tril(matrix, -1).T
        matrix[np.diag_indices_from(matrix)] += self.penalty
        return matrix


def gate_path(
    features: Floats,
    F: Floats,
    y: Floats,
    reference: Floats,
    spreads: Sequence[float],
    *,
    linear: Floats | None = None,
    linear_spread: float = 1.0,
    sample_weight: Floats | None = None,
) -> Path:
    """Gates for every spread, from the smallest on, each started at the one before.

    The gate is softmax(log reference + features . theta_m), so theta = 0 is the ``reference`` (M,), a simplex vector
    with positive entries. With features (n, p), experts' predictions F (n, M), responses y (n,) and, if given,
    columns ``linear`` (n, q) of a part that is always on, each solution minimises

        sum_i (y_i - sum_m g_m(x_i; theta) F_im - linear_i . b)^2 / (2 sigma^2)
            + |theta|^2 / (2 spread^2) + |b|^2 / (2 linear_spread^2),

    sigma^2 being the reference's own mean squared error: the posterior mode under Gaussian coefficients.

    >>> x = np.linspace(-1, 1, 200)
    >>> F = np.column_stack([np.ones(200), -np.ones(200)])
    >>> y = np.tanh(3 * x) + 0.1 * np.cos(400 * x)
    >>> theta = gate_path(x[:, None], F, y, np.array([0.5, 0.5]), [10.0]).theta[0]
    >>> float((theta[0] - theta[1]).round(1)[0])
    5.9
    """
    weight = np.ones(len(y)) if sample_weight is None else sample_weight
    columns = np.empty((len(y), 0)) if linear is None else linear
    error = float(np.average((y - F @ reference) ** 2, weights=weight))
    M, p, q = F.shape[1], features.shape[1], columns.shape[1]
    path = Path(np.zeros((len(spreads), M, p)), np.zeros((len(spreads), q)))
    if error == 0.0:  # the reference is right everywhere
        return path
    theta = np.zeros(M * p + q)
    for number in np.argsort(spreads):
        penalty = np.repeat([spreads[number] ** -2.0, linear_spread**-2.0], [M * p, q])
        problem = _Problem(features, F, columns, y, np.log(reference), weight / error, penalty)
        theta = _minimise(problem, theta)
        path.theta[number], path.linear[number] = theta[: M * p].reshape(M, p), theta[M * p :]
    return path


def _minimise(problem: _Problem, theta: Floats) -> Floats:
    kept: dict[bytes, _Point] = {}

    def at(theta: Floats) -> _Point:
        key = theta.tobytes()
        if key not in kept:
            kept.clear()  # the solver asks for value, gradient and curvature at one point in a row
            kept[key] = problem.at(theta)
        return kept[key]

    def value(theta: Floats) -> float:
        return at(theta).value

    def gradient(theta: Floats) -> Floats:
        return problem.gradient(at(theta), theta)

    def curvature(theta: Floats) -> Floats:
        return problem.curvature(at(theta))

    last: list[Any] = [theta, value(theta)]

    def stop_when_little_is_left(theta: Floats) -> None:
        if (theta == last[0]).all():  # the step was rejected: that says nothing
            return
        before, last[:] = last[1], [theta.copy(), value(theta)]
        if before - last[1] < TOLERANCE:
            raise StopIteration

    keywords: Any = {
        "method": "trust-ncg",
        "callback": stop_when_little_is_left,
        "options": {
            "gtol": TOLERANCE,
            "maxiter": MAX_ITER,
            "initial_trust_radius": FIRST_RADIUS,
            "max_trust_radius": 20.0 * FIRST_RADIUS,
        },
    }
    found = minimize(value, theta, jac=gradient, hess=curvature, **keywords)
    return np.asarray(found.x)
