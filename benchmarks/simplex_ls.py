"""Least squares over a kernel gate: time and certified gap beside what scipy offers and NumPy allows, in one run.

Every solver gets the same rows and is timed from rows to weights, in turn with the others. Its weights are put on the
simplices (negative ones cut, columns rescaled) and certified by one function: the Frank-Wolfe gap over the objective.
The rival of a case is the fastest of the others whose relative gap is at most 1e-6.
scipy's `lsq_linear` takes bounds only, which is this problem for two experts; `linprog` and `milp` reach
HiGHS without quadratic objectives. BLAS runs on one thread.
"""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import Bounds, LinearConstraint, lsq_linear, minimize, nnls
from threadpoolctl import threadpool_limits

from benchmarks.timing import in_turn, save
from gatewise import KernelGate
from gatewise.arrays import Floats
from gatewise.solvers.simplex_least_squares import simplex_least_squares

Rows = tuple[Floats, Floats, Floats]  # features (n, C), F (n, M), y (n,)
ACCURATE = 1e-6


def design(features: Floats, F: Floats) -> Floats:
    return (F[:, :, None] * features[:, None, :]).reshape(len(F), -1)  # (n, M C)


def ours(features: Floats, F: Floats, y: Floats) -> Floats:
    return simplex_least_squares(features, F, y).theta


def nnls_heavy_row(features: Floats, F: Floats, y: Floats) -> Floats:
    """The sum of every centre as a row of weight 1e6 in non-negative least squares."""
    return _nnls(features, F, y, weight=1e6, rounds=1)


def nnls_multipliers(features: Floats, F: Floats, y: Floats) -> Floats:
    """The same with weight 1e3, and twice more with the sums that were missed added to the target."""
    return _nnls(features, F, y, weight=1e3, rounds=3)


def _nnls(features: Floats, F: Floats, y: Floats, weight: float, rounds: int) -> Floats:
    M, C = F.shape[1], features.shape[1]
    rows = np.column_stack([design(features, F), y]) / np.sqrt(len(y))
    if len(rows) > M * C + 1:
        rows = np.linalg.qr(rows, mode="r")
    weight *= float(np.sqrt((rows**2).sum(axis=0).max()))
    matrix, sums = np.vstack([rows[:, :-1], weight * np.tile(np.eye(C), M)]), np.ones(C)
    for _ in range(rounds):
        flat, _ = nnls(matrix, np.concatenate([rows[:, -1], weight * sums]), maxiter=50 * M * C)
        theta = flat.reshape(M, C)
        sums = sums + 1.0 - theta.sum(axis=0)
    return theta


def active_set(features: Floats, F: Floats, y: Floats) -> Floats:
    """Non-negative least squares on the Gram matrix; the active set takes in the best expert of every centre at once.

    Sums are heavy rows of weight 1e3, and once more with the sums that were missed added to the target.
    """
    M, C = F.shape[1], features.shape[1]
    rows = design(features, F)
    gram, linear = rows.T @ rows / len(y), rows.T @ y / len(y)
    size, center = float(gram.diagonal().max()), np.arange(M * C) % C
    gram[center[:, None] == center] += 1e6 * size
    gram[np.diag_indices(M * C)] += 1e-11 * size
    x, free, sums = np.zeros(M * C), np.zeros((M, C), dtype=bool), np.ones(C)
    for _ in range(2):
        target = linear + 1e6 * size * np.tile(sums, M)
        _to_optimum(gram, target, x, free, 1e-9 * float(np.abs(linear).max()))
        sums = sums + 1.0 - x.reshape(M, C).sum(axis=0)
    return x.reshape(M, C)


def _to_optimum(gram: Floats, target: Floats, x: Floats, free: NDArray[np.bool_], tolerance: float) -> None:
    """The non-negative minimum of x' gram x / 2 - target' x, from ``x`` with the support ``free``, both in place."""
    for _ in range(200):
        x[:] = _within(gram, target, x, free)
        pull = np.where(free, -np.inf, (target - gram[:, free.ravel()] @ x[free.ravel()]).reshape(free.shape))
        best = pull.argmax(axis=0)
        wanted = np.flatnonzero(pull[best, np.arange(len(best))] > tolerance)
        if not wanted.size:
            return
        free[best[wanted], wanted] = True
    raise RuntimeError("no optimum in 200 rounds")


