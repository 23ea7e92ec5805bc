"""Why the plain two-stage rule is biased: in the complex-shared design the routed part projects on the shared waves.

The routed parts form a tent over [0, 1], and a tent has a cosine of period one in it. Fitting the shared waves to y
alone takes that cosine for shared, and linear routed experts cannot give it back.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gatewise.checks import as_count
from gatewise.experiments.runner import Progress, run_tasks, silent
from gatewise.experiments.shared_designs import regions, SHARED_DESIGNS
from gatewise.shared.fitting import Maps
from gatewise.shared.least_squares import FITS

Floats = NDArray[np.float64]
METHODS = ("joint", "two-stage", "two-stage-plain")
SIZES = (200, 800, 3200, 12_800)
GRID = (np.arange(5000) + 0.5)[:, None] / 5000
DESIGN = SHARED_DESIGNS["complex-shared"]
MAPS = Maps(DESIGN.shared, (DESIGN.routed,) * 2)
COSINE = 1  # the column cos(2 pi x) of the shared basis; its coefficient in the truth is 0


@dataclass(frozen=True)
class StageRow:
    """One method at one sample size: the shared coefficient of cos(2 pi x) (truth: 0) and the prediction error."""

    method: str
    n: int
    coefficient: float
    coefficient_sd: float
    mse: float
    mse_se: float


def plain_limit() -> tuple[float, float]:
    """What the plain rule tends to: its coefficient of cos(2 pi x) and its squared error, without noise."""
    fit = FITS["two-stage-plain"](MAPS.problem(GRID, DESIGN.truth(GRID), regions(GRID)))
    return float(fit.shared[COSINE]), fit.rss / len(GRID)


def replicate(n: int, replication: int, seed: int = 0) -> Floats:
    """Coefficient and integrated squared error of every method on one sample, (3, 2)."""
    X, y = DESIGN.sample(n, np.random.default_rng(np.random.SeedSequence((seed, 2, n, replication))))
    problem, truth = MAPS.problem(X, y, regions(X)), DESIGN.truth(GRID)
    rows = []
    for method in METHODS:
        fit = FITS[method](problem)
        misses = MAPS.components(GRID, regions(GRID), fit).sum(axis=1) - truth
        rows.append([fit.shared[COSINE], (misses**2).mean()])
    return np.array(rows)


def run(
    sizes: Sequence[int] = SIZES, reps: int = 100, seed: int = 0, jobs: int = 1, progress: Progress = silent
) -> list[StageRow]:
    """Every method at every size."""
    as_count(reps, "reps", low=2)
    tasks = [(n, r, seed) for n in sizes for r in range(reps)]
    results = np.array(run_tasks(replicate, tasks, jobs, progress)).reshape(len(sizes), reps, len(METHODS), 2)
    rows = []
    for n, runs in zip(sizes, results, strict=True):
        for method, values in zip(METHODS, runs.swapaxes(0, 1), strict=True):
            mean, sd = values.mean(axis=0).tolist(), values.std(axis=0, ddof=1).tolist()
            rows.append(StageRow(method, n, mean[0], sd[0], mean[1], sd[1] / float(np.sqrt(reps))))
    return rows
