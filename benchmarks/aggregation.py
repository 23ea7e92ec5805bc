"""Calibration and aggregation over 57,600 candidates against NumPy; threads, skipping, Top-K, projection, a list.

Memory is the peak of a process of its own, less what it held before the net was swept.
"""

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit
from threadpoolctl import threadpool_limits

from benchmarks.numpy_rivals import Problem, with_blas, with_product
from benchmarks.timing import in_turn, save
from gatewise.aggregation.engine import aggregate, calibrate, project_l2
from gatewise.aggregation.gate_candidates import ListCandidates, ProductCandidates
from gatewise.kernels.net import drivers as kernels
from gatewise.kernels.simd.elementary import exp_lanes
from gatewise.kernels.simd.lanes import load, store, WIDTH

BOUNDS = (0.05, 5.0)


def linear_problem(grid: tuple[int, ...], n: int, seed: int = 0) -> Problem:
    """Three experts in the plane, a true gate of the family, noise 0.3; each coefficient on its own grid."""
    rng = np.random.default_rng(seed)
    axes = [np.linspace(-3.0, 3.0, g) for g in grid]
    factor = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(grid))
    truth = rng.uniform(-2.5, 2.5, (2, len(grid)))

    def block() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        X = rng.uniform(-1.0, 1.0, (n, len(grid) - 1))
        features = np.column_stack([X, np.ones(n)])
        F = np.column_stack([X[:, 0] + 1.0, 1.0 - X[:, 1], np.sin(3.0 * X[:, 0])])
        gate = np.exp(np.column_stack([features @ truth.T, np.zeros(n)]))
        gate /= gate.sum(axis=1, keepdims=True)
        return features, (gate * F).sum(axis=1) + 0.3 * rng.standard_normal(n), F

    return Problem((factor, factor.copy()), (block(), block()))