def _within(gram: Floats, target: Floats, x: Floats, free: NDArray[np.bool_]) -> Floats:
    """The minimum over a support, which loses what would become negative on the way."""
    while True:
        here = np.flatnonzero(free)
        found = np.zeros(len(x))
        if here.size:
            found[here] = cho_solve(cho_factor(gram[np.ix_(here, here)], overwrite_a=True), target[here])
        bad = here[found[here] <= 0.0]
        if not bad.size:
            return found
        x = x + np.min(x[bad] / (x[bad] - found[bad])) * (found - x)
        gone = bad[x[bad] <= 1e-12]
        x[gone] = 0.0
        free.ravel()[gone] = False


def slsqp(features: Floats, F: Floats, y: Floats) -> Floats:
    value, slope, _, sums, start = _smooth(features, F, y)
    equal = {"type": "eq", "fun": lambda x: sums @ x - 1.0, "jac": lambda x: sums}  # noqa: ARG005
    options = {"ftol": 1e-15, "maxiter": 1000}
    bounds = [(0.0, 1.0)] * start.size
    result = minimize(value, start, jac=slope, bounds=bounds, constraints=equal, method="SLSQP", options=options)
    return result.x.reshape(F.shape[1], -1)


def trust_constr(features: Floats, F: Floats, y: Floats) -> Floats:
    value, slope, hessian, sums, start = _smooth(features, F, y)
    options = {"gtol": 1e-12, "xtol": 1e-14, "barrier_tol": 1e-12, "maxiter": 1000}
    result = minimize(
        value,
        start,
        jac=slope,
        hess=lambda x: hessian,  # noqa: ARG005
        bounds=Bounds(0.0, 1.0),
        constraints=LinearConstraint(sums, 1.0, 1.0),
        method="trust-constr",
        options=options,
    )
    return result.x.reshape(F.shape[1], -1)


def _smooth(features: Floats, F: Floats, y: Floats) -> tuple[Any, ...]:
    M, C = F.shape[1], features.shape[1]
    matrix = design(features, F)
    hessian, linear = 2 * matrix.T @ matrix / len(y), 2 * matrix.T @ y / len(y)
    return (
        lambda x: 0.5 * x @ hessian @ x - linear @ x,
        lambda x: hessian @ x - linear,
        hessian,
        np.tile(np.eye(C), M),
        np.full(M * C, 1.0 / M),
    )


def bounded(features: Floats, F: Floats, y: Floats) -> Floats:
    """`lsq_linear` by bvls, for two experts: the second weight is one less the first."""
    matrix, target = features * (F[:, :1] - F[:, 1:]), y - features.sum(axis=1) * F[:, 1]
    first = lsq_linear(matrix, target, (0.0, 1.0), method="bvls", tol=1e-15).x
    return np.stack([first, 1.0 - first])


def certify(theta: Floats, features: Floats, F: Floats, y: Floats) -> tuple[float, float]:
    """The objective and the relative gap of theta, once it lies on the simplices."""
    theta = np.maximum(theta, 0.0)
    theta = theta / theta.sum(axis=0)
    residual = y - np.einsum("im,im->i", features @ theta.T, F)
    gradient = -2.0 * (F * residual[:, None]).T @ features / len(y)
    objective = float(np.mean(residual**2))
    return objective, float(np.sum((gradient - gradient.min(axis=0)) * theta)) / objective


def paper_rows(kind: str, n: int, rng: np.random.Generator) -> Rows:
    """The linear design (9 centres) or the nonlinear one (16 centres) of the paper's simulations."""
    X = rng.uniform(-1, 1, (n, 2))
    x1, x2 = X.T
    if kind == "linear":
        F = np.column_stack([2 + 2 * x1 - x2, -1 - x1 + 2 * x2, 1 + np.sin(np.pi * x1) - 1.5 * x2**2])
        scores, sigma, gate = np.column_stack([2 * x1, 2 * x2, 0 * x1]), 0.5, (1.0, 0.75)
    else:
        third = 2.5 * np.sin(np.pi * x1 * x2) - 3 * x1 + 2 * x2
        F = np.column_stack([3 + 3 * x1 - 2 * x2, -2 - 2 * x1 + 3 * x2, third])
        angle = np.arctan2(x2, x1)
        angle = angle + 0.85 * np.sin(4.5 * np.hypot(x1, x2) + 1.8 * angle) + 0.35 * np.sin(4 * angle)
        scores = 7 * np.cos(angle[:, None] - np.pi * np.array([1, 1 / 3, -1 / 3]))
        sigma, gate = 0.3, (2 / 3, 0.5)
    weights = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    y = (weights * F).sum(axis=1) + sigma * rng.normal(size=n)
    return KernelGate(3, mesh=gate[0], kappa=gate[1], low=-1.0, high=1.0).features(X), F, y


