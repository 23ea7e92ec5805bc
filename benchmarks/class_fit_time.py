"""``python -m benchmarks.class_fit_time``: the time of a fit of `MoEClassifier` beside scikit-learn's stack.

CPU seconds of both with the default pool of five classifiers.
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


def main(rows: Annotated[int, typer.Option(min=100, help="Rows of the fit.")] = 20_000) -> None:
    """Time both fits."""
    warnings.filterwarnings("ignore", category=UserWarning)
    fit_seconds(300)  # compiled code is loaded
    save("class_fit_time", {"rows": rows, "seconds": fit_seconds(rows)})


if __name__ == "__main__":
    start(main)
