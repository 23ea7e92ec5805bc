"""``python -m benchmarks.classification``: a gate as truth.

Given are probabilities of three experts and a softmax gate that is linear in two inputs, 0.05 nats a row below the
best constant weights: the excess log loss of `MoEClassifier` over the truth, beside that of the best stack.
"""

import warnings
from typing import Annotated

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
from gatewise.arrays import Floats

FRESH = 20_000


def excesses(strength: float, n: int, seed: int) -> dict[str, float]:
    """The excess log loss over the truth, in nats a row, of every method fitted to n rows."""
    rng, design = np.random.default_rng([seed, n]), gate_class_design(strength)
    X, y = design.draw(n, rng)
    fresh, _ = design.draw(FRESH, rng)
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
    return {name: _excess(truth, p) for name, p in answers.items()}


def _excess(truth: Floats, p: Floats) -> float:
    """The mean over rows of sum_c truth_c log(truth_c / p_c)."""
    return float((truth * np.log(truth / np.maximum(p, 1e-12))).sum(axis=1).mean())


def main(runs: Annotated[int, typer.Option(min=1, help="Draws of the design with a gate.")] = 20) -> None:
    """The mean excess of every method."""
    warnings.filterwarnings("ignore", category=UserWarning)
    strength = strength_for(GAP, nats)
    drawn = [excesses(strength, 1000, seed) for seed in range(runs)]
    mean = {name: float(np.mean([one[name] for one in drawn])) for name in drawn[0]}
    stack = min(value for name, value in mean.items() if name != "gatewise")
    found = {"runs": runs, "nats": GAP, "excess": mean, "of the best stack": mean["gatewise"] / stack}
    save("classification", found)


if __name__ == "__main__":
    start(main)
