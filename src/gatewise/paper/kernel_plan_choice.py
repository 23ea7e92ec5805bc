"""The mesh and the number of experts from data: what the choice by block splitting loses to the best of the grid.

Experts are lines on clusters of the rows, M of them; the gate is a kernel gate of mesh h. The three designs of the
paper and two more: planes on the fields of a checkerboard, and one plane inside a circle and another outside.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gatewise.arrays import Floats
from gatewise.mixture.kernel_choice import choose_kernel_gate, KernelGrid
from gatewise.paper.designs import DESIGNS
from gatewise.paper.outlook.ratios import mean_ratio, Ratio
from gatewise.paper.runner import Runner

NAME = "kernel-plan/1"
COUNTS, MESHES, N, N_FRESH, N_SPLITS = (4, 8, 16), (1.0, 0.5, 0.25), 1000, 2000, 3


def _checkerboard(X: Floats) -> Floats:
    dark = (X[:, 0] > 0) == (X[:, 1] > 0)
    return np.asarray(np.where(dark, 1.0 + X[:, 0], -1.0 - X[:, 1]))


def _circle(X: Floats) -> Floats:
    return np.asarray(np.where(np.hypot(X[:, 0], X[:, 1]) < 0.6, 2.0 + X[:, 0], X[:, 1] - X[:, 0]))


TRUTHS: dict[str, tuple[Callable[[Floats], Floats], float]] = {
    **{name: (design.truth, design.noise_sd) for name, design in DESIGNS.items()},
    "checkerboard": (_checkerboard, 0.3),
    "circle": (_circle, 0.3),
}


@dataclass(frozen=True)
class KernelPlanRow:
    """One design: mean errors over the grid (M, h), the choice's, and their ratio to the best of the grid."""

    design: str
    reps: int
    errors: list[list[float]]
    chosen: float
    ratio: Ratio
    picked: list[list[int]]


def replicate(design: str, replication: int, seed: int) -> dict[str, Any]:
    """Squared distances to the truth at fresh points: of every pair of the grid, and which one was chosen."""
    truth, noise = TRUTHS[design]
    key = (seed, list(TRUTHS).index(design), replication)
    rng = np.random.default_rng(np.random.SeedSequence(key))
    X, fresh = rng.uniform(-1.0, 1.0, size=(N, 2)), rng.uniform(-1.0, 1.0, size=(N_FRESH, 2))
    y = truth(X) + rng.normal(scale=noise, size=N)
    grid = KernelGrid(X, y, list(COUNTS), list(MESHES), 0.75)
    target = truth(fresh)
    errors = [
        [
            float(np.mean((grid.fitted(p, h, 0).predict(fresh) - target) ** 2))
            if grid.n_weights(count, mesh) < N - N // 5
            else None
            for h, mesh in enumerate(MESHES)
        ]
        for p, count in enumerate(COUNTS)
    ]
    choice = choose_kernel_gate(X, y, COUNTS, MESHES, n_splits=N_SPLITS, random_state=0)
    return {"errors": errors, "chosen": [COUNTS.index(choice.n_experts), MESHES.index(choice.mesh)]}


def run(reps: int = 30, seed: int = 0, runner: Runner | None = None) -> list[KernelPlanRow]:
    """Every design."""
    tasks = [(design, r, seed) for r in range(reps) for design in TRUTHS]
    results = (runner or Runner()).run(NAME, replicate, tasks)
    return [_row(design, results[i :: len(TRUTHS)]) for i, design in enumerate(TRUTHS)]


def _row(design: str, results: Sequence[dict[str, Any]]) -> KernelPlanRow:
    errors = np.array([result["errors"] for result in results], dtype=float)  # (reps, counts, meshes)
    places = np.array([result["chosen"] for result in results])
    chosen = errors[np.arange(len(errors)), places[:, 0], places[:, 1]]
    means = errors.mean(axis=0)
    best = np.unravel_index(int(np.nanargmin(means)), means.shape)
    picked = np.zeros(means.shape, dtype=int)
    np.add.at(picked, (places[:, 0], places[:, 1]), 1)
    ratio = mean_ratio(chosen, errors[:, best[0], best[1]])
    return KernelPlanRow(design, len(errors), means.tolist(), float(chosen.mean()), ratio, picked.tolist())
