"""Specialization under load constraints: aggregation over gates that all have a given load, and what balance costs.

The loads go from those of the free gate, at balance 0, to equal ones, at balance 1. The net of linear gates has its
intercepts set by prices (`balanced_thetas`), so the aggregate has the load on the rows of the fit exactly.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gatewise.aggregation import Blocks
from gatewise.estimators import RouterAggregator
from gatewise.gates import LinearGate
from gatewise.gates.load_prices import balanced_thetas
from gatewise.nets import ListNet
from gatewise.paper.designs import DESIGNS
from gatewise.paper.outlook.ratios import mean_ratio, Ratio
from gatewise.paper.runner import Runner

NAME = "outlook-load/1"
REPS = 12
N, N_FRESH, BALANCES = 400, 4000, (0.0, 0.25, 0.5, 0.75, 1.0)
KINDS = {"dense": None, "Top-1": 1}
VALUES = (-3.0, 0.0, 3.0)


@dataclass(frozen=True)
class LoadRow:
    """One design, kind of gate and balance: the predictive error, and how well the load is met.

    ``price`` is the error over that of balance 0; ``fit_gap`` the largest gap between load and target on the rows of
    the fit, over all replications; ``fresh_z`` the root mean square of the gap on fresh rows in units of its standard
    error.
    """

    design: str
    gate: str
    balance: float
    reps: int
    error: float
    price: Ratio
    fit_gap: float
    fresh_gap: float
    fresh_z: float


def replicate(design: str, kind: str, replication: int, seed: int) -> dict[str, list[float]]:
    """Errors and load gaps at every balance on one sample."""
    made = DESIGNS[design]
    rng = np.random.default_rng(np.random.SeedSequence((seed, list(DESIGNS).index(design), replication)))
    X, y = made.sample(N, rng)
    fresh = rng.uniform(-1.0, 1.0, size=(N_FRESH, 2))
    gate = LinearGate(3, k=KINDS[kind])
    slopes = np.stack(np.meshgrid(*[VALUES] * 4, indexing="ij"), axis=-1).reshape(-1, 2, 2)
    apart = (slopes != 0.0).any(axis=2).all(axis=1) & (slopes[:, 0] != slopes[:, 1]).any(axis=1)
    thetas = np.concatenate([slopes, np.zeros((len(slopes), 2, 1))], axis=2)[apart]  # equal slopes tie everywhere
    free = _fit(made, gate, thetas, X, y, replication)
    natural = np.clip(free.gate_weights(X).mean(axis=0), 0.02, None)
    natural /= natural.sum()
    out: dict[str, list[float]] = {name: [] for name in ("error", "fit_gap", "fresh_gap", "fresh_z")}
    for balance in BALANCES:
        load = (1 - balance) * natural + balance / 3
        fit = _fit(made, gate, balanced_thetas(gate, thetas, X, load), X, y, replication)
        g_fit, g_fresh = fit.gate_weights(X), fit.gate_weights(fresh)
        gap = g_fresh.mean(axis=0) - load
        spread = np.sqrt(g_fit.var(axis=0) / N + g_fresh.var(axis=0) / N_FRESH)
        out["error"].append(float(np.mean((fit.predict(fresh) - made.truth(fresh)) ** 2)))
        out["fit_gap"].append(float(np.abs(g_fit.mean(axis=0) - load).max()))
        out["fresh_gap"].append(float(np.abs(gap).max()))
        out["fresh_z"].append(float(np.mean((gap / spread) ** 2)))
    return out


def _fit(made: Any, gate: LinearGate, thetas: Any, X: Any, y: Any, seed: int) -> RouterAggregator:
    blocks = Blocks(sigma=made.noise_sd)
    return RouterAggregator(made.experts, gate, ListNet(thetas), blocks=blocks, random_state=seed).fit(X, y)


def run(reps: int = REPS, seed: int = 0, runner: Runner | None = None) -> list[LoadRow]:
    """Every design and kind of gate, at every balance."""
    cells = [(design, kind) for design in DESIGNS for kind in KINDS]
    tasks = [(*cell, r, seed) for r in range(reps) for cell in cells]
    results = (runner or Runner()).run(NAME, replicate, tasks)
    return [
        _row(cell, balance, j, results[i :: len(cells)])
        for i, cell in enumerate(cells)
        for j, balance in enumerate(BALANCES)
    ]


def _row(cell: tuple[str, str], balance: float, place: int, results: Sequence[dict[str, Any]]) -> LoadRow:
    errors, first = (np.array([result["error"][j] for result in results]) for j in (place, 0))
    return LoadRow(
        *cell,
        balance=balance,
        reps=len(results),
        error=float(errors.mean()),
        price=mean_ratio(errors, first),
        fit_gap=max(result["fit_gap"][place] for result in results),
        fresh_gap=float(np.mean([result["fresh_gap"][place] for result in results])),
        fresh_z=float(np.sqrt(np.mean([result["fresh_z"][place] for result in results]))),
    )