def whole(candidates: Any, blocks: Any, n_threads: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Both steps through the engine: online predictions and averaged weights."""
    sigma = calibrate(candidates, *blocks[0], BOUNDS, n_threads)
    result = aggregate(candidates, *blocks[1], sigma, n_threads=n_threads)
    return result.predictions, result.mean_weights[0]


def against_numpy(n: int, rounds: int) -> dict[str, Any]:
    problem = linear_problem((8, 6, 5), n)
    candidates, sparse = ProductCandidates(problem.factors), ProductCandidates(problem.factors, k=2)
    theta, blocks = problem.theta, problem.blocks
    times = in_turn(
        {
            "gatewise": lambda: whole(candidates, blocks),
            "numpy_product": lambda: with_product(problem, BOUNDS),
            "numpy_blas": lambda: with_blas(theta, blocks, BOUNDS),
        },
        rounds,
    )
    own = variants(candidates, sparse, blocks, 3 * rounds)
    results = [whole(candidates, blocks), with_blas(theta, blocks, BOUNDS), with_product(problem, BOUNDS)]
    return {
        "seconds": times.medians(),
        "ns_per_candidate_and_row": times.medians()["gatewise"] / (len(theta) * n) * 1e9,
        "faster_than_numpy_product": times.ratio("numpy_product", "gatewise"),
        "faster_than_numpy_blas": times.ratio("numpy_blas", "gatewise"),
        **own,
        "largest_difference": _difference(results),
    }


def variants(candidates: Any, sparse: Any, blocks: Any, rounds: int) -> dict[str, Any]:
    """Two threads and Top-2 beside one thread, and in the same rounds what two threads gain at best."""
    arrays = [np.linspace(-1.0, 0.0, 512) for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        times = in_turn(
            {
                "dense": lambda: whole(candidates, blocks),
                "two_threads": lambda: whole(candidates, blocks, 2),
                "top2": lambda: whole(sparse, blocks),
                "bare_loop": lambda: _exponentials(arrays[0], 100_000),
                "bare_loop_of_two": lambda: list(pool.map(lambda x: _exponentials(x, 50_000), arrays)),
            },
            rounds,
        )
    return {
        "seconds_of_variants": times.medians(),
        "two_threads": times.ratio("dense", "two_threads"),
        "two_threads_at_best": times.ratio("bare_loop", "bare_loop_of_two"),
        "top2_over_dense": times.ratio("top2", "dense"),
    }


@njit(nogil=True)
def _exponentials(x: np.ndarray, times: int) -> None:
    """Exponentials of 512 numbers again and again: nothing that two threads share, nothing serial."""
    for _ in range(times):
        for at in range(0, x.size, WIDTH):
            store(x, at, 0.0 - exp_lanes(load(x, at)))


def _difference(results: list[tuple[np.ndarray, np.ndarray]]) -> float:
    first = results[0]
    return max(float(np.abs(a - b).max()) for other in results[1:] for a, b in zip(first, other, strict=True))


def skipping(n: int, rounds: int) -> dict[str, Any]:
    """Both sweeps with and without exact skipping, and how far the results differ."""
    problem = linear_problem((8, 6, 5), n)
    candidates = ProductCandidates(problem.factors)
    sigma = calibrate(candidates, *problem.blocks[0], BOUNDS)
    tables: Any = candidates.tables(*problem.blocks[1])
    setting = kernels.weight_rule(candidates.size, sigma, None, 0, 0.0)
    edges = np.array([0, n])

    def sweeps(margin: float) -> tuple[np.ndarray, np.ndarray]:
        weighing = setting._replace(margin=margin)
        swept = kernels.sweep(tables, weighing)
        return swept.residual, kernels.mean_weights(tables, weighing, swept, edges)[0]

    times = in_turn({"skipping": lambda: sweeps(setting.margin), "all": lambda: sweeps(np.inf)}, rounds)
    return {
        "seconds": times.medians(),
        "skipping_over_all": times.ratio("skipping", "all"),
        "saved": 1.0 - times.ratio("skipping", "all")["median"],
        "largest_difference": _difference([sweeps(setting.margin), sweeps(np.inf)]),
    }


def projection(n: int, rounds: int) -> dict[str, Any]:
    """The nearest candidate with early abort, and by a full scan."""
    problem = linear_problem((8, 6, 5), n)
    candidates = ProductCandidates(problem.factors)
    features, _, F = problem.blocks[1]
    predictions, _ = whole(candidates, problem.blocks)
    tables: Any = candidates.tables(features, predictions, F)
    times = in_turn(
        {
            "abort": lambda: kernels.least_square(tables),
            "full": lambda: int(np.argmin(kernels.mean_square(tables))),
        },
        rounds,
    )
    same = project_l2(candidates, features, predictions, F).candidate == int(np.argmin(kernels.mean_square(tables)))
    return {"seconds": times.medians(), "abort_over_full": times.ratio("abort", "full"), "same_candidate": same}


def explicit(rounds: int) -> dict[str, Any]:
    """A list of 20,000 candidates, M = 8, d = 10, n = 200, against NumPy with scores from BLAS."""
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(20_000, 7, 11)) * 0.5

    def block() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        features = np.column_stack([rng.normal(size=(200, 10)), np.ones(200)])
        F = rng.normal(size=(200, 8))
        return features, F.mean(axis=1) + 0.3 * rng.standard_normal(200), F

    blocks = (block(), block())
    times = in_turn(
        {
            "gatewise": lambda: whole(ListCandidates(theta), blocks),
            "numpy_blas": lambda: with_blas(theta, blocks, BOUNDS),
        },
        rounds,
    )
    return {
        "seconds": times.medians(),
        "faster_than_numpy_blas": times.ratio("numpy_blas", "gatewise"),
        "largest_difference": _difference([whole(ListCandidates(theta), blocks), with_blas(theta, blocks, BOUNDS)]),
    }


def large(grid: tuple[int, ...], n: int) -> dict[str, Any]:
    """One large net on two threads, once, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.aggregation", "--one", json.dumps([grid, n])]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def one_net(grid: tuple[int, ...], n: int) -> dict[str, Any]:
    """The time of a net, and by how much the peak of this process lies above what it held before."""
    small, problem = linear_problem((2, 2, 2), n), linear_problem(grid, n)
    whole(ProductCandidates(small.factors), small.blocks, 2)  # load the compiled code
    candidates = ProductCandidates(problem.factors)
    before, start = _memory(), time.perf_counter()
    whole(candidates, problem.blocks, 2)
    seconds, grown = time.perf_counter() - start, _peak_memory() - before
    return {
        "S": candidates.size,
        "n": n,
        "seconds_two_threads": seconds,
        "bytes_per_candidate": grown / candidates.size,
    }


def _memory() -> int:
    """The memory that this process holds now, in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def _peak_memory() -> int:
    """The most memory that this process has held, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def run(rounds: int = 5, largest: bool = False) -> dict[str, Any]:
    with threadpool_limits(1):
        jobs: dict[str, Callable[[], dict[str, Any]]] = {
            "n200": lambda: against_numpy(200, 2 * rounds),
            "n1000": lambda: against_numpy(1_000, rounds),
            "skipping_n1000": lambda: skipping(1_000, rounds),
            "projection_n1000": lambda: projection(1_000, rounds),
            "list_M8_d10": lambda: explicit(rounds),
            "S1679616": lambda: large((6, 6, 6, 6), 400),
        }
        if largest:
            jobs["S1e8"] = lambda: large((10, 10, 10, 10), 200)
        return {"S": 57_600, "M": 3, "d": 2, **{name: job() for name, job in jobs.items()}}


def main() -> None:
    if "--one" in sys.argv:
        grid, n = json.loads(sys.argv[sys.argv.index("--one") + 1])
        print(json.dumps(one_net(tuple(grid), n)))
        return
    save("aggregation", run(largest="--largest" in sys.argv))


if __name__ == "__main__":
    main()