def grid_rows(n: int, M: int, side: int, rng: np.random.Generator, agree: bool = False) -> Rows:
    """Smooth experts on the unit square, side x side centres; the last two may agree everywhere."""
    X = rng.uniform(0, 1, (n, 2))
    F = np.column_stack([np.sin(2 * (m + 1) * X[:, 0] + m) + np.cos(3 * m * X[:, 1]) for m in range(M)])
    if agree:
        F[:, -1] = F[:, -2]
    truth = np.where(X.sum(axis=1) > 1, F[:, 0], F[:, : min(M, 3)].mean(axis=1))
    return KernelGate(M, mesh=1 / (side - 1)).features(X), F, truth + 0.3 * rng.normal(size=n)


SMALL = (ours, nnls_multipliers, nnls_heavy_row, active_set, slsqp, trust_constr)
MIDDLE = (ours, nnls_multipliers, nnls_heavy_row, active_set)
LARGE = (ours, nnls_heavy_row, active_set)
Case = tuple[str, Callable[[np.random.Generator], Rows], tuple[Callable[..., Floats], ...], int]
CASES: tuple[Case, ...] = (
    ("linear design, n=200, M=3, C=9", lambda rng: paper_rows("linear", 200, rng), SMALL, 7),
    ("linear design, n=1000, M=3, C=9", lambda rng: paper_rows("linear", 1000, rng), SMALL, 7),
    ("nonlinear design, n=500, M=3, C=16", lambda rng: paper_rows("nonlinear", 500, rng), SMALL, 7),
    ("nonlinear design, n=1000, M=3, C=16", lambda rng: paper_rows("nonlinear", 1000, rng), SMALL, 7),
    ("two experts, n=1000, M=2, C=100", lambda rng: grid_rows(1000, 2, 10, rng), (*MIDDLE, bounded), 5),
    ("n=2000, M=4, C=100", lambda rng: grid_rows(2000, 4, 10, rng), MIDDLE, 5),
    ("two experts agree, n=2000, M=4, C=100", lambda rng: grid_rows(2000, 4, 10, rng, True), MIDDLE, 5),
    ("fewer rows, n=200, M=4, C=100", lambda rng: grid_rows(200, 4, 10, rng), MIDDLE, 5),
    ("n=5000, M=5, C=400", lambda rng: grid_rows(5000, 5, 20, rng), LARGE, 3),
    ("fewer rows, two agree, n=1000, M=5, C=400", lambda rng: grid_rows(1000, 5, 20, rng, True), LARGE, 3),
)


def measure(title: str, rows: Rows, solvers: tuple[Callable[..., Floats], ...], rounds: int) -> dict[str, Any]:
    """Median seconds, objective and relative gap of every solver, and how much faster ours is than its rival."""
    found, results = {}, []
    for solver in solvers:
        try:
            found[solver.__name__] = certify(solver(*rows), *rows)
        except (RuntimeError, ValueError, np.linalg.LinAlgError) as error:
            results.append({"solver": solver.__name__, "error": str(error)})
    jobs = {one.__name__: (lambda one=one: one(*rows)) for one in solvers if one.__name__ in found}
    times = in_turn(jobs, rounds)
    for name, (objective, gap) in found.items():
        results.append(
            {"solver": name, "seconds": times.medians()[name], "objective": objective, "relative_gap": gap}
        )
    rival = times.fastest(*(name for name, (_, gap) in found.items() if name != "ours" and gap <= ACCURATE))
    return {"case": title, "results": results, "rival": rival, "faster_than_rival": times.ratio(rival, "ours")}


def run() -> dict[str, Any]:
    """Every case with every solver that finishes it in reasonable time."""
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = [
            measure(title, make(np.random.default_rng(0)), solvers, rounds) for title, make, solvers, rounds in CASES
        ]
    return {"scipy": scipy.__version__, "blas_threads": 1, "cases": cases}


def main() -> None:
    save("simplex_ls", run())


if __name__ == "__main__":
    main()
