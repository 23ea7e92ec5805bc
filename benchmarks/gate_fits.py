"""All softmax gates of a learned list, fitted at once: time and accuracy beside the solver of 0.1, in one run.

The list is that of `MoERegressor`: the gates linear, quadratic, kernel and forecast with four spreads each, with and
without a correction, and three corrected stacks; on five folds and on all rows. Forecasts are ready. Both solvers run
on one thread and are timed from arrays to parameters, in CPU seconds.

Accuracy: the objective reached, and how far the predictions are from those of the minimum next to it, which scipy
finds from where a fit ended (root mean square over the rows, in units of the noise of the reference), for the fits of
the full sample with at most 300 coefficients. A fit that ended at a saddle is far from that minimum.
"""

import argparse
import time
from collections.abc import Callable
from math import log
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import softmax
from threadpoolctl import threadpool_limits

from benchmarks.dense_newton import dense_path, Problem, problem
from benchmarks.timing import save
from gatewise.arrays import Floats
from gatewise.gates import ForecastGate, KernelGate, LinearGate, QuadraticGate
from gatewise.gates.inputs import Inputs
from gatewise.losses import ResidualLoss
from gatewise.solvers.softmax_path import GatePath, PathRequest, PathSample, sample_paths, stack_weights

GATES = {"linear": LinearGate, "quadratic": QuadraticGate, "kernel": KernelGate, "forecast": ForecastGate}
SPREADS = (0.3, 1.0, 3.0, 10.0)
STACK_SPREADS = (0.3, 1.0, 3.0)
FOLDS = 5
SIZES = ((1000, 5), (1000, 10), (1000, 20), (1000, 40), (1000, 64), (4000, 10), (1000, 200))
RIVAL_SIZES = ((1000, 5), (1000, 10), (4000, 10))  # with 20 experts it takes about a minute, with 64 hours
Paths = list[list[GatePath]]


