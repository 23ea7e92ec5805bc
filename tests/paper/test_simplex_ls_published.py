"""The kernel gate's cells of tab:mc-summary, and least squares at the size of two thousand parameters."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from gatewise import KernelGate
from gatewise.solvers.simplex_least_squares import simplex_least_squares

Floats = NDArray[np.float64]


def linear_design(X: Floats) -> tuple[Floats, Floats]:
    x1, x2 = X.T
    F = np.column_stack([2 + 2 * x1 - x2, -1 - x1 + 2 * x2, 1 + np.sin(np.pi * x1) - 1.5 * x2**2])
    return F, np.column_stack([2 * x1, 2 * x2, 0 * x1])


def nonlinear_design(X: Floats) -> tuple[Floats, Floats]:
    x1, x2 = X.T
    F = np.column_stack([3 + 3 * x1 - 2 * x2, -2 - 2 * x1 + 3 * x2, 2.5 * np.sin(np.pi * x1 * x2) - 3 * x1 + 2 * x2])
    angle, radius = np.arctan2(x2, x1), np.hypot(x1, x2)
    angle = angle + 0.85 * np.sin(4.5 * radius + 1.8 * angle) + 0.35 * np.sin(4 * angle)
    return F, 7 * np.cos(angle[:, None] - np.pi * np.array([1, 1 / 3, -1 / 3]))


class Cell(NamedTuple):
    """A design with its kernel gate, and the published l1 and squared l2 errors with their deviations."""

    design: Callable[[Floats], tuple[Floats, Floats]]
    gate: KernelGate
    n: int
    sigma: float
    published: tuple[float, float]
    deviation: tuple[float, float]


COARSE = KernelGate(3, mesh=1.0, kappa=0.75, low=-1.0, high=1.0)
FINE = KernelGate(3, mesh=2 / 3, kappa=0.5, low=-1.0, high=1.0)
CELLS = (
    Cell(linear_design, COARSE, 200, 0.5, (0.211, 0.026), (0.052, 0.013)),
    Cell(nonlinear_design, FINE, 500, 0.3, (0.711, 0.267), (0.028, 0.021)),
)


@pytest.mark.parametrize("cell", CELLS, ids=["linear", "nonlinear"])
def test_published_errors_of_the_kernel_gate(cell: Cell) -> None:
    rng = np.random.default_rng(0)
    errors = []
    for _ in range(40):
        X = rng.uniform(-1, 1, (cell.n, 2))
        F, scores = cell.design(X)
        truth = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        y = (truth * F).sum(axis=1) + cell.sigma * rng.normal(size=cell.n)
        fit = simplex_least_squares(cell.gate.features(X), F, y)
        assert fit.converged
        off = cell.gate.weights(X, fit.theta) - truth
        errors.append([np.abs(off).sum(axis=1).mean(), (off**2).sum(axis=1).mean()])
    # The published means are of 100 replications; 3.5 standard errors of the difference, and their rounding.
    allowed = 3.5 * np.array(cell.deviation) * np.sqrt(1 / 40 + 1 / 100) + 0.0005
    assert (np.abs(np.mean(errors, axis=0) - cell.published) < allowed).all()


@pytest.mark.slow
@pytest.mark.parametrize("agree", [False, True])
def test_large_and_rank_deficient(agree: bool) -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, (1500, 2))
    F = np.column_stack([np.sin((m + 1) * 2 * X[:, 0] + m) + np.cos(3 * m * X[:, 1]) for m in range(5)])
    if agree:
        F[:, 4] = F[:, 3]
    y = np.where(X.sum(axis=1) > 1, F[:, 0], (F[:, 1] + F[:, 2]) / 2) + 0.3 * rng.normal(size=1500)
    fit = simplex_least_squares(KernelGate(5, mesh=1 / 19).features(X), F, y)  # 2,000 parameters
    assert fit.converged
    assert fit.n_iter < 30
