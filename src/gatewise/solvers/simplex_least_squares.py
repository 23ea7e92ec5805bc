"""Least squares over a kernel gate's parameters: a convex problem, solved with a certificate."""

import warnings
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from gatewise.arrays import as_count, as_positive, as_rows, as_sample, BLOCK_NUMBERS, Floats
from gatewise.solvers import interior_point
from gatewise.solvers.interior_point import QuadraticObjective, simplex_gap

TOLERANCE, MAX_ITER = 1e-10, 100
MAX_PARAMETERS = 10_000  # M C: the Hessian then has 0.8 GB, and a step needs a few of its size
LARGEST = 1e150
AHEAD = 1e-2  # the solver aims at this times tol, so that the gap stays below tol when tiny weights are set to zero
VANISHING = 1e-9  # a smaller weight is set to zero
FLOOR = 1e-3  # the relative gap divides by the objective, or by this times the scale of the data if that is larger


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


def _solve(features: Floats, F: Floats, y: Floats, shares: Floats, tol: float, max_iter: int) -> SimplexFit:
    """The fit for finite arrays features (n, C), F (n, M), y (n,) and sample weights ``shares`` (n,) with sum one."""
    problem = _prepare(features, F, y, shares)
    if not problem.experts.any():  # one expert, or all of them agree: any weights do
        return _certify(problem, np.ones(problem.shape), tol, 0)
    ahead = AHEAD * tol
    point, n_iter = interior_point.run(_quadratic(problem), ahead, ahead * FLOOR * problem.scale, max_iter)
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
