"""Least squares over a kernel gate's parameters: a convex problem, solved with a certificate.

It is a quadratic program over a product of simplices, solved by a primal-dual interior-point method. The unknown
theta (M, C) has one simplex vector per column. A Newton step keeps the sum of every column, so the largest weight of
each column is eliminated, and the step is a Cholesky factorisation with C (M-1) unknowns. The number of steps hardly
grows with the size, and the quadratic may have any rank: where the minimum is not unique, the central path tends to
the analytic centre of the minimisers.
"""

import warnings
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg.lapack import dpotrf, dpotrs
from sklearn.exceptions import ConvergenceWarning

from gatewise.arrays import as_count, as_positive, as_rows, as_sample, BLOCK_NUMBERS, Floats, Indices, LARGEST

TOLERANCE, MAX_ITER = 1e-10, 100
MAX_PARAMETERS = 10_000  # M C: the Hessian then has 0.8 GB, and a step needs a few of its size
AHEAD = 1e-2  # the solver aims at this times tol, so that the gap stays below tol when tiny weights are set to zero
VANISHING = 1e-9  # a smaller weight is set to zero
FLOOR = 1e-3  # the relative gap divides by the objective, or by this times the scale of the data if that is larger
# Where the quadratic is flat and the barrier weak, rounding can make the Newton matrix indefinite. A ridge is added
# to it: the first of these multiples of the trace with which the factorisation succeeds. It changes the steps, but
# not the solution that they converge to.
RIDGES = (1e-15, 1e-13, 1e-11)
GREEDY_ROUNDS = 50
PATIENCE = 5  # the solver stops after so many steps without a smaller gap


class SimplexFit(NamedTuple):
    """A minimiser with its certificate: objective - gap <= the minimum <= objective.

    ``relative_gap`` is the gap divided by the objective, or by FLOOR times the mean square of the experts and the
    response about the mean expert if that is larger: an almost perfect fit need not be accurate to ten digits.
    """

    theta: Floats  # (M, C)
    objective: float
    gap: float
    relative_gap: float
    converged: bool
    n_iter: int


class _Problem(NamedTuple):
    """The rows, centred at the mean expert and divided by ``unit``: residual = target - sum_m weights_m experts_m.

    ``shares`` are the sample weights, normalised; ``scale`` is the mean square that `SimplexFit` describes.
    """

    features: Floats  # (n, C)
    experts: Floats  # (n, M), each row with mean zero
    target: Floats  # (n,)
    shares: Floats  # (n,), with sum one
    unit: float
    scale: float

    @property
    def shape(self) -> tuple[int, int]:
        """M and C."""
        return self.experts.shape[1], self.features.shape[1]


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


def simplex_least_squares(
    features: ArrayLike,
    F: ArrayLike,
    y: ArrayLike,
    sample_weight: ArrayLike | None = None,
    *,
    tol: float = TOLERANCE,
    max_iter: int = MAX_ITER,
) -> SimplexFit:
    """The least-squares parameter of a kernel gate, exact up to a certified gap.

    Minimises sum_i w_i (y_i - sum_{m,c} theta[m,c] features[i,c] F[i,m])^2 / sum_i w_i over theta (M, C)
    with one simplex vector per centre. features (n, C) are those of a `KernelGate`, F (n, M) the experts'
    predictions. The predictor is linear in theta, so the problem is convex (section 5.3;
    `sec:supp-simulation-details`). ``gap`` is the Frank-Wolfe duality gap, computed from the rows and not
    from the solver; a relative gap above ``tol`` is a `ConvergenceWarning` and ``converged=False``. Where
    the minimiser is not unique (experts that agree, more parameters than rows), theta is close to the
    analytic centre of the minimisers: experts that agree get nearly equal weights.

    >>> fit = simplex_least_squares([[1.0], [1.0]], [[0.0, 1.0], [0.0, 1.0]], [0.2, 0.4])
    >>> fit.theta.ravel().round(6), round(fit.objective, 6)
    (array([0.7, 0.3]), 0.01)
    """
    columns, tol, max_iter = as_rows(features, "features"), as_positive(tol, "tol"), as_count(max_iter, "max_iter")
    if np.shape(F)[:1] != columns.shape[:1]:
        raise ValueError(f"F must have one row per row of features, {len(columns)}, not {len(np.atleast_1d(F))}")
    return _solve(columns, *as_sample(F, y, sample_weight), tol, max_iter)


