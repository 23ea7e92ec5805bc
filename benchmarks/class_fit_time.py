"""``python -m benchmarks.class_fit_time``: the time of a fit of `MoEClassifier` beside scikit-learn's stack.

CPU seconds of both with the default pool of five classifiers, and their scores on fresh rows: a fast fit that
predicts worse does not count.
"""

import time
import warnings
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer
from sklearn.ensemble import StackingClassifier
from sklearn.linear_model import LogisticRegression

import gatewise as gw
from benchmarks.class_designs import drawn_classes
from benchmarks.command import start
from benchmarks.timing import save
from gatewise.app.models.default_classifiers import make_classifiers
from gatewise.arrays import Indices
from gatewise.router.class_scores import ClassScores

FRESH = 5_000


def draw(n: int, rng: np.random.Generator) -> tuple[pd.DataFrame, Indices]:
    """n rows of ten inputs, and the numbers of their classes."""
    X = pd.DataFrame(rng.normal(size=(n, 10)), columns=[f"x{j}" for j in range(10)])
    scores = 1.5 * X["x0"] + X["x1"] * X["x2"] + np.sin(3 * X["x3"])
    p = 1.0 / (1.0 + np.exp(-scores.to_numpy()))
    return X, drawn_classes(np.column_stack([1.0 - p, p]), rng)


def time_and_score(n: int, seed: int = 0) -> dict[str, dict[str, float]]:
    """CPU seconds of one fit of five classifiers to n rows; log loss and calibration error on FRESH other rows."""
    rng = np.random.default_rng(seed)
    X, y = draw(n, rng)
    fresh, outcome = draw(FRESH, rng)
    models: dict[str, Any] = {
        "StackingClassifier": StackingClassifier(make_classifiers(X), LogisticRegression(), cv=5),
        "MoEClassifier": gw.MoEClassifier(make_classifiers(X), random_state=0),
    }
    found: dict[str, dict[str, float]] = {"seconds": {}, "log_loss": {}, "calibration_error": {}}
    for name, model in models.items():
        begun = time.process_time()
        model.fit(X, y)
        found["seconds"][name] = time.process_time() - begun
        scores = ClassScores.of(model.predict_proba(fresh), outcome)
        found["log_loss"][name] = scores.log_loss
        found["calibration_error"][name] = scores.calibration_error
    found["seconds"]["ratio"] = found["seconds"]["MoEClassifier"] / found["seconds"]["StackingClassifier"]
    return found


def main(rows: Annotated[int, typer.Option(min=100, help="Rows of the fit.")] = 20_000) -> None:
    """Time both fits and score them."""
    warnings.filterwarnings("ignore", category=UserWarning)
    time_and_score(300)  # compiled code is loaded
    save("class_fit_time", {"rows": rows, **time_and_score(rows)})


if __name__ == "__main__":
    start(main)
