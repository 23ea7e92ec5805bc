"""The demonstration: a Top-K gate at work on the paper's nonlinear design."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gatewise.experiments.designs import DESIGNS
from gatewise.experts import expert_matrix
from gatewise.gates import FeatureGate
from gatewise.mixture import MixtureOfExperts

Floats = NDArray[np.float64]
DESIGN = DESIGNS["nonlinear"]


@dataclass(frozen=True)
class DemoRow:
    """One way to combine the experts, and how far it is from the truth."""

    method: str
    rmse: float
    evaluations_per_row: float


def score_features(X: Floats) -> Floats:
    """The design's own scores of experts 1 and 2, taken relative to expert 3, (n, 2)."""
    scores = DESIGN.scores(X)
    return scores[:, :2] - scores[:, 2:]


def gate_model(k: int | None) -> MixtureOfExperts:
    """The design's experts behind its own gate, with k active experts (None: all)."""
    gate = FeatureGate(3, k=k, transform=score_features)
    return MixtureOfExperts(gate, np.eye(2), DESIGN.experts)


def run_demo(n: int = 20_000, seed: int = 0) -> list[DemoRow]:
    """The distance to the truth of each expert alone, of fixed weights, and of the gate with k = 1, 2, 3."""
    X, _ = DESIGN.sample(n, np.random.default_rng(seed))
    truth, predictions = DESIGN.truth(X), expert_matrix(DESIGN.experts, X)
    fixed = np.linalg.lstsq(predictions, truth, rcond=None)[0]
    rows = [DemoRow(f"expert {m + 1} alone", _rmse(predictions[:, m], truth), 1.0) for m in range(3)]
    rows.append(DemoRow("best fixed weights", _rmse(predictions @ fixed, truth), 3.0))
    for k, name in ((1, "gate, Top-1"), (2, "gate, Top-2"), (None, "gate, all three")):
        model = gate_model(k)
        rows.append(DemoRow(name, _rmse(model.predict(X), truth), float(model.gate.n_active)))
    return rows


def _rmse(prediction: Floats, truth: Floats) -> float:
    return float(np.sqrt(np.mean((prediction - truth) ** 2)))
