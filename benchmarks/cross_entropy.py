"""The cross-entropy fit of a softmax gate: time and certified gap beside scipy's bounded solvers, in one run.

Every solver starts at zero, gets the analytic gradient (trust-constr also the Hessian) and tolerances that
ask for all it can give. One function certifies the result: the Frank-Wolfe gap over the box. BLAS runs on
one thread.
"""

import json
import platform
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy
from scipy.optimize import Bounds, minimize
from scipy.special import softmax
from threadpoolctl import threadpool_limits

from gatewise import LinearGate, QuadraticGate
from gatewise.aggregation import cross_entropy_fit
from gatewise.arrays import Floats
from gatewise.gates import ScoreGate
from gatewise.solvers.cross_entropy import box_gap, cross_entropy

RESULT = Path(__file__).parent / "results" / "cross_entropy.json"
REPEATS = 5


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
    g = softmax(np.column_stack([features @ theta.T, np.zeros(len(features))]), axis=1)[:, :-1]
    middle = np.einsum("ia,ab->iab", g, np.eye(len(theta))) - g[:, :, None] * g[:, None, :]
    blocks = np.einsum("iab,ip,iq->apbq", middle, features, features, optimize=True)
    return blocks.reshape(theta.size, theta.size) / len(g)


SOLVERS = (
    ours,
    scipy_solver("L-BFGS-B", {"ftol": 0.0, "gtol": 1e-14, "maxiter": 10_000, "maxfun": 100_000, "maxcor": 20}),
    scipy_solver("TNC", {"ftol": 0.0, "gtol": 1e-14, "xtol": 0.0, "maxfun": 20_000}),
    scipy_solver("trust-constr", {"gtol": 1e-12, "xtol": 1e-14, "barrier_tol": 1e-12, "maxiter": 300}),
)


def measure(solver: Callable[[Case], Floats], case: Case) -> dict[str, Any]:
    seconds = np.inf
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(REPEATS):
            start = time.perf_counter()
            theta = solver(case)
            seconds = min(seconds, time.perf_counter() - start)
    value, gradient = cross_entropy(theta, case.gate.features(case.X), case.labels)
    gap = box_gap(gradient, theta, case.radius)
    return {"solver": solver.__name__, "seconds": seconds, "objective": value, "gap": gap}


def run() -> dict[str, Any]:
    """Every case with every solver."""
    with threadpool_limits(1):
        cases = [
            {"case": title, "results": [measure(solver, case) for solver in SOLVERS]} for title, case in CASES.items()
        ]
    return {
        "machine": platform.machine(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "blas_threads": 1,
        "cases": cases,
    }


def main() -> None:
    report = run()
    for case in report["cases"]:
        print(case["case"])
        for row in case["results"]:
            print(f"  {row['solver']:14} {1e3 * row['seconds']:9.2f} ms   gap {row['gap']:8.1e}")
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
