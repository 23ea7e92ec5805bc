"""``python -m benchmarks.classification``: a gate as truth.

Given are probabilities of three experts and a softmax gate that is linear in two inputs, 0.05 nats a row below the
best constant weights: the excess log loss of `MoEClassifier` over the truth, beside that of the best stack, and the
log loss and the expected calibration error of both and of the truth.
"""

import warnings
from typing import Annotated, Any

import numpy as np
import typer
from sklearn.ensemble import HistGradientBoostingClassifier, StackingClassifier
from sklearn.linear_model import LogisticRegression

import gatewise as gw
from benchmarks.class_designs import D, gate_class_design, gate_truth, nats
from benchmarks.class_verdict import GAP
from benchmarks.command import start
from benchmarks.timing import save
from benchmarks.verdict_designs import strength_for
from gatewise.arrays import Floats, Indices
from gatewise.router.class_scores import ClassScores

FRESH = 20_000


def one_draw(strength: float, n: int, seed: int) -> dict[str, dict[str, float]]:
    """Of every method fitted to n rows: excess log loss over the truth, in nats a row, and scores on fresh rows."""
    rng, design = np.random.default_rng([seed, n]), gate_class_design(strength)
    X, y = design.draw(n, rng)
    fresh, outcome = design.draw(FRESH, rng)
    truth = gate_truth(strength)(fresh[:, D:].reshape(FRESH, 3, 2), fresh[:, :D])
    experts = list(design.experts)
    boosting = HistGradientBoostingClassifier(random_state=0)
    models = {
        "gatewise": gw.MoEClassifier(experts, cv="prefit", random_state=seed),
        "logistic stack": StackingClassifier(experts, LogisticRegression(), cv="prefit"),
        "logistic stack with the inputs": StackingClassifier(
            experts, LogisticRegression(), cv="prefit", passthrough=True
        ),
        "boosted stack with the inputs": StackingClassifier(experts, boosting, cv="prefit", passthrough=True),
    }
    answers = {name: model.fit(X, y).predict_proba(fresh) for name, model in models.items()}
    router = models["gatewise"]
    answers["simplex stack"] = np.einsum("m,imc->ic", router.stack_weights_, router.expert_probabilities(fresh))
    answers["truth"] = truth
    return {name: {"excess": _excess(truth, p), **_scores(p, outcome)} for name, p in answers.items()}


def _excess(truth: Floats, p: Floats) -> float:
    """The mean over rows of sum_c truth_c log(truth_c / p_c)."""
    return float((truth * np.log(truth / np.maximum(p, 1e-12))).sum(axis=1).mean())


def _scores(p: Floats, outcome: Indices) -> dict[str, float]:
    scores = ClassScores.of(p, outcome)
    return {"log_loss": scores.log_loss, "calibration_error": scores.calibration_error}


def summary(drawn: list[dict[str, dict[str, float]]]) -> dict[str, Any]:
    """The means over the draws, by measure and method, and the excess over that of the best stack."""
    measures = {
        key: {name: float(np.mean([one[name][key] for one in drawn])) for name in drawn[0]}
        for key in ("excess", "log_loss", "calibration_error")
    }
    excess = measures["excess"]
    del excess["truth"]  # it is 0
    stack = min(value for name, value in excess.items() if name != "gatewise")
    return {**measures, "of the best stack": excess["gatewise"] / stack}


def main(runs: Annotated[int, typer.Option(min=1, help="Draws of the design with a gate.")] = 20) -> None:
    """The mean excess and the mean scores of every method."""
    warnings.filterwarnings("ignore", category=UserWarning)
    strength = strength_for(GAP, nats)
    drawn = [one_draw(strength, 1000, seed) for seed in range(runs)]
    save("classification", {"runs": runs, "nats": GAP, **summary(drawn)})


if __name__ == "__main__":
    start(main)
