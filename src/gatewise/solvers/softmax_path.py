"""Softmax gates that are shrunk towards a reference, fitted along a path of penalties; and constant weights."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import softmax

from gatewise.arrays import Floats
from gatewise.losses import Loss, ResidualLoss
from gatewise.solvers.simplex_least_squares import checked_stack

TOLERANCE = 0.005  # the solver stops when a step lowers the objective, a negative log likelihood, by less than this
MAX_ITER = 25
FIRST_RADIUS = 5.0  # the first radius of the trust region
WIDE = 30.0  # standard deviation of the scores of constant weights: almost no shrinkage


class GatePath(NamedTuple):
    """Score parameters theta (L, M, p) and coefficients of the linear part (L, q), one for each of L spreads."""

    theta: Floats
    linear: Floats


class _Point(NamedTuple):
    """The value of the objective at a parameter, and the arrays that its gradient and Hessian are computed from."""

    value: float
    weights: Floats  # (n, M)
    tilts: Floats  # (n, M): the derivative of the mixture in every score
    slope: Floats  # (n,): sample weight times the derivative of the loss in the mixture
    curvature: Floats  # (n,): the same of its second derivative


class _PathProblem(NamedTuple):
    features: Floats  # (n, p)
    experts: Floats  # (n, M)
    linear: Floats  # (n, q)
    loss: Loss
    offset: Floats  # (M,): log of the reference
    sample_weight: Floats  # (n,)
    penalty: Floats  # (M p + q,)
    quadratic: tuple[Floats, Floats] | None  # (target, precision), (n,) each, of a quadratic loss with its weights

    @property
    def n_scores(self) -> int:
        """M p."""
        return int(self.experts.shape[1] * self.features.shape[1])

    def at(self, theta: Floats) -> _Point:
        scores = self.features @ theta[: self.n_scores].reshape(len(self.offset), -1).T
        weights = softmax(self.offset + scores, axis=1)
        mixture = np.einsum("im,im->i", weights, self.experts)
        tilts = weights * (self.experts - mixture[:, None])
        always = self.linear @ theta[self.n_scores :]
        if self.quadratic is not None:
            target, precision = self.quadratic
            residual = target - mixture - always
            value = 0.5 * float(precision @ residual**2 + self.penalty @ theta**2)
            return _Point(value, weights, tilts, -(precision * residual), precision)
        z, weight = mixture + always, self.sample_weight
        value = float(weight @ self.loss.value(z) + 0.5 * (self.penalty @ theta**2))
        return _Point(value, weights, tilts, weight * self.loss.slope(z), weight * self.loss.curvature(z))

    def gradient(self, point: _Point, theta: Floats) -> Floats:
        scores = (point.tilts * point.slope[:, None]).T @ self.features
        return np.asarray(self.penalty * theta + np.concatenate([scores.ravel(), self.linear.T @ point.slope]))

    def hessian(self, point: _Point) -> Floats:
        """Row i adds C (x) features features', where, with tilts a, weights g, slope s and curvature c of the loss,

        C = c a a' + s (diag(a) - a g' - g a').
        """
        M, p = len(self.offset), self.features.shape[1]
        matrix = np.zeros((len(self.penalty), len(self.penalty)))
        for m in range(M):
            here = slice(m * p, (m + 1) * p)
            for j in range(m + 1):
                both = point.curvature * point.tilts[:, m] * point.tilts[:, j]
                mixed = point.tilts[:, m] * point.weights[:, j] + point.tilts[:, j] * point.weights[:, m]
                both -= point.slope * mixed
                if j == m:
                    both += point.slope * point.tilts[:, m]
                matrix[here, j * p : (j + 1) * p] = (self.features * both[:, None]).T @ self.features
            tilted = self.linear * (point.curvature * point.tilts[:, m])[:, None]
            matrix[M * p :, here] = tilted.T @ self.features
        matrix[M * p :, M * p :] = (self.linear * point.curvature[:, None]).T @ self.linear
        matrix = np.tril(matrix) + np.tril(matrix, -1).T
        matrix[np.diag_indices_from(matrix)] += self.penalty
        return matrix


class PathRequest(NamedTuple):
    """One path of gates: features (n, p), and the spreads (prior standard deviations) of their coefficients.

    ``linear`` (n, q) are columns of a linear part that is added to the mixture, with coefficients of the spread
    ``linear_spread``; None for no such part.
    """

    features: Floats
    spreads: Sequence[float]
    linear: Floats | None = None
    linear_spread: float = 1.0


def gate_paths(
    requests: Sequence[PathRequest], F: Floats, loss: Loss, reference: Floats, sample_weight: Floats | None = None
) -> list[GatePath]:
    """For every request, one gate for every spread; each fit starts at the solution for the next smaller spread.

    A gate is softmax(log reference + features . theta_m), so theta = 0 gives the ``reference`` (M,), a simplex vector
    with positive entries. With the experts' F (n, M), the loss phi at these rows and the columns of the linear part,
    each solution minimises

        sum_i phi_i(sum_m g_m(x_i; theta) F_im + linear_i . b)
            + |theta|^2 / (2 spread^2) + |b|^2 / (2 linear_spread^2),

    the posterior mode under Gaussian coefficients. Sample weights multiply phi_i.

    >>> x = np.linspace(-1, 1, 200)
    >>> F = np.column_stack([np.ones(200), -np.ones(200)])
    >>> loss = ResidualLoss(np.tanh(3 * x) + 0.1 * np.cos(400 * x), variance=0.5)
    >>> path, = gate_paths([PathRequest(x[:, None], [10.0])], F, loss, np.array([0.5, 0.5]))
    >>> float((path.theta[0, 0] - path.theta[0, 1]).round(1)[0])
    6.0
    """
    weight = np.ones(len(F)) if sample_weight is None else sample_weight
    quadratic = loss.quadratic()
    exact = None if quadratic is None else (quadratic[0], weight / quadratic[1])
    solvable = bool(loss.slope(F @ reference).any())  # if not, the reference is a stationary point already
    return [_path(request, F, loss, reference, weight, exact, solvable) for request in requests]


def _path(
    request: PathRequest,
    F: Floats,
    loss: Loss,
    reference: Floats,
    weight: Floats,
    exact: tuple[Floats, Floats] | None,
    solvable: bool,
) -> GatePath:
    features, spreads, linear, linear_spread = request
    columns = np.empty((len(F), 0)) if linear is None else linear
    M, p, q = F.shape[1], features.shape[1], columns.shape[1]
    path = GatePath(np.zeros((len(spreads), M, p)), np.zeros((len(spreads), q)))
    theta = np.zeros(M * p + q)
    for number in np.argsort(spreads) if solvable else ():
        penalty = np.repeat([spreads[number] ** -2.0, linear_spread**-2.0], [M * p, q])
        problem = _PathProblem(features, F, columns, loss, np.log(reference), weight, penalty, exact)
        theta = _minimise(problem, theta)
        path.theta[number], path.linear[number] = theta[: M * p].reshape(M, p), theta[M * p :]
    return path


def stack_weights(F: Floats, loss: Loss, sample_weight: Floats) -> Floats:
    """The convex combination of the experts with the least loss, (M,): one simplex vector for all rows.

    A loss of residuals is taken as squared error, whatever its noise: least squares over the simplex, solved exactly.
    Any other loss is minimised by a constant softmax gate with almost no shrinkage.

    >>> from gatewise.losses import LogLoss
    >>> stack_weights(np.tile([[0.9, 0.5], [0.3, 0.5]], (500, 1)), LogLoss(), np.ones(1000)).round(1)
    array([0.6, 0.4])
    """
    if isinstance(loss, ResidualLoss):
        shares = sample_weight / sample_weight.max()
        return np.asarray(checked_stack(F, loss.y, shares / shares.sum()).theta.ravel())
    M = F.shape[1]
    equal = np.full(M, 1.0 / M)
    (path,) = gate_paths([PathRequest(np.ones((len(F), 1)), [WIDE])], F, loss, equal, sample_weight)
    return np.asarray(softmax(path.theta[0, :, 0]))


def _minimise(problem: _PathProblem, theta: Floats) -> Floats:
    kept: dict[bytes, _Point] = {}

    def at(theta: Floats) -> _Point:
        key = theta.tobytes()
        if key not in kept:
            kept.clear()  # the solver asks for value, gradient and Hessian at the same point, one after the other
            kept[key] = problem.at(theta)
        return kept[key]

    def value(theta: Floats) -> float:
        return at(theta).value

    def gradient(theta: Floats) -> Floats:
        return problem.gradient(at(theta), theta)

    def hessian(theta: Floats) -> Floats:
        return problem.hessian(at(theta))

    last: list[Any] = [theta, value(theta)]

    def stop_when_little_is_left(theta: Floats) -> None:
        if (theta == last[0]).all():  # the step was rejected: that does not mean that the minimum is reached
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
    found = minimize(value, theta, jac=gradient, hess=hessian, **keywords)
    return np.asarray(found.x)
