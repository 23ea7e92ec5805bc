"""Learner-specific risk profiles of `ex:fourier-x-sin-cos` and of its complement, over n, and their slopes.

The partition is known, as in `prop:procedure-shared`. A profile is the mean integrated squared error of one learner
on one target. In the Fourier example:

- ``shared alone``: the shared learner on f_S, n rows (rho_S)
- ``residual``: the routed learner of order 3 on f_j, its region's rows (the mean over both regions of rho_j)
- ``joint``: joint least squares of the true sizes on f_0
- ``joint, gcv``: the same with the routed order of each region chosen by GCV from 1..8
- ``pure, best size``: the pure-routed learner at the order that is best for that n, on average
- ``pure, gcv``: the pure-routed learner with the order of each region chosen by GCV

In the complement ``joint`` and ``pure``, whose routed learner is linear and has a bias floor.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from gatewise.arrays import as_count, Floats
from gatewise.paper.runner import Runner
from gatewise.paper.shared_designs import CUT, regions, SHARED_DESIGNS, SharedDesign
from gatewise.shared.additive_fit import Maps
from gatewise.shared.bases import FourierBasis
from gatewise.shared.least_squares import AdditiveFit, AdditiveProblem, factorize, joint_fit, pure_fit
from gatewise.shared.sieves import choose_sizes, gcv
from gatewise.stats import mean_and_error

SIZES = (200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 51_200)
SLOPE_FROM = 3200
NAME = "rates/1"  # the second number goes up when a replication's result would change
GCV_ORDERS = tuple(range(1, 9))
# 2,000 midpoints: the error is a sum of waves of at most 80 periods and a line, so this is exact to six digits.
GRID = (np.arange(2000) + 0.5)[:, None] / 2000
GRID_ROWS = tuple(np.flatnonzero(regions(GRID) == j) for j in range(2))


@dataclass(frozen=True)
class RiskRow:
    """The risk of one learner at one sample size."""

    design: str
    learner: str
    n: int
    risk: float
    se: float
    size: int | None = None  # the best order, where it was chosen by risk


@dataclass(frozen=True)
class Slope:
    """d log(risk) / d log(n) over the sample sizes from 3,200 on, with its standard error."""

    design: str
    learner: str
    slope: float
    se: float
    expected: float | None


EXPECTED = {
    ("simple-shared", "shared alone"): -1.0,
    ("simple-shared", "residual"): -1.0,
    ("simple-shared", "joint"): -1.0,
    ("simple-shared", "joint, gcv"): -1.0,
    ("simple-shared", "pure, best size"): -0.5,
    ("simple-shared", "pure, gcv"): -0.5,
    ("complex-shared", "joint"): -1.0,
    ("complex-shared", "pure"): 0.0,
}


def largest_order(n: int) -> int:
    """Orders tried for the pure learner: well beyond the best one, about sqrt(n / 79) here."""
    return int(np.clip(1.6 * np.sqrt(n / 79.0), 6, 60))


def replicate(design: str, n: int, replication: int, seed: int = 0) -> dict[str, Floats]:
    """Integrated squared errors of every learner on one sample; ``pure orders`` holds one for each order 1, 2, ...

    The sample is fixed by (seed, design, n, replication).
    """
    chosen = SHARED_DESIGNS[design]
    key = (seed, list(SHARED_DESIGNS).index(design), n, replication)
    rng = np.random.default_rng(np.random.SeedSequence(key))
    X, y = chosen.sample(n, rng)
    truth = chosen.truth(GRID)
    problem = Maps(chosen.shared, (chosen.routed,) * 2).problem(X, y, regions(X))
    errors = {"joint": _error(chosen, problem, joint_fit, truth)}
    if design == "complex-shared":
        return {**errors, "pure": _error(chosen, problem, pure_fit, truth)}
    noise = y - chosen.truth(X)
    errors["joint, gcv"] = _joint_gcv(chosen, X, y, truth)
    errors["shared alone"] = _shared_alone(chosen, X, rng)
    errors["residual"] = _error(
        chosen, problem._replace(y=chosen.residual(X) + noise), pure_fit, chosen.residual(GRID)
    )
    by_order, by_gcv = _nested_orders(X, y, truth, largest_order(n))
    return {**errors, "pure orders": by_order, "pure, gcv": by_gcv}


def bias_floor(design: SharedDesign) -> float:
    """The squared L2 distance of the truth from the routed learner's class: what no sample size removes."""
    truth = design.truth(GRID)
    parts = [factorize(design.routed.transform(GRID[index])).residual(truth[index]) for index in GRID_ROWS]
    return float(np.concatenate(parts) @ np.concatenate(parts)) / len(GRID)


def summarize(design: str, n: int, runs: Iterable[dict[str, Floats]]) -> list[RiskRow]:
    """The mean risk of every learner with its standard error; of the pure orders, the best one."""
    stacked: dict[str, list[Floats]] = {}
    for run in runs:
        for learner, error in run.items():
            stacked.setdefault(learner, []).append(error)
    rows = []
    for learner, errors in stacked.items():
        values = np.array(errors)  # (reps,) or (reps, orders)
        size = None
        if learner == "pure orders":
            size = int(values.mean(axis=0).argmin())
            values = values[:, size]
        name, order = ("pure, best size", size + 1) if size is not None else (learner, None)
        rows.append(RiskRow(design, name, n, *mean_and_error(values), order))
    return rows


