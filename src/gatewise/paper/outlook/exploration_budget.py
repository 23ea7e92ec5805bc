"""Boundary-aware exploration: counterfactual evaluations near the borders and at random, against random ones alone.

Error is the fraction of fresh points whose best expert is not found. Both see the same samples. The budget counts
counterfactual evaluations.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gatewise.arrays import Floats
from gatewise.experts import expert_matrix
from gatewise.geometry.exploration import explore, explored_regions, less_noise
from gatewise.geometry.regions import best_expert
from gatewise.paper.designs import DESIGNS
from gatewise.paper.outlook.ratios import mean_ratio, Ratio
from gatewise.paper.runner import Runner

NAME = "outlook-exploration/1"
REPS = 100
N, N_FRESH, BUDGETS = 1500, 1500, (60, 120, 240, 480, 960)


@dataclass(frozen=True)
class ExplorationDesign:
    """Known experts and a truth on [-1, 1]^2."""

    name: str
    experts: tuple[Any, ...]
    truth: Callable[[Floats], Floats]
    noise: float


EXPLORATION_DESIGNS = {
    design.name: design
    for design in (
        *(ExplorationDesign(name, made.experts, made.truth, made.noise_sd) for name, made in DESIGNS.items()),
        ExplorationDesign(
            "linear crossing",
            (lambda X: X[:, 0] + 0.3 * X[:, 1], lambda X: -X[:, 0] - 0.3 * X[:, 1]),
            lambda X: np.abs(X[:, 0] + 0.3 * X[:, 1]),
            0.3,
        ),
    )
}


@dataclass(frozen=True)
class ExplorationRow:
    """One design and budget: region errors of both ways to spend it.

    ``half``: whether half of this budget, spent by margin, has at most the error of all of it spent at random (None
    where half of the budget was not tried).
    """

    design: str
    budget: int
    reps: int
    by_margin: float
    uniform: float
    ratio: Ratio
    half: Ratio | None


def replicate(design: str, budget: int, replication: int, seed: int) -> dict[str, float]:
    """The region errors of both ways on one sample."""
    made = EXPLORATION_DESIGNS[design]
    key = (seed, list(EXPLORATION_DESIGNS).index(design), replication)
    rng = np.random.default_rng(np.random.SeedSequence(key))
    X, fresh = rng.uniform(-1.0, 1.0, size=(N, 2)), rng.uniform(-1.0, 1.0, size=(N_FRESH, 2))
    y = made.truth(X) + rng.normal(scale=made.noise, size=N)
    losses = less_noise(X, y, expert_matrix(made.experts, X), width=0.5 * N ** (-1 / 6))
    best = best_expert((made.truth(fresh)[:, None] - expert_matrix(made.experts, fresh)) ** 2)
    out = {}
    for name, share in (("by_margin", 0.5), ("uniform", 0.0)):
        found = explore(X, lambda rows: losses[rows], budget, near_border=share, seed=(seed, replication))
        out[name] = float((explored_regions(X, found, fresh) != best).mean())
    return out


def run(reps: int = REPS, seed: int = 0, runner: Runner | None = None) -> list[ExplorationRow]:
    """Every design at every budget."""
    cells = [(design, budget) for design in EXPLORATION_DESIGNS for budget in BUDGETS]
    tasks = [(*cell, r, seed) for r in range(reps) for cell in cells]
    results = (runner or Runner()).run(NAME, replicate, tasks)
    by_cell = {cell: results[i :: len(cells)] for i, cell in enumerate(cells)}
    return [_row(cell, by_cell) for cell in cells]


def _row(cell: tuple[str, int], by_cell: Mapping[tuple[str, int], Sequence[dict[str, Any]]]) -> ExplorationRow:
    design, budget = cell
    by_margin, uniform = (np.array([result[name] for result in by_cell[cell]]) for name in ("by_margin", "uniform"))
    smaller = by_cell.get((design, budget // 2))
    half = None
    if smaller is not None:
        half = mean_ratio(np.array([result["by_margin"] for result in smaller]), uniform)
    return ExplorationRow(
        design,
        budget,
        len(uniform),
        float(by_margin.mean()),
        float(uniform.mean()),
        mean_ratio(by_margin, uniform),
        half,
    )
