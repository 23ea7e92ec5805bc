"""Particles in the place of a net: agreement with a net of 16^6 points, and 77 parameters where no net can be built.

Run ``python -m benchmarks.particles`` from the root of the repository; the figures go to benchmarks/results.
"""

from itertools import combinations
from time import perf_counter, process_time
from typing import Any

import numpy as np

from benchmarks.timing import save
from gatewise.aggregation.particles.particle_run import Particles
from gatewise.aggregation.particles.particle_run import run_particles as aggregate
from gatewise.gates import LinearGate
from tests.aggregation.reference_net import net_predictions

RADIUS = 3.0
THREADS = 2


class Gaussian:
    def log_density(self, z: Any) -> Any:
        return -0.5 * np.square(z) - 0.5 * np.log(2 * np.pi)


def three_experts(n: int, sd: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The paper's linear design, M = 3 and d = 2, with noise of this standard deviation."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 2))
    a, b = X.T
    F = np.column_stack([2 + 2 * a - b, -1 - a + 2 * b, 1 + np.sin(np.pi * a) - 1.5 * b**2])
    mean = (LinearGate(3).weights(X, [[2.0, 0.0, 0.0], [0.0, 2.0, 0.0]]) * F).sum(axis=1)
    return X, mean + sd * rng.normal(size=n), F


def eight_experts(n: int, sd: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """M = 8 affine experts in d = 10 that differ by about 1.3, and a gate drawn from the box: 77 parameters."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 10))
    F = X @ (0.5 * rng.normal(size=(8, 10))).T + 1.5 * rng.normal(size=8)
    theta = rng.uniform(-RADIUS, RADIUS, (7, 11))
    mean = (LinearGate(8).weights(X, theta) * F).sum(axis=1)
    return X, mean + sd * rng.normal(size=n), F


def rms(values: Any) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def against_net(per_axis: int = 16, sd: float = 1.0) -> dict[str, Any]:
    """Online predictions of 100 to 2,000 particles against the net, n = 1,000, known noise; gaps in noise SD."""
    X, y, F = three_experts(1000, sd)
    values = RADIUS * ((2 * np.arange(per_axis) + 1) / per_axis - 1)
    start = perf_counter()
    net = net_predictions(values, LinearGate(3).features(X), y, F, sigma=sd, n_threads=THREADS)
    rows = [{"what": f"net of {per_axis}^6", "seconds": perf_counter() - start}]
    for n in (100, 500, 2000):
        gaps, seconds = [], []
        for seed in (0, 1, 2):
            start = perf_counter()
            result = aggregate(Particles(n), LinearGate(3), X, y, F, Gaussian(), sd, rng=seed, n_threads=THREADS)
            seconds.append(perf_counter() - start)
            gaps.append(rms(result.predictions - net) / sd)
        rows.append({"what": f"{n} particles", "gap_to_net": gaps, "seconds": min(seconds)})
    return {"setting": f"M=3, d=2, n=1000, noise SD {sd}", "rows": rows}


def many_parameters(n_particles: int = 2000, sd: float = 0.5) -> dict[str, Any]:
    """2,000 particles over 77 parameters, n = 200, on three data sets: time and the mean gap between three seeds."""
    rows = []
    for data in (0, 1, 2):
        X, y, F = eight_experts(200, sd, data)
        runs, seconds, cpu = [], [], []
        for seed in (0, 1, 2):
            start, cpu_start = perf_counter(), process_time()
            runs.append(
                aggregate(Particles(n_particles), LinearGate(8), X, y, F, Gaussian(), sd, rng=seed, n_threads=THREADS)
            )
            seconds.append(perf_counter() - start)
            cpu.append(process_time() - cpu_start)
        gap = rms([a.predictions - b.predictions for a, b in combinations(runs, 2)]) / sd
        apart = float(F.std(axis=1).mean()) / sd
        rows.append(
            {
                "what": f"data {data}",
                "gap_between_runs": gap,
                "experts_apart": apart,  # in noise SD: the law of the first predictions is as wide as this
                "seconds": min(seconds),
                "cpu_seconds": min(cpu),  # of all threads together: seconds is more than half of it on busy cores
            }
        )
    return {"setting": f"M=8, d=10, n=200, {n_particles} particles, noise SD {sd}", "rows": rows}


def run() -> dict[str, Any]:
    """Both settings."""
    small, _, _ = three_experts(20, 1.0)
    aggregate(Particles(64), LinearGate(3), small, small[:, 0], np.ones((20, 3)) * [0, 1, 2], Gaussian(), 0.1, rng=0)
    return {"many_parameters": many_parameters(), "against_net": against_net()}


def main() -> None:
    save("particles", run())


if __name__ == "__main__":
    main()