def convex_stack(F: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> SimplexFit:
    """The convex combination of the experts with least squares: one simplex vector, theta (M, 1).

    >>> convex_stack([[0.0, 1.0, 5.0], [2.0, 1.0, 7.0]], [0.5, 1.5]).theta.ravel().round(6)
    array([0.5, 0.5, 0. ])
    """
    return checked_stack(*as_sample(F, y, sample_weight))


def checked_stack(F: Floats, y: Floats, shares: Floats) -> SimplexFit:
    """`convex_stack` of arrays that were checked before; ``shares`` (n,) are the sample weights, with sum one."""
    return _solve(np.ones((len(F), 1)), F, y, shares, TOLERANCE, MAX_ITER)


def convex_stacks(F: Floats, y: Floats, sample_weights: Floats) -> Floats:
    """The convex stack of every sample of the same rows, (S, M), by its sample weights (S, n)."""
    shares = sample_weights / sample_weights.max(axis=1, keepdims=True)
    return np.stack([checked_stack(F, y, share / share.sum()).theta.ravel() for share in shares])


def greedy_stacks(F: Floats, y: Floats, sample_weights: Floats) -> Floats:
    """Weights by ensemble selection with replacement, (S, M), one for each row of sample_weights (S, n).

    Each of GREEDY_ROUNDS rounds adds the expert that makes the plain average of all those added the best; the weights
    are the shares after the best round (Caruana and others, 2004).

    >>> greedy_stacks(np.array([[0.0, 4.0], [0.0, 4.0]]), np.array([1.0, 1.0]), np.ones((1, 2)))
    array([[0.75, 0.25]])
    """
    found = np.empty((len(sample_weights), F.shape[1]))
    for row, weight in zip(found, sample_weights, strict=True):
        errors = F - y[:, None]  # the average has weights with sum one
        gram = (errors * weight[:, None]).T @ errors
        counts, cross, square, least = np.zeros(len(gram)), np.zeros(len(gram)), 0.0, np.inf
        for size in range(1, GREEDY_ROUNDS + 1):
            losses = square + 2.0 * cross + gram.diagonal()
            chosen = int(losses.argmin())
            square, cross = losses[chosen], cross + gram[chosen]
            counts[chosen] += 1.0
            if square < least * size**2:
                least, row[:] = square / size**2, counts / size
    return found


def _solve(features: Floats, F: Floats, y: Floats, shares: Floats, tol: float, max_iter: int) -> SimplexFit:
    """The fit for finite arrays features (n, C), F (n, M), y (n,) and sample weights ``shares`` (n,) with sum one."""
    problem = _prepare(features, F, y, shares)
    if not problem.experts.any():  # one expert, or all of them agree: any weights do
        return _certify(problem, np.ones(problem.shape), tol, 0)
    ahead = AHEAD * tol
    point, n_iter = minimise_over_simplices(_quadratic(problem), ahead, ahead * FLOOR * problem.scale, max_iter)
    fit = _best(problem, point.theta, tol, n_iter)
    if not fit.converged:
        warnings.warn(
            f"least squares over the simplex stopped after {n_iter} steps with a relative gap of "
            f"{fit.relative_gap:.1e}, above tol={tol:g}: the minimum may be lower by {fit.gap:.3g}",
            ConvergenceWarning,
            stacklevel=3,
        )
    return fit


def _prepare(features: Floats, F: Floats, y: Floats, shares: Floats) -> _Problem:
    """The problem without rows of weight zero, or an error when it is too large."""
    M, C = F.shape[1], features.shape[1]
    if C * M > MAX_PARAMETERS:
        raise ValueError(
            f"features and F give {M} x {C} parameters, more than {MAX_PARAMETERS:,}; "
            "take a gate with fewer centres (a larger mesh)"
        )
    for name, values in (("F", F), ("y", y)):
        if np.abs(values).max() > LARGEST:
            raise ValueError(f"{name} must not exceed {LARGEST:g}, for squares to be finite; change its unit")
    counted = shares > 0.0
    if not counted.all():
        features, F, y, shares = features[counted], F[counted], y[counted], shares[counted]
    return _centred(features, F, y, shares)


def _centred(features: Floats, F: Floats, y: Floats, shares: Floats) -> _Problem:
    """The problem with the mean of the experts subtracted from every expert and, accordingly, from the response.

    A part that all experts have in common then causes no rounding errors. This is allowed because the weights of a
    row have sum features.sum(axis=1) for every theta. The first expert is subtracted before the mean, so that experts
    which agree become exactly zero.
    """
    sums, first = features.sum(axis=1), F[:, 0]
    experts = F - first[:, None]
    middle = experts.mean(axis=1)
    experts, target = experts - middle[:, None], (y - first * sums) - middle * sums
    unit = max(float(np.abs(experts).max()), float(np.abs(target).max())) or 1.0
    experts, target = experts / unit, target / unit
    scale = float(shares @ (target**2 + (experts**2).max(axis=1)))
    return _Problem(features, experts, target, shares, unit, scale)


def _quadratic(problem: _Problem) -> QuadraticObjective:
    """The objective as a quadratic in theta; the design is made a block of rows at a time."""
    M, C = problem.shape
    roots = np.sqrt(2.0 * problem.shares)
    experts, target = problem.experts * roots[:, None], problem.target * roots
    hessian, linear = np.zeros((M * C, M * C)), np.zeros(M * C)
    rows = max(BLOCK_NUMBERS // (M * C), 1)
    for start in range(0, len(target), rows):
        part = slice(start, start + rows)
        design = (experts[part, :, None] * problem.features[part, None, :]).reshape(-1, M * C)
        hessian += design.T @ design
        linear += design.T @ target[part]
    return QuadraticObjective(hessian, linear.reshape(M, C), float(problem.shares @ problem.target**2))


def _best(problem: _Problem, theta: Floats, tol: float, n_iter: int) -> SimplexFit:
    """The fit at theta, with weights below VANISHING set to zero if the gap then is no larger or within ``tol``."""
    inner = _certify(problem, theta, tol, n_iter)
    face = _certify(problem, np.where(theta < VANISHING, 0.0, theta), tol, n_iter)
    return face if face.converged or face.gap <= inner.gap else inner


def _certify(problem: _Problem, theta: Floats, tol: float, n_iter: int) -> SimplexFit:
    """The fit at theta (M, C), columns scaled to sum one: objective and gap are computed from the rows.

    They do not depend on the solver's own arithmetic, and so certify its result.
    """
    theta = theta / theta.sum(axis=0)
    fitted = np.einsum("im,im->i", problem.features @ theta.T, problem.experts)
    residual = problem.target - fitted
    gradient = -2.0 * (problem.experts * (problem.shares * residual)[:, None]).T @ problem.features
    objective, gap = float(problem.shares @ residual**2), simplex_gap(gradient, theta)
    relative = gap / (max(objective, FLOOR * problem.scale) or 1.0)
    square = problem.unit**2
    return SimplexFit(theta, objective * square, gap * square, relative, relative <= tol, n_iter)


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


def _start(problem: QuadraticObjective) -> CentralPoint:
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


def _newton_step(problem: QuadraticObjective, state: CentralPoint) -> CentralPoint | None:
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


def minimise_over_simplices(
    problem: QuadraticObjective, rtol: float, atol: float, max_iter: int
) -> tuple[CentralPoint, int]:
    """Steps until the gap is at most max(atol, rtol * value), or until rounding allows no more.

    Returns the point of least gap and the number of steps taken.
    """
    state = best = _start(problem)
    least = simplex_gap(best.gradient, best.theta)
    taken = since_best = 0
    while taken < max_iter and since_best < PATIENCE and least > max(atol, rtol * value_at(problem, best)):
        following = _newton_step(problem, state)
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
