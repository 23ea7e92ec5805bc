"""Co-adaptation: the test of specialization along rounds of training experts and gate together.

Three affine experts start from random thirds of the rows. A round fits a kernel gate to the experts' predictions of
held-out rows, and then every expert to all training rows, weighted by the gate. On the first truth each of three
sectors has a plane of its own; on the second, one plane is right everywhere, and no specialist is real.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gatewise.arrays import Floats
from gatewise.gates import KernelGate
from gatewise.geometry.coadaptation import SpecializationHistory
from gatewise.paper.runner import Runner
from gatewise.solvers.simplex_least_squares import simplex_least_squares
from gatewise.stats import share_bounds

NAME = "outlook-coadaptation/1"
REPS = 100
TRUTHS, ROUNDS, N, NOISE, M = ("three sectors", "one plane"), 6, 1500, 0.3, 3
PLANES = np.array([[2.0, -1.0, 2.0], [-1.0, 2.0, -1.0], [-2.0, -2.0, 0.0]])


@dataclass(frozen=True)
class CoadaptationRow:
    """One truth and round: how often some expert, and all of them, were called specialists, and the error.

    ``bound`` is the lower 95 % confidence bound of the fraction with a specialist, ``bound_high`` the upper one.
    """

    truth: str
    round: int
    reps: int
    some: float
    some_low: float
    some_high: float
    all: float
    advantage: float
    error: float


def target(name: str, X: Floats) -> Floats:
    """The truth at every row of X (n, 2), (n,)."""
    columns = np.column_stack([X, np.ones(len(X))])
    if name == "one plane":
        return np.asarray(columns @ PLANES[0])
    sector = np.floor((np.arctan2(X[:, 1], X[:, 0]) + np.pi) / (2 * np.pi) * 3).astype(int) % 3
    return np.asarray((columns * PLANES[sector]).sum(axis=1))


def replicate(name: str, replication: int, seed: int) -> list[dict[str, float]]:
    """The history of one training run, a record for every round."""
    rng = np.random.default_rng(np.random.SeedSequence((seed, TRUTHS.index(name), replication)))
    X = rng.uniform(-1.0, 1.0, size=(N, 2))
    y = target(name, X) + rng.normal(scale=NOISE, size=N)
    train, held, test = (np.arange(N)[part::3] for part in range(3))
    columns = np.column_stack([X, np.ones(N)])
    gate = KernelGate(M, mesh=0.5, low=-1.0, high=1.0)
    weights = rng.multinomial(1, [1 / M] * M, size=len(train)).astype(float)
    history, records = SpecializationHistory(seed=replication), []
    for _ in range(ROUNDS):
        coefficients = np.stack([_weighted_plane(columns[train], y[train], w) for w in weights.T], axis=1)
        F = columns @ coefficients  # (N, M)
        theta = simplex_least_squares(gate.features(X[held]), F[held], y[held]).theta
        weights = gate.weights(X[train], theta)
        g = gate.weights(X[test], theta)
        step = history.add((y[test, None] - F[test]) ** 2, g)
        error = float(np.mean((target(name, X[test]) - (g * F[test]).sum(axis=1)) ** 2))
        records.append({"specialists": len(step.special), "advantage": step.advantage, "error": error})
    return records


def _weighted_plane(columns: Floats, y: Floats, weight: Floats) -> Floats:
    gram = columns.T @ (weight[:, None] * columns) + 1e-3 * np.eye(3)
    return np.asarray(np.linalg.solve(gram, columns.T @ (weight * y)))


def run(reps: int = REPS, seed: int = 0, runner: Runner | None = None) -> list[CoadaptationRow]:
    """Every truth, round by round."""
    tasks = [(name, r, seed) for r in range(reps) for name in TRUTHS]
    results = (runner or Runner()).run(NAME, replicate, tasks)
    return [_row(name, stage, results[i :: len(TRUTHS)]) for i, name in enumerate(TRUTHS) for stage in range(ROUNDS)]


def _row(name: str, stage: int, results: Sequence[list[dict[str, Any]]]) -> CoadaptationRow:
    counts = np.array([result[stage]["specialists"] for result in results])
    low, high = share_bounds([(counts > 0).sum()], len(counts), level=0.9)  # each end alone has 95 %
    return CoadaptationRow(
        name,
        stage,
        len(counts),
        float((counts > 0).mean()),
        float(low[0]),
        float(high[0]),
        float((counts == M).mean()),
        float(np.mean([result[stage]["advantage"] for result in results])),
        float(np.mean([result[stage]["error"] for result in results])),
    )
