"""Convex quadratic programs over a product of simplices, by a primal-dual interior-point method.

The M x C unknowns theta hold one simplex vector per column. In the coordinates theta = 1/M + Q v, the
columns of Q an orthonormal basis of the vectors of sum zero, every column has sum one whatever v is. Only
theta >= 0 is left, and a Newton step is one Cholesky factorisation with C (M-1) unknowns. The number of
steps hardly grows with the size, and the quadratic may have any rank: where the minimum is not unique, the
path tends to the analytic centre of the minimisers.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import helmert
from scipy.linalg.lapack import dpotrf, dpotrs

Floats = NDArray[np.float64]

RIDGE = 1e-14  # of the largest curvature: keeps a factor where the quadratic is flat and the barrier weak
PATIENCE = 5  # steps without a smaller gap


class Quadratic(NamedTuple):
    """q(v) = v' hessian v / 2 - linear . v + constant, v (M-1, C) flattened; theta = 1/M + basis v."""

    hessian: Floats  # (C (M-1), C (M-1))
    linear: Floats  # (C (M-1),)
    constant: float
    basis: Floats  # (M, M-1)


class State(NamedTuple):
    """A point of the path, (M, C) each: theta and its multipliers, both positive; the gradient in theta."""

    theta: Floats
    dual: Floats
    gradient: Floats


def simplex_basis(M: int) -> Floats:
    """An orthonormal basis of the vectors of sum zero, (M, M-1)."""
    return np.ascontiguousarray(helmert(M).T) if M > 1 else np.zeros((1, 0))


def simplex_gap(gradient: Floats, theta: Floats) -> float:
    """The Frank-Wolfe gap max_u <gradient, theta - u> over one simplex vector per column, (M, C) each.

    sum_c (gradient_c . theta_c - min_m gradient_mc). A convex function exceeds its minimum by at most this.

    >>> simplex_gap(np.array([[3.0], [1.0]]), np.array([[0.5], [0.5]]))
    1.0
    """
    return float(np.sum((gradient - gradient.min(axis=0)) * theta))


def init(problem: Quadratic, C: int) -> State:
    """Equal weights, and multipliers that are positive and feasible: the gradient, raised by column."""
    M = len(problem.basis)
    theta = np.full((M, C), 1.0 / M)
    gradient = gradient_at(problem, theta)
    above = gradient - gradient.min(axis=0)
    return State(theta, above + max(float(above.mean()), np.finfo(float).tiny), gradient)


def gradient_at(problem: Quadratic, theta: Floats) -> Floats:
    """The gradient in theta, less its mean over each column, (M, C)."""
    v = problem.basis.T @ theta
    return problem.basis @ (problem.hessian @ v.ravel() - problem.linear).reshape(v.shape)


def value_at(problem: Quadratic, state: State) -> float:
    """q at the state, from the gradient it holds."""
    v, slope = problem.basis.T @ state.theta, problem.basis.T @ state.gradient
    return problem.constant + 0.5 * float(v.ravel() @ (slope.ravel() - problem.linear))


def step(problem: Quadratic, state: State) -> State | None:
    """One predictor-corrector step towards the end of the central path; None if its matrix has no factor."""
    theta, dual, gradient = state
    Q = problem.basis
    factor, info = dpotrf(_newton_matrix(problem, dual / theta), lower=0, clean=0, overwrite_a=1)
    if info != 0:
        return None

    def direction(target: Floats | float) -> tuple[Floats, Floats]:
        """Newton's step to theta * dual = target, with the multipliers feasible after it."""
        right = Q.T @ (target / theta - gradient)
        d_theta = Q @ dpotrs(factor, right.ravel(), lower=0)[0].reshape(right.shape)
        return d_theta, (target - dual * d_theta) / theta - dual

    d_theta, d_dual = direction(0.0)
    reach = min(1.0, _reach(theta, d_theta), _reach(dual, d_dual))
    mean = float(np.vdot(theta, dual)) / theta.size
    ahead = float(np.vdot(theta + reach * d_theta, dual + reach * d_dual)) / theta.size
    d_theta, d_dual = direction((ahead / mean) ** 3 * mean - d_theta * d_dual)
    # Theta and multipliers move by one common length, as the quadratic ties them, and closer to the border
    # when the predictor finds the end in sight: the last steps then gain more than a fixed factor.
    inside = max(0.995, 1.0 - ahead / mean)
    length = min(1.0, inside * min(_reach(theta, d_theta), _reach(dual, d_dual)))
    theta = theta + length * d_theta
    return State(theta, dual + length * d_dual, gradient_at(problem, theta))


def run(
    problem: Quadratic, C: int, enough: Callable[[float, float], bool], max_iter: int
) -> tuple[State, int]:
    """Steps until enough(gap, value), or until rounding allows no more.

    Returns the state of least gap and the number of steps taken.
    """
    state = best = init(problem, C)
    least = simplex_gap(best.gradient, best.theta)
    taken = since_best = 0
    while taken < max_iter and since_best < PATIENCE and not enough(least, value_at(problem, best)):
        following = step(problem, state)
        if following is None or not np.isfinite(following.theta).all():
            break
        state, taken, since_best = following, taken + 1, since_best + 1
        gap = simplex_gap(state.gradient, state.theta)
        if gap < least:
            best, least, since_best = state, gap, 0
    return best, taken


def _newton_matrix(problem: Quadratic, barrier: Floats) -> Floats:
    """hessian + Q' diag(barrier) Q at every column, in the order of Fortran (it is symmetric)."""
    (M, K), C = problem.basis.shape, barrier.shape[1]
    products = (problem.basis[:, :, None] * problem.basis[:, None, :]).reshape(M, K * K)
    matrix = problem.hessian.copy()
    columns = np.arange(C)
    matrix.reshape(K, C, K, C)[:, columns, :, columns] += (barrier.T @ products).reshape(C, K, K)
    np.einsum("ii->i", matrix)[:] += RIDGE * problem.hessian.diagonal().max(initial=0.0)
    return matrix.T


def _reach(point: Floats, direction: Floats) -> float:
    """How far point + t direction stays positive."""
    fastest = float((-direction / point).max())
    return 1.0 / fastest if fastest > 0.0 else np.inf
