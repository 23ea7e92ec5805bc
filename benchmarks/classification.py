"""``python -m benchmarks.classification``: a gate as truth, and the time of a fit beside scikit-learn's stack.

The first part has given probabilities of three experts and a softmax gate that is linear in two inputs, 0.05 nats a
row below the best constant weights: the excess log loss of `MoEClassifier` over the truth, beside that of the best
stack. The second part fits the default pool of five classifiers by `MoEClassifier` and by `StackingClassifier`, in
CPU seconds.
"""

import time
import warnings
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer
from sklearn.ensemble import HistGradientBoostingClassifier, StackingClassifier
from sklearn.linear_model import LogisticRegression

import gatewise as gw
from benchmarks.class_designs import D, drawn_classes, gate_class_design, gate_truth, nats
from benchmarks.class_verdict import GAP
from benchmarks.command import start
from benchmarks.timing import save
from benchmarks.verdict_designs import strength_for
from gatewise.app.models.default_classifiers import make_classifiers
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


def fit_seconds(n: int, seed: int = 0) -> dict[str, float]:
    """CPU seconds of one fit of five classifiers to n rows of ten inputs."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 10)), columns=[f"x{j}" for j in range(10)])
    scores = 1.5 * X["x0"] + X["x1"] * X["x2"] + np.sin(3 * X["x3"])
    p = 1.0 / (1.0 + np.exp(-scores.to_numpy()))
    y = drawn_classes(np.column_stack([1.0 - p, p]), rng)
    models: dict[str, Any] = {
        "StackingClassifier": StackingClassifier(make_classifiers(X), LogisticRegression(), cv=5),
        "MoEClassifier": gw.MoEClassifier(make_classifiers(X), random_state=0),
    }
    found = {}
    for name, model in models.items():
        begun = time.process_time()
        model.fit(X, y)
        found[name] = time.process_time() - begun
    found["ratio"] = found["MoEClassifier"] / found["StackingClassifier"]
    return found


def main(
    runs: Annotated[int, typer.Option(min=0, help="Draws of the design with a gate; 0 leaves it out.")] = 20,
    rows: Annotated[int, typer.Option(min=0, help="Rows of the timed fit; 0 leaves it out.")] = 20_000,
) -> None:
    """Both parts, each with a file of its own."""
    warnings.filterwarnings("ignore", category=UserWarning)
    if runs:
        strength = strength_for(GAP, nats)
        drawn = [excesses(strength, 1000, seed) for seed in range(runs)]
        mean = {name: float(np.mean([one[name] for one in drawn])) for name in drawn[0]}
        stack = min(value for name, value in mean.items() if name != "gatewise")
        found = {"runs": runs, "nats": GAP, "excess": mean, "of the best stack": mean["gatewise"] / stack}
        save("classification", found)
    if rows:
        fit_seconds(300)  # compiled code is loaded
        save("class_fit_time", {"rows": rows, "seconds": fit_seconds(rows)})


if __name__ == "__main__":
    start(main)
