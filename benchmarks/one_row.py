"""The time of one row predicted by `MoERegressor`, over that of its five experts alone; and of the command line.

CPU time of this thread, medians of calls in turn. With and without tree members in the list. ``gatewise predict`` of
four rows is compared with ``python -c 'import skops.io, numba'``, CPU time of the whole process.
"""

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LassoCV, RidgeCV
from sklearn.neighbors import KNeighborsRegressor
from sklearn.svm import SVR
from sklearn.tree import DecisionTreeRegressor

import gatewise as gw
from benchmarks.timing import save

CALLS, COMMANDS = 400, 5
WITHOUT_TREES = ["linear", "quadratic", "kernel", "forecast"]


def make_experts() -> list[tuple[str, Any]]:
    """Five usual regressors."""
    tree = DecisionTreeRegressor(max_depth=4, random_state=0)
    return [
        ("ridge", RidgeCV()),
        ("lasso", LassoCV()),
        ("knn", KNeighborsRegressor(20)),
        ("tree", tree),
        ("svm", SVR(C=100.0)),
    ]


def medians(jobs: dict[str, Callable[[], Any]], calls: int) -> dict[str, float]:
    """Milliseconds of this thread for every job, the median of calls in turn."""
    times: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(calls):
        for name, job in jobs.items():
            start = time.thread_time()
            job()
            times[name].append(1e3 * (time.thread_time() - start))
    return {name: float(np.median(found)) for name, found in times.items()}


def one_row(trees: bool, calls: int = CALLS) -> dict[str, float]:
    """Milliseconds of the experts, of the model, and their difference."""
    X, y = load_diabetes(return_X_y=True)
    without: dict[str, Any] = {"gates": WITHOUT_TREES, "settings": gw.MoESettings(learners=())}
    model = gw.MoERegressor(make_experts(), random_state=0, **({} if trees else without)).fit(X, y)
    row = X[:1]
    model.predict(row)
    jobs = {"experts": lambda: [one.predict(row) for one in model.experts_], "model": lambda: model.predict(row)}
    found = medians(jobs, calls)
    return {**found, "overhead": found["model"] - found["experts"], "members_used": int((model.weights_ > 0).sum())}


def command_line(rounds: int = COMMANDS) -> dict[str, float]:
    """CPU seconds of ``gatewise predict`` of four rows and of the imports that it cannot do without."""
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    with tempfile.TemporaryDirectory() as folder:
        data, four, model = (Path(folder) / name for name in ("rows.csv", "four.csv", "model.skops"))
        X.assign(target=y).to_csv(data, index=False)
        X.head(4).to_csv(four, index=False)
        base = [sys.executable, "-m", "gatewise"]
        subprocess.run([*base, "fit", data, "--target", "target", "--out", model], check=True, capture_output=True)
        commands: dict[str, list[Any]] = {
            "imports": [sys.executable, "-c", "import skops.io, numba"],
            "predict": [*base, "predict", model, four, "--out", Path(folder) / "out.csv", "--force"],
        }
        times: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(rounds):
            for name, command in commands.items():
                times[name].append(_process_seconds(command))
    return {name: float(np.median(found)) for name, found in times.items()}


def _process_seconds(command: list[Any]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main() -> None:
    shell = command_line()
    save(
        "one_row",
        {
            "milliseconds": {"full list": one_row(True), "without tree members": one_row(False)},
            "command_line_seconds": shell,
            "predict_over_imports": shell["predict"] / shell["imports"],
        },
    )


if __name__ == "__main__":
    main()
