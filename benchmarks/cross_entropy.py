"""The cross-entropy fit of a softmax gate: time and certified gap beside scipy's bounded solvers, in one run.

Every solver starts at zero, gets the analytic gradient (trust-constr and Newton's method also the Hessian) and
tolerances that ask for all it can give; Newton's method in NumPy stops at a gap of 1e-9. One function certifies
the result: the Frank-Wolfe gap over the box. Solvers are timed in turn; the rival of a case is the fastest whose gap
is at most 1e-5. BLAS runs on one thread.
"""

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy
from scipy.optimize import Bounds, minimize
from scipy.special import softmax
from threadpoolctl import threadpool_limits

from benchmarks.timing import in_turn, save
from gatewise import LinearGate, QuadraticGate
from gatewise.aggregation import cross_entropy_fit
from gatewise.arrays import Floats
from gatewise.gates import ScoreGate
from gatewise.solvers.cross_entropy import box_gap, cross_entropy

ROUNDS, ACCURATE = 5, 1e-5


class Case(NamedTuple):
    """Rows, soft labels and a box for one gate."""

    gate: ScoreGate
    X: Floats
    labels: Floats
    radius: float


def make(gate: ScoreGate, n: int, d: int, radius: float, hard: bool = False) -> Case:
    """The mean gate of 20 random candidates as labels; or the leading expert of one of them."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n, d))
    thetas = rng.normal(0, 2, (20, *gate.theta_shape(d)))
    if hard:
        return Case(gate, X, np.eye(gate.n_experts)[gate.weights(X, thetas[0]).argmax(axis=1)], radius)
    return Case(gate, X, gate.mean_weights(X, thetas), radius)


CASES = {
    "linear, n=200, d=2, M=3, radius 3": make(LinearGate(3), 200, 2, 3.0),
    "quadratic, n=500, d=2, M=3, radius 30": make(QuadraticGate(3), 500, 2, 30.0),
    "quadratic, n=5000, d=6, M=5, radius 30": make(QuadraticGate(5), 5000, 6, 30.0),
    "hard labels, linear, n=2000, d=10, M=5, radius 30": make(LinearGate(5), 2000, 10, 30.0, hard=True),
}


def ours(case: Case) -> Floats:
    return cross_entropy_fit(case.gate, case.X, case.labels, case.radius).theta


def scipy_solver(method: str, options: dict[str, Any]) -> Callable[[Case], Floats]:
    def solve(case: Case) -> Floats:
        features, shape = case.gate.features(case.X), case.gate.theta_shape(case.X.shape[1])

        def flat(theta: Floats) -> tuple[float, Floats]:
            value, gradient = cross_entropy(theta.reshape(shape), features, case.labels)
            return value, gradient.ravel()

        second = {"hess": lambda x: hessian(x.reshape(shape), features)} if method == "trust-constr" else {}
        bounds = Bounds(-case.radius, case.radius)
        start = np.zeros(shape).ravel()
        result = minimize(flat, start, jac=True, bounds=bounds, method=method, options=options, **second)
        return np.clip(result.x.reshape(shape), -case.radius, case.radius)

    solve.__name__ = method
    return solve


def hessian(theta: Floats, features: Floats) -> Floats:
    """The second derivative, block by block: one matrix product for each pair of experts."""
    g = softmax(np.column_stack([features @ theta.T, np.zeros(len(features))]), axis=1)[:, :-1]
    M, p = theta.shape
    blocks = np.empty((M, p, M, p))
    for a in range(M):
        for b in range(a + 1):
            weight = g[:, a] * ((a == b) - g[:, b])
            blocks[a, :, b] = (features * weight[:, None]).T @ features
            blocks[b, :, a] = blocks[a, :, b].T
    return blocks.reshape(theta.size, theta.size) / len(g)


def newton(case: Case) -> Floats:
    """Newton's method in NumPy over the coefficients that are not held at the border of the box, steps halved."""
    features, theta = case.gate.features(case.X), np.zeros(case.gate.theta_shape(case.X.shape[1]))
    value, gradient = cross_entropy(theta, features, case.labels)
    for _ in range(100):
        if box_gap(gradient, theta, case.radius) < 1e-9:
            break
        free = np.flatnonzero((np.abs(theta) < case.radius) | (gradient * theta > 0.0))
        second = hessian(theta, features)[np.ix_(free, free)] + 1e-12 * np.eye(len(free))
        step, size = np.zeros(theta.size), 1.0
        step[free] = np.linalg.solve(second, gradient.ravel()[free])
        while size > 1e-10:
            trial = np.clip(theta - size * step.reshape(theta.shape), -case.radius, case.radius)
            lower, slope = cross_entropy(trial, features, case.labels)
            if lower <= value:
                break
            size /= 2.0
        theta, value, gradient = trial, lower, slope
    return theta


SOLVERS = (
    ours,
    newton,
    scipy_solver("L-BFGS-B", {"ftol": 0.0, "gtol": 1e-14, "maxiter": 10_000, "maxfun": 100_000, "maxcor": 20}),
    scipy_solver("TNC", {"ftol": 0.0, "gtol": 1e-14, "xtol": 0.0, "maxfun": 20_000}),
    scipy_solver("trust-constr", {"gtol": 1e-12, "xtol": 1e-14, "barrier_tol": 1e-12, "maxiter": 300}),
)


def measure(title: str, case: Case) -> dict[str, Any]:
    """Median seconds, objective and gap of every solver, and how much faster ours is than its rival."""
    times = in_turn({solver.__name__: (lambda solver=solver: solver(case)) for solver in SOLVERS}, ROUNDS)
    results = []
    for solver in SOLVERS:
        theta = solver(case)
        value, gradient = cross_entropy(theta, case.gate.features(case.X), case.labels)
        gap = box_gap(gradient, theta, case.radius)
        seconds = times.medians()[solver.__name__]
        results.append({"solver": solver.__name__, "seconds": seconds, "objective": value, "gap": gap})
    rival = times.fastest(*(row["solver"] for row in results[1:] if row["gap"] <= ACCURATE))
    return {"case": title, "results": results, "rival": rival, "faster_than_rival": times.ratio(rival, "ours")}


def run() -> dict[str, Any]:
    """Every case with every solver."""
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = [measure(title, case) for title, case in CASES.items()]
    return {"scipy": scipy.__version__, "blas_threads": 1, "cases": cases}


def main() -> None:
    save("cross_entropy", run())


if __name__ == "__main__":
    main()
