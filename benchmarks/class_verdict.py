"""How often `MoEClassifier` says "gating pays": where no gate helps, and where a linear gate is the truth.

``python -m benchmarks.class_verdict --runs 100 --out FILE``. The experts' probabilities are given (``cv="prefit"``).
In the designs without a gate the truth is a constant mixture of the experts; in the others it is a softmax gate whose
log loss lies 0.05 nats a row below that of the best constant weights.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin

import gatewise as gw
from benchmarks.verdict_designs import strength_for
from gatewise.arrays import Floats
from gatewise.losses import LogLoss
from gatewise.solvers.softmax_path import stack_weights

GAP = 0.05  # nats a row
CONSTANTS = {"one expert is true": (1.0, 0.0, 0.0), "a mixture is true": (0.5, 0.3, 0.2)}
DIRECTIONS = np.array([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0]])


class GivenProbability(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Two classes: the probability of the second one is a column of X."""

    def __init__(self, column: int = 0) -> None:
        self.column = column
        self.classes_ = np.array([0, 1])

    def fit(self, X: Any, y: Any) -> "GivenProbability":  # noqa: ARG002 - nothing to learn
        return self

    def predict_proba(self, X: Floats) -> Floats:
        """(n, 2)."""
        return np.column_stack([1.0 - X[:, self.column], X[:, self.column]])

    def predict(self, X: Floats) -> Any:
        """The more likely class."""
        return self.predict_proba(X).argmax(axis=1)


def draw(n: int, strength: float, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
    """Inputs (n, 2), probabilities of three experts (n, 3), and a gate of this strength (n, 3)."""
    Z, P = rng.normal(size=(n, 2)), expit(rng.normal(scale=1.5, size=(n, 3)))
    return Z, P, np.asarray(softmax(strength * Z @ DIRECTIONS, axis=1))


def gap(strength: float) -> float:
    """By how many nats a row a gate of this strength lies below the best constant weights."""
    _, P, G = draw(20_000, strength, np.random.default_rng(0))
    truth = (G * P).sum(axis=1)
    F, weight = np.concatenate([P, 1.0 - P]), np.concatenate([truth, 1.0 - truth])
    constant = F @ stack_weights(F, LogLoss(), weight[None])[0]
    best = np.concatenate([truth, 1.0 - truth])
    return float(weight @ (np.log(best) - np.log(constant)) / len(P))


def says_gating_pays(n: int, weights: Any, strength: float, seed: int) -> bool:
    """One draw of a design: constant weights where they are given, else a gate of this strength."""
    rng = np.random.default_rng([seed, n])
    Z, P, G = draw(n, strength, rng)
    truth = (np.asarray(weights) * P if weights is not None else G * P).sum(axis=1)
    y = (rng.uniform(size=n) < truth).astype(np.intp)
    X = np.column_stack([Z, P])
    model = gw.MoEClassifier([GivenProbability(column) for column in (2, 3, 4)], cv="prefit", random_state=seed)
    return bool(model.fit(X, y).verdict_.gates)


def main() -> None:
    """Print the fraction of runs that say "gating pays", design by design."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--sizes", type=int, nargs="*", default=(500,))
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    strength = strength_for(GAP, gap, halvings=12)
    found = {"strength": strength, "runs": given.runs}
    for n in given.sizes:
        designs = {**CONSTANTS, f"a gate is true, {GAP} nats": None}
        for name, weights in designs.items():
            hits = [says_gating_pays(n, weights, strength, seed) for seed in range(given.runs)]
            found[f"{name}, n = {n}"] = float(np.mean(hits))
            print(f"{name}, n = {n}: {np.mean(hits):.3f} of {given.runs}", flush=True)
            given.out.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