def make_rows(n: int, M: int, d: int = 5, seed: int = 0) -> tuple[Floats, Floats, Floats]:
    """Inputs, forecasts of M experts that err in waves of their own, and responses that follow a softmax gate."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    waves = np.sin(1.5 * X @ rng.normal(size=(M, d)).T / np.sqrt(d) + rng.uniform(0, 6, M))
    F = (X[:, 0] + np.sin(2.0 * X[:, 1]))[:, None] + 0.8 * waves + 0.3 * rng.normal(size=(n, M))
    gate = softmax(X @ rng.normal(size=(M, d)).T, axis=1)
    return X, F, (gate * F).sum(axis=1) + 0.5 * rng.normal(size=n)


def make_samples(X: Floats, F: Floats, y: Floats) -> list[PathSample]:
    """What the learned list asks for: five folds, then all rows."""
    inputs = Inputs(np.clip((X - X.mean(axis=0)) / X.std(axis=0), -2.5, 2.5), np.ones(len(X)))
    families: dict[str, Any] = GATES
    features = {
        name: family.feature_map.fit(family if name != "kernel" else family(F.shape[1]), inputs, F, 0).features(
            inputs, F
        )
        for name, family in families.items()
    }
    part = np.random.default_rng(0).permutation(len(y)) % FOLDS
    return [_sample(features, F, y, (part != fold) * 1.0) for fold in range(FOLDS + 1)]


def _sample(features: dict[str, Floats], F: Floats, y: Floats, weight: Floats) -> PathSample:
    stack = stack_weights(F, ResidualLoss(y), weight)
    reference = 0.95 * stack + 0.05 / len(stack)
    loss = ResidualLoss(y).calibrated(F @ reference, weight)
    linear = np.column_stack([np.full(len(F), float(loss.scale)), F - np.average(F, axis=0, weights=weight)])
    requests = [
        PathRequest(columns, SPREADS, linear if on else None) for columns in features.values() for on in (False, True)
    ]
    still = np.zeros((len(F), 0))
    requests += [PathRequest(still, (1.0,), linear, spread) for spread in STACK_SPREADS]
    return PathSample(requests, loss, reference, weight)


def ours(F: Floats, samples: list[PathSample]) -> Paths:
    return sample_paths(F, samples, n_threads=1)


def rival(F: Floats, samples: list[PathSample]) -> Paths:
    return [
        [dense_path(r, F, s.loss.y, float(s.loss.variance), s.reference, s.sample_weight) for r in s.requests]
        for s in samples
        if isinstance(s.loss, ResidualLoss)
    ]


def seconds(solver: Callable[..., Paths], F: Floats, samples: list[PathSample]) -> tuple[float, Paths]:
    """CPU seconds, and the paths."""
    start = time.process_time()
    found = solver(F, samples)
    return time.process_time() - start, found


def _problem(sample: PathSample, request: PathRequest, number: int, F: Floats) -> Problem:
    loss: Any = sample.loss
    spread = request.spreads[number]
    return problem(request, spread, F, loss.y, float(loss.variance), sample.reference, sample.sample_weight)


def objectives(F: Floats, samples: list[PathSample], paths: Paths) -> Floats:
    """The objective of every fit, in nats."""
    values = []
    for sample, found in zip(samples, paths, strict=True):
        for request, path in zip(sample.requests, found, strict=True):
            for number in range(len(request.spreads)):
                flat = np.concatenate([path.theta[number].ravel(), path.linear[number]])
                values.append(_problem(sample, request, number, F).at(flat).value)
    return np.array(values)


def distances(F: Floats, sample: PathSample, paths: list[GatePath], most: int) -> list[float]:
    """How far every fit with at most ``most`` coefficients is from the minimum next to it."""
    out = []
    for request, path in zip(sample.requests, paths, strict=True):
        for number in range(len(request.spreads)):
            one = _problem(sample, request, number, F)
            if len(one.penalty) <= most:
                flat = np.concatenate([path.theta[number].ravel(), path.linear[number]])
                out.append(_distance(one, flat))
    return out


def _distance(one: Problem, flat: Floats) -> float:
    found = minimize(
        lambda x: one.at(x).value,
        flat,
        jac=lambda x: one.gradient(one.at(x), x),
        hess=lambda x: one.hessian(one.at(x)),
        method="trust-exact",
        options={"gtol": 1e-7, "maxiter": 500, "initial_trust_radius": 0.5},
    )
    gap = (one.at(flat).slope - one.at(found.x).slope) / np.sqrt(one.precision)
    return float(np.sqrt(np.mean(gap**2)))


def run(sizes: tuple[tuple[int, int], ...], rival_sizes: tuple[tuple[int, int], ...], most: int) -> dict[str, Any]:
    cases = []
    for n, M in sizes:
        X, F, y = make_rows(n, M)
        with threadpool_limits(1):
            samples = make_samples(X, F, y)
            ours(F, samples[:1])  # compile
            solvers = {"gatewise": ours} | ({"dense Newton": rival} if (n, M) in rival_sizes else {})
            case: dict[str, Any] = {"n": n, "M": M, "fits": sum(len(r.spreads) for s in samples for r in s.requests)}
            values = {}
            for name, solver in solvers.items():
                spent, paths = seconds(solver, F, samples)
                values[name] = objectives(F, samples, paths)
                far = distances(F, samples[-1], paths[-1], most)
                case[name] = {"cpu_seconds": spent, "fits_compared": len(far)}
                if far:
                    case[name] |= {"median_distance": float(np.median(far)), "largest_distance": float(max(far))}
            if "dense Newton" in values:
                fall = values["dense Newton"] - values["gatewise"]
                case["lower_objective_by"] = {
                    "mean": float(fall.mean()),
                    "least": float(fall.min()),
                    "most": float(fall.max()),
                }
        print(case, flush=True)
        cases.append(case)
    times = {(case["n"], case["M"]): case["gatewise"]["cpu_seconds"] for case in cases}
    growth = log(times[1000, 40] / times[1000, 10]) / log(4.0) if {(1000, 10), (1000, 40)} <= set(times) else None
    return {"cases": cases, "growth_in_M_10_to_40": growth}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="*", metavar="NxM", help="as 1000x5; all unless given")
    parser.add_argument("--alone", action="store_true", help="without the rival")
    parser.add_argument("--most", type=int, default=300, help="coefficients of the fits whose distance is measured")
    given, _ = parser.parse_known_args()
    sizes = tuple(tuple(map(int, size.split("x"))) for size in given.sizes) if given.sizes else SIZES
    save("gate_fits", run(sizes, () if given.alone else RIVAL_SIZES, given.most))  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
