"""All softmax gates of a learned list, fitted at once: time and accuracy beside two rivals, in one run.

"L-BFGS-B" is scipy's, with value and gradient in NumPy, each fit started at the one of the spread before; "dense
Newton" is the solver of 0.1. Both stop when they gain less than 0.005 nats.

The list is that of `MoERegressor`: the gates linear, quadratic, kernel and forecast with four spreads each, with and
without a correction, and three corrected stacks; on five folds and on all rows. Forecasts are ready. Both solvers run
on one thread and are timed from arrays to parameters, in CPU seconds.

Accuracy: the objective reached, and how far the predictions are from those of the minimum next to it, which scipy
finds from where a fit ended (root mean square over the rows, in units of the noise of the reference), for the fits of
the full sample with at most 300 coefficients. A fit that ended at a saddle is far from that minimum.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from math import log
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import softmax
from threadpoolctl import threadpool_limits

from benchmarks.dense_newton import dense_path, Problem, problem, TOLERANCE
from benchmarks.timing import save
from gatewise.arrays import Floats
from gatewise.gates import ForecastGate, KernelGate, LinearGate, QuadraticGate
from gatewise.gates.inputs import Inputs
from gatewise.losses import ResidualLoss
from gatewise.solvers.softmax_path import GatePath, PathRequest, RowSample, sample_paths, stack_weights

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


class Work(NamedTuple):
    """The paths that a learned list asks for, the loss at the rows, and the samples: five folds, then all rows."""

    requests: list[PathRequest]
    loss: ResidualLoss
    samples: list[RowSample]


def make_work(X: Floats, F: Floats, y: Floats) -> Work:
    """What the learned list asks for."""
    Z = np.clip((X - X.mean(axis=0)) / X.std(axis=0), -2.5, 2.5)
    inputs = Inputs(Z, np.ones(len(X)), Z)
    families: dict[str, Any] = GATES
    features = {
        name: family.feature_map.fit(family if name != "kernel" else family(F.shape[1]), inputs, F, 0).features(
            inputs, F
        )
        for name, family in families.items()
    }
    n, M = F.shape
    linear = np.column_stack([np.ones(n), F])
    requests = [
        PathRequest(one, SPREADS, linear if on else None) for one in features.values() for on in (False, True)
    ]
    requests.append(PathRequest(np.zeros((n, 0)), np.ones(len(STACK_SPREADS)), linear, STACK_SPREADS))
    part = np.arange(n) * FOLDS // n  # the rows of a fold stand together, as in a fit of the router
    loss = ResidualLoss(y)
    weights = np.array([(part != fold) * 1.0 for fold in range(FOLDS + 1)])
    references = 0.95 * stack_weights(F, loss, weights) + 0.05 / M
    scales = np.sqrt(np.average((y[:, None] - F @ references.T) ** 2, axis=0, weights=weights.T))
    centers = weights @ F / weights.sum(axis=1, keepdims=True)
    asked = [np.flatnonzero(part == fold) for fold in range(FOLDS)] + [np.arange(n)]
    samples = [
        RowSample(*one, np.append(0.0, center), np.append(one[2], np.ones(M)))
        for *one, center in zip(references, weights, scales.tolist(), asked, centers, strict=True)
    ]
    return Work(requests, loss, samples)


def ours(F: Floats, work: Work) -> Paths:
    """Parameters, and the forecasts of the rows that were left out."""
    found = sample_paths(work.requests, F, work.loss, work.samples, n_threads=1)
    return [[one.path for one in paths] for paths in found]


def rival(F: Floats, work: Work) -> Paths:
    """Parameters alone."""
    return [
        [dense_path(_own(r, s), F, work.loss.y, s.scale**2, s.reference, s.sample_weight) for r in work.requests]
        for s in work.samples
    ]


def with_lbfgs(F: Floats, work: Work) -> Paths:
    """Parameters alone, by scipy's L-BFGS-B."""
    return [
        [
            dense_path(_own(r, s), F, work.loss.y, s.scale**2, s.reference, s.sample_weight, _lbfgs)
            for r in work.requests
        ]
        for s in work.samples
    ]


def _lbfgs(one: Problem, theta: Floats) -> Floats:
    def both(x: Floats) -> tuple[float, Floats]:
        point = one.at(x)
        return point.value, one.gradient(point, x)

    scale = TOLERANCE / max(both(theta)[0], 1.0)
    return np.asarray(minimize(both, theta, jac=True, method="L-BFGS-B", options={"ftol": scale, "gtol": 1e-4}).x)


def _own(request: PathRequest, sample: RowSample) -> PathRequest:
    """The request with the linear part as the sample has it."""
    if request.linear is None:
        return request
    return request._replace(linear=(request.linear - sample.center) * sample.unit)


def seconds(solver: Callable[..., Paths], F: Floats, work: Work) -> tuple[float, Paths]:
    """CPU seconds, and the paths."""
    start = time.process_time()
    found = solver(F, work)
    return time.process_time() - start, found


def _problems(F: Floats, work: Work, sample: RowSample, paths: list[GatePath]) -> Iterator[tuple[Problem, Floats]]:
    """Every fit of a sample: its objective, and the parameters that were found."""
    for request, path in zip(work.requests, paths, strict=True):
        own, spreads = _own(request, sample), np.broadcast_arrays(request.spreads, request.linear_spread)
        for number, (spread, linear_spread) in enumerate(zip(*spreads, strict=True)):
            one = own._replace(linear_spread=float(linear_spread))
            fit = problem(one, float(spread), F, work.loss.y, sample.scale**2, sample.reference, sample.sample_weight)
            yield fit, np.concatenate([path.theta[number].ravel(), path.linear[number]])


def objectives(F: Floats, work: Work, paths: Paths) -> Floats:
    """The objective of every fit, in nats."""
    return np.array(
        [
            fit.at(flat).value
            for sample, found in zip(work.samples, paths, strict=True)
            for fit, flat in _problems(F, work, sample, found)
        ]
    )


def distances(F: Floats, work: Work, paths: list[GatePath], most: int) -> list[float]:
    """How far every fit to all rows with at most ``most`` coefficients is from the minimum next to it."""
    fits = _problems(F, work, work.samples[-1], paths)
    return [_distance(fit, flat) for fit, flat in fits if len(fit.penalty) <= most]


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
            work = make_work(X, F, y)
            ours(F, work._replace(samples=work.samples[:1]))  # compile
            rivals = {"L-BFGS-B": with_lbfgs, "dense Newton": rival}
            solvers = {"gatewise": ours} | (rivals if (n, M) in rival_sizes else {})
            case: dict[str, Any] = {
                "n": n,
                "M": M,
                "fits": len(work.samples) * sum(len(r.spreads) for r in work.requests),
            }
            values = {}
            for name, solver in solvers.items():
                spent, paths = seconds(solver, F, work)
                values[name] = objectives(F, work, paths)
                far = distances(F, work, paths[-1], most)
                case[name] = {"cpu_seconds": spent, "fits_compared": len(far)}
                if far:
                    case[name] |= {"median_distance": float(np.median(far)), "largest_distance": float(max(far))}
            if "L-BFGS-B" in values:
                fall = values["L-BFGS-B"] - values["gatewise"]
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
