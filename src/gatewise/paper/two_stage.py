"""Why the plain two-stage rule is biased: the routed part of the truth projects on the shared columns.

The step design is the plainest case: a shared slope, and routed offsets -1 and 1. Fitting the slope to y alone takes
most of the step for slope, and constant routed experts cannot give it back.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gatewise.arrays import as_count, Floats
from gatewise.paper.runner import Runner
from gatewise.paper.shared_designs import regions, SharedDesign
from gatewise.shared.additive_fit import Maps
from gatewise.shared.bases import ConstantBasis, PolynomialBasis
from gatewise.shared.least_squares import FITS

METHODS = ("joint", "two-stage", "two-stage-plain")
SIZES = (200, 800, 3200, 12_800)
GRID = (np.arange(5000) + 0.5)[:, None] / 5000


def _slope(X: Floats) -> Floats:
    return X[:, 0].copy()


def _minus_one(X: Floats) -> Floats:
    return -np.ones(len(X))


def _one(X: Floats) -> Floats:
    return np.ones(len(X))


STEP = SharedDesign(
    "step", _slope, (_minus_one, _one), PolynomialBasis(1, feature=0, intercept=False), ConstantBasis()
)


@dataclass(frozen=True)
class StageRow:
    """One method at one sample size: the estimated slope (truth: 1) and the prediction error."""

    method: str
    n: int
    slope: float
    slope_sd: float
    mse: float
    mse_se: float


def plain_limit(design: SharedDesign = STEP) -> tuple[Floats, float]:
    """What the plain rule tends to as n grows: its shared coefficients and its squared error.

    In the step design the slope is 1 + <x, f_R> / <x, x> = 1.75, and 0.75^2 / 48 is left of the error.

    >>> slope, floor = plain_limit()
    >>> slope.round(4), round(floor, 4), round(0.75**2 / 48, 4)
    (array([1.75]), 0.0117, 0.0117)
    """
    maps = Maps(design.shared, (design.routed,) * 2)
    fit = FITS["two-stage-plain"](maps.problem(GRID, design.truth(GRID), regions(GRID)))
    return fit.shared, fit.rss / len(GRID)


def replicate(n: int, replication: int, seed: int = 0) -> Floats:
    """Slope and integrated squared error of every method on one sample, (3, 2)."""
    maps = Maps(STEP.shared, (STEP.routed,) * 2)
    X, y = STEP.sample(n, np.random.default_rng(np.random.SeedSequence((seed, 2, n, replication))))
    problem, truth = maps.problem(X, y, regions(X)), STEP.truth(GRID)
    rows = []
    for method in METHODS:
        fit = FITS[method](problem)
        misses = maps.components(GRID, regions(GRID), fit).sum(axis=1) - truth
        rows.append([fit.shared[0], (misses**2).mean()])
    return np.array(rows)


def run(sizes: Sequence[int] = SIZES, reps: int = 100, seed: int = 0, runner: Runner | None = None) -> list[StageRow]:
    """Every method at every size."""
    as_count(reps, "reps", low=2)
    tasks = [(n, r, seed) for n in sizes for r in range(reps)]
    runs = (runner or Runner()).run("two-stage/1", replicate, tasks)
    results = np.array(runs).reshape(len(sizes), reps, len(METHODS), 2)
    rows = []
    for n, at_n in zip(sizes, results, strict=True):
        for method, values in zip(METHODS, at_n.swapaxes(0, 1), strict=True):
            mean, sd = values.mean(axis=0).tolist(), values.std(axis=0, ddof=1).tolist()
            rows.append(StageRow(method, n, mean[0], sd[0], mean[1], sd[1] / float(np.sqrt(reps))))
    return rows
