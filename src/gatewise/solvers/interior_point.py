"""Convex quadratic programs over a product of simplices, by a primal-dual interior-point method.

The unknown theta (M, C) has one simplex vector per column. A Newton step keeps the sum of every column, so the
largest weight of each column is eliminated, and the step is a Cholesky factorisation with C (M-1) unknowns. The
number of steps hardly grows with the size, and the quadratic may have any rank: where the minimum is not unique, the
central path tends to the analytic centre of the minimisers.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from gatewise.arrays import Floats, Indices

# Where the quadratic is flat and the barrier weak, rounding can make the Newton matrix indefinite. A ridge is added
# to it: the first of these multiples of the trace with which the factorisation succeeds. It changes the steps, but
# not the solution that they converge to.
RIDGES = (1e-15, 1e-13, 1e-11)
PATIENCE = 5  # the solver stops after so many steps without a smaller gap


class QuadraticObjective(NamedTuple):
    """q(theta) = theta' hessian theta / 2 - linear . theta + constant, theta (M, C) flattened."""

    hessian: Floats  # (M C, M C)
    linear: Floats  # (M, C)
    constant: float


class CentralPoint(NamedTuple):
    """A point near the central path, (M, C) each: theta and its multipliers, both positive; the gradient in theta."""

    theta: Floats
    dual: Floats
    gradient: Floats


class _Newton(NamedTuple):
    """The Cholesky factor of the Newton matrix.

    ``free`` are the places of its unknowns in the flattened theta, ``reference`` those of the eliminated weights.
    """

    factor: Floats  # (C (M-1), C (M-1))
    free: Indices  # (C, M-1)
    reference: Indices  # (C,)

    def solve(self, right: Floats) -> Floats:
        """The Newton step (M, C), each column with sum zero, for the right-hand side (M, C)."""
        reduced = right.ravel()[self.free] - right.ravel()[self.reference][:, None]
        change = dpotrs(self.factor, reduced.ravel(), lower=0)[0].reshape(reduced.shape)
        out = np.empty(right.size)
        out[self.free] = change
        out[self.reference] = -change.sum(axis=1)
        return out.reshape(right.shape)


def simplex_gap(gradient: Floats, theta: Floats) -> float:
    """The Frank-Wolfe gap max_u <gradient, theta - u> over one simplex vector per column, (M, C) each.

    sum_c (gradient_c . theta_c - min_m gradient_mc). A convex function exceeds its minimum by at most this.

    >>> simplex_gap(np.array([[3.0], [1.0]]), np.array([[0.5], [0.5]]))
    1.0
    """
    return float(np.sum((gradient - gradient.min(axis=0)) * theta))


def init(problem: QuadraticObjective) -> CentralPoint:
    """Starting point: equal weights, and as multipliers the gradient plus a constant per column, so that they are
    positive and dual feasible.
    """
    theta = np.full(problem.linear.shape, 1.0 / len(problem.linear))
    gradient = gradient_at(problem, theta)
    above = gradient - gradient.min(axis=0)
    return CentralPoint(theta, above + max(float(above.mean()), np.finfo(float).tiny), gradient)


def gradient_at(problem: QuadraticObjective, theta: Floats) -> Floats:
    """The gradient at theta, (M, C)."""
    return (problem.hessian @ theta.ravel()).reshape(theta.shape) - problem.linear


def value_at(problem: QuadraticObjective, state: CentralPoint) -> float:
    """q at the state, from the gradient it holds."""
    return problem.constant + 0.5 * float(np.vdot(state.theta, state.gradient - problem.linear))


def step(problem: QuadraticObjective, state: CentralPoint) -> CentralPoint | None:
    """One predictor-corrector step towards the end of the central path; None if its matrix has no factor."""
    theta, dual, gradient = state
    newton = _newton(problem, dual / theta, theta.argmax(axis=0))
    if newton is None:
        return None

    def direction(target: Floats | float) -> tuple[Floats, Floats]:
        """Newton's step to theta * dual = target, with the multipliers feasible after it."""
        d_theta = newton.solve(target / theta - gradient)
        return d_theta, (target - dual * d_theta) / theta - dual

    d_theta, d_dual = direction(0.0)
    reach = min(1.0, _reach(theta, d_theta), _reach(dual, d_dual))
    mean = float(np.vdot(theta, dual)) / theta.size
    ahead = float(np.vdot(theta + reach * d_theta, dual + reach * d_dual)) / theta.size
    d_theta, d_dual = direction((ahead / mean) ** 3 * mean - d_theta * d_dual)
    # Theta and multipliers move by one common step length, since the quadratic couples them. The step goes the closer
    # to the boundary the more the predictor reduces the gap: the last steps then converge faster than linearly.
    inside = max(0.995, 1.0 - ahead / mean)
    length = min(1.0, inside * min(_reach(theta, d_theta), _reach(dual, d_dual)))
    theta = theta + length * d_theta
    return CentralPoint(theta, dual + length * d_dual, gradient_at(problem, theta))


def run(problem: QuadraticObjective, rtol: float, atol: float, max_iter: int) -> tuple[CentralPoint, int]:
    """Steps until the gap is at most max(atol, rtol * value), or until rounding allows no more.

    Returns the point of least gap and the number of steps taken.
    """
    state = best = init(problem)
    least = simplex_gap(best.gradient, best.theta)
    taken = since_best = 0
    while taken < max_iter and since_best < PATIENCE and least > max(atol, rtol * value_at(problem, best)):
        following = step(problem, state)
        if following is None or not np.isfinite(following.theta).all():
            break
        state, taken, since_best = following, taken + 1, since_best + 1
        gap = simplex_gap(state.gradient, state.theta)
        if gap < least:
            best, least, since_best = state, gap, 0
    return best, taken


def _newton(problem: QuadraticObjective, barrier: Floats, largest: Indices) -> _Newton | None:
    """The factor of hessian + diag(barrier) on the directions whose columns have sum zero; None if there is none.

    In each column the weight with the smallest barrier term (the ``largest`` weight) is eliminated. The other barrier
    terms, which differ by many orders of magnitude, then stay on the diagonal, where that does no harm.
    """
    M, C = barrier.shape
    columns = np.arange(C)
    experts = np.arange(M - 1)
    free = (experts + (experts >= largest[:, None])) * C + columns[:, None]  # (C, M-1)
    reference = largest * C + columns
    matrix = _eliminate(problem.hessian, free.ravel(), np.repeat(reference, M - 1))
    matrix.reshape(C, M - 1, C, M - 1)[columns, :, columns, :] += barrier.ravel()[reference][:, None, None]
    diagonal = np.einsum("ii->i", matrix)
    diagonal += barrier.ravel()[free.ravel()]
    for ridge in RIDGES:
        diagonal += ridge * problem.hessian.trace()
        factor, info = dpotrf(matrix.T, lower=0, clean=0)  # its transpose is in the order of Fortran
        if info == 0:
            return _Newton(factor, free, reference)
    return None


def _eliminate(hessian: Floats, free: Indices, reference: Indices) -> Floats:
    """The Hessian in the free coordinates, where a step changes the eliminated weight by the opposite amount."""
    rows = hessian[free] - hessian[reference]
    return np.take(rows, free, axis=1) - np.take(rows, reference, axis=1)


def _reach(point: Floats, direction: Floats) -> float:
    """The largest t such that point + t direction is not negative; infinite if no entry falls."""
    fastest = float((-direction / point).max())
    return 1.0 / fastest if fastest > 0.0 else np.inf
