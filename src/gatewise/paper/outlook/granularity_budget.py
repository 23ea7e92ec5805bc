"""Granularity under a budget: many small or few large experts at equal total and equal active parameters.

The truth on [0, 1] is a wave plus jumps at J random places; the more jumps, the lower the wave.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gatewise.arrays import Floats
from gatewise.mixture.granularity import choose_granularity, divisions, fit_cells, WIDTHS
from gatewise.paper.outlook.ratios import mean_ratio, Ratio
from gatewise.paper.runner import Runner

NAME = "outlook-granularity/1"
REPS = 40
TOTAL, ACTIVE, NOISE, N, N_FRESH = 48, 12, 0.15, 1500, 4000
JUMPS = (0, 1, 4, 16)
DIVISIONS = divisions(TOTAL, ACTIVE)


@dataclass(frozen=True)
class GranularityRow:
    """Truths with J jumps: mean errors of every division at its best width, and of the one that the data chose.

    ``ratio`` is the chosen one's error over that of the division which is best on average; ``fine`` that of the
    finest over the coarsest.
    """

    jumps: int
    reps: int
    errors: list[float]
    chosen: float
    ratio: Ratio
    fine: Ratio
    picked: list[int]


def truth(x: Floats, places: Floats, heights: Floats, phase: float) -> Floats:
    """A wave of three periods, of amplitude 1 / (1 + J), and J jumps of the given heights, up and down in turn."""
    steps = (x[:, None] >= places) * heights * np.where(np.arange(len(places)) % 2, -1.0, 1.0)
    return np.asarray(np.sin(6 * np.pi * x + phase) / (1 + len(places)) + steps.sum(axis=1))


def replicate(jumps: int, replication: int, seed: int) -> dict[str, Any]:
    """Errors of every division, of the chosen one, and which one it was."""
    rng = np.random.default_rng(np.random.SeedSequence((seed, jumps, replication)))
    shape = np.sort(rng.uniform(size=jumps)), rng.uniform(1.0, 2.0, size=jumps), float(rng.uniform(0, 2 * np.pi))
    x, fresh = rng.uniform(size=N), rng.uniform(size=N_FRESH)
    y, target = truth(x, *shape) + rng.normal(scale=NOISE, size=N), truth(fresh, *shape)
    errors = []
    for division in DIVISIONS:
        fitted = fit_cells(x[:, None], y, division, WIDTHS[0])
        gaps = [np.mean((fitted._replace(width=w).predict(fresh[:, None]) - target) ** 2) for w in WIDTHS]
        errors.append(float(min(gaps)))
    choice = choose_granularity(x[:, None], y, DIVISIONS, seed=replication)
    error = float(np.mean((choice.model.predict(fresh[:, None]) - target) ** 2))
    return {"errors": errors, "chosen": error, "division": DIVISIONS.index(choice.division)}


def run(reps: int = REPS, seed: int = 0, runner: Runner | None = None) -> list[GranularityRow]:
    """Every number of jumps."""
    tasks = [(jumps, r, seed) for r in range(reps) for jumps in JUMPS]
    results = (runner or Runner()).run(NAME, replicate, tasks)
    return [_row(jumps, results[i :: len(JUMPS)]) for i, jumps in enumerate(JUMPS)]


def _row(jumps: int, results: Sequence[dict[str, Any]]) -> GranularityRow:
    errors = np.array([result["errors"] for result in results])  # (reps, divisions)
    chosen = np.array([result["chosen"] for result in results])
    best = int(errors.mean(axis=0).argmin())
    picked = [result["division"] for result in results]
    return GranularityRow(
        jumps=jumps,
        reps=len(results),
        errors=errors.mean(axis=0).tolist(),
        chosen=float(chosen.mean()),
        ratio=mean_ratio(chosen, errors[:, best]),
        fine=mean_ratio(errors[:, -1], errors[:, 0]),
        picked=[picked.count(i) for i in range(len(DIVISIONS))],
    )
