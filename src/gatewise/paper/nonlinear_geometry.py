"""The geometry of the paper's nonlinear design: regions, whether specialization is real, how many experts to use."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from gatewise.arrays import Floats
from gatewise.experts import Expert, expert_matrix
from gatewise.geometry import (
    Activation,
    activation,
    EstimatedRegions,
    Specialization,
    specialization,
    squared_losses,
    TrueRegions,
)
from gatewise.paper.designs import DESIGNS

DESIGN = DESIGNS["nonlinear"]


def generalist(X: Any) -> Floats:
    """The mean of the design's three experts: never far off, nowhere a specialist."""
    return np.asarray(expert_matrix(DESIGN.experts, X).mean(axis=1))


POOL: tuple[Expert, ...] = (*DESIGN.experts, generalist)


@dataclass(frozen=True)
class GeometryRun:
    """What `run_geometry` found; ``shuffled`` tests the same gate with its answers in random order."""

    true_regions: TrueRegions
    estimated_regions: EstimatedRegions
    specialization: Specialization
    shuffled: Specialization
    activation: Activation


def run_geometry(n: int = 3000, seed: int = 0) -> GeometryRun:
    """Regions of the pool, known and estimated from n rows, and the tests on n rows more."""
    rng = np.random.default_rng(seed)
    X, y = DESIGN.sample(n, rng)
    regions = EstimatedRegions(X, squared_losses(expert_matrix(POOL, X), y))
    X_test, y_test = DESIGN.sample(n, rng)
    predictions = expert_matrix(POOL, X_test)
    losses, where = squared_losses(predictions, y_test), regions(X_test)
    return GeometryRun(
        TrueRegions(POOL, DESIGN.truth),
        regions,
        specialization(losses, where, seed=rng),
        specialization(losses, rng.permutation(where), seed=rng),
        activation(predictions, y_test, where, seed=rng),
    )