def slopes(rows: Sequence[RiskRow], first: int = SLOPE_FROM) -> list[Slope]:
    """Least-squares slopes of log risk on log n from ``first`` on; samples of different n are independent.

    >>> rows = [RiskRow("simple-shared", "joint", n, 4.0 / n, 0.01 / n) for n in (3200, 6400, 12800)]
    >>> slopes(rows)[0].slope
    -1.0
    """
    found = []
    for design, learner in dict.fromkeys((row.design, row.learner) for row in rows):
        mine = [row for row in rows if (row.design, row.learner) == (design, learner) and row.n >= first]
        if len(mine) < 2:
            continue
        log_n = np.log([row.n for row in mine])
        weights = (log_n - log_n.mean()) / ((log_n - log_n.mean()) ** 2).sum()
        slope = float(weights @ np.log([row.risk for row in mine]))
        se = float(np.sqrt(((weights * [row.se / row.risk for row in mine]) ** 2).sum()))
        found.append(Slope(design, learner, round(slope, 12), se, EXPECTED.get((design, learner))))
    return found


def run(sizes: Sequence[int] = SIZES, reps: int = 100, seed: int = 0, runner: Runner | None = None) -> list[RiskRow]:
    """The risk profiles of both designs over ``sizes``, from ``reps`` samples each."""
    as_count(reps, "reps", low=2)
    cells = [(design, as_count(n, "n", low=100)) for design in SHARED_DESIGNS for n in sizes]
    # One replication of all cells after the other, so that the time left can be told early.
    tasks = [(design, n, r, seed) for r in range(reps) for design, n in cells]
    results = (runner or Runner()).run(NAME, replicate, tasks)
    return [row for i, (design, n) in enumerate(cells) for row in summarize(design, n, results[i :: len(cells)])]


def _error(
    design: SharedDesign,
    problem: AdditiveProblem,
    fit: Callable[[AdditiveProblem], AdditiveFit],
    truth: Floats,
    routed: tuple[FourierBasis, ...] = (),
) -> Floats:
    maps = Maps(design.shared, routed or (design.routed,) * 2)
    parts = maps.components(GRID, regions(GRID), fit(problem))
    return np.asarray(((parts.sum(axis=1) - truth) ** 2).mean())


def _joint_gcv(design: SharedDesign, X: Floats, y: Floats, truth: Floats) -> Floats:
    """Joint least squares with GCV orders; each region is first reduced to the triangular factor of its columns."""
    largest = max(GCV_ORDERS)
    basis = FourierBasis(largest, low=0.0, high=CUT)
    inside = [regions(X) == j for j in range(2)]
    reduced = [_triangular(np.column_stack([basis.transform(X[i]), X[i], y[i]])) for i in inside]
    ends = np.cumsum([0] + [len(U) for U in reduced])
    rows = tuple(np.arange(start, end) for start, end in pairwise(ends))
    U = np.vstack(reduced)

    def problem(orders: Sequence[int]) -> AdditiveProblem:
        routed = tuple(U[index, : 2 * k + 1] for index, k in zip(rows, orders, strict=True))
        return AdditiveProblem(U[:, -2:-1], routed, rows, U[:, -1])

    def score(sizes: Sequence[int]) -> float:
        fit = joint_fit(problem(sizes[1:]))
        return gcv(fit.rss, fit.df, len(y))

    _, *orders = choose_sizes(score, (0,), GCV_ORDERS, 2)
    bases = tuple(FourierBasis(k, low=0.0, high=CUT) for k in orders)
    return _error(design, problem(orders), joint_fit, truth, bases)


def _shared_alone(design: SharedDesign, X: Floats, rng: np.random.Generator) -> Floats:
    """The mean over 20 draws of the noise: a single coefficient's squared error is very uneven."""
    A, target = design.shared.transform(X), design.shared_part(X)
    factor = factorize(A)
    noisy = target[:, None] + rng.normal(scale=design.noise_sd, size=(len(X), 20))
    coefficients = np.column_stack([factor.solve(column) for column in noisy.T])
    misses = design.shared.transform(GRID) @ coefficients - design.shared_part(GRID)[:, None]
    return np.asarray((misses**2).mean())


def _nested_orders(X: Floats, y: Floats, truth: Floats, largest: int) -> tuple[Floats, Floats]:
    """Pure-routed errors at every order up to ``largest``, and at the orders that GCV picks.

    One QR serves all orders: the columns are nested, so the leading part of the factor belongs to the smaller sieve.
    """
    basis = FourierBasis(largest, low=0.0, high=CUT)
    totals, picked = np.zeros(largest), 0.0
    orders = range(1, largest + 1)
    for j in range(2):
        index = regions(X) == j
        U = _triangular(np.column_stack([basis.transform(X[index]), y[index]]))
        z, grid = U[:, -1], basis.transform(GRID[GRID_ROWS[j]])
        coefficients = np.zeros((grid.shape[1], largest))
        for k in orders:
            p = 2 * k + 1
            coefficients[:p, k - 1] = solve_triangular(U[:p, :p], z[:p])
        misses = grid @ coefficients - truth[GRID_ROWS[j], None]
        errors = (misses**2).sum(axis=0) / len(GRID)  # (orders,)
        rss = (z**2).sum() - np.cumsum(z**2)
        criterion = [gcv(rss[2 * k], 2 * k + 1, int(index.sum())) for k in orders]
        totals += errors
        picked += errors[int(np.argmin(criterion))]
    return totals, np.asarray(picked)


def _triangular(A: Floats) -> Floats:
    factor: Any = np.linalg.qr(A, mode="r")
    return np.asarray(factor)
