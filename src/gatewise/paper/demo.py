"""The demonstration: routers learned from 400 noisy rows of the paper's quadratic design."""

from dataclasses import dataclass

import numpy as np

from gatewise.arrays import Floats
from gatewise.estimators import RouterAggregator
from gatewise.experts import expert_matrix
from gatewise.gates import QuadraticGate
from gatewise.paper.designs import DESIGNS
from gatewise.paper.table1_gates import NETS

DESIGN = DESIGNS["quadratic"]

GRID = NETS["quadratic", "quadratic"].values


@dataclass(frozen=True)
class DemoRow:
    """One way to combine the experts, and how far it is from the truth."""

    method: str
    rmse: float
    evaluations_per_row: float


@dataclass(frozen=True)
class Demo:
    """The table's rows and the router behind them, with the number of its candidates."""

    rows: list[DemoRow]
    router: RouterAggregator
    n_candidates: int


def learned_router(k: int | None, seed: int = 0, n: int = 400) -> RouterAggregator:
    """A router with k active experts (None: all) over the paper's net, learned from n rows."""
    X, y = DESIGN.sample(n, np.random.default_rng(seed))
    gate = QuadraticGate(3, k=k, intercept=False, cross=False)
    return RouterAggregator(DESIGN.experts, gate, gate.net(GRID), random_state=seed).fit(X, y)


def run_demo(seed: int = 0) -> Demo:
    """Distances to the truth at fresh points: each expert, the best fixed weights, and the learned routers."""
    X, _ = DESIGN.sample(5_000, np.random.default_rng(seed + 1))
    truth, predictions = DESIGN.truth(X), expert_matrix(DESIGN.experts, X)
    fixed = np.linalg.lstsq(predictions, truth, rcond=None)[0]
    rows = [DemoRow(f"expert {m + 1} alone", _rmse(predictions[:, m], truth), 1.0) for m in range(3)]
    rows.append(DemoRow("best fixed weights", _rmse(predictions @ fixed, truth), 3.0))
    sparse, dense = learned_router(2, seed), learned_router(None, seed)
    rows.append(DemoRow("learned Top-2 gate", _rmse(sparse.predict(X, readout="single"), truth), 2.0))
    rows.append(DemoRow("learned gate, one candidate", _rmse(dense.predict(X, readout="single"), truth), 3.0))
    rows.append(DemoRow("learned gate, aggregate", _rmse(dense.predict(X), truth), 3.0))
    return Demo(rows, dense, dense.sigma_.size)


def _rmse(prediction: Floats, truth: Floats) -> float:
    return float(np.sqrt(np.mean((prediction - truth) ** 2)))
