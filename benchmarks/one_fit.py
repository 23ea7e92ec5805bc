"""One fit of `MoERegressor` or of `StackingRegressor`, with the same experts, in a process of its own.

``python -m benchmarks.one_fit gatewise 500000 10 3 --usual`` prints JSON. The rival's process does not import
Gatewise, so that the largest memory of the two can be compared.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor, StackingRegressor
from sklearn.linear_model import Ridge, RidgeCV
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.tree import DecisionTreeRegressor
from threadpoolctl import threadpool_limits

FRESH, NOISE = 5000, 0.3


class Size(NamedTuple):
    """Rows, columns beside the forecasts, and experts."""

    n: int
    d: int
    M: int


def make_rows(size: Size, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A table of inputs and forecasts, each forecast good on one side of an input; responses; and the truth."""
    n, d, M = size
    X = rng.normal(size=(n, d))
    truth = np.sin(2.0 * X[:, 0]) + X[:, 1]
    errors = rng.normal(size=(n, M)) * (0.2 + (X[:, np.arange(M) % min(d, 10)] > 0.0))
    return np.column_stack([X, truth[:, None] + errors]), truth + NOISE * rng.normal(size=n), truth


def cheap_experts(count: int) -> list[tuple[str, Any]]:
    """Three ridge regressions on two columns each, then small trees that look at random columns: all different."""
    pairs = [FunctionTransformer(_two_columns, kw_args={"first": m}) for m in range(min(count, 3))]
    ridges = [(f"ridge {m}", make_pipeline(pair, Ridge())) for m, pair in enumerate(pairs)]
    trees = [(f"tree {m}", DecisionTreeRegressor(max_depth=3, max_features=2, random_state=m)) for m in range(count)]
    return [*ridges, *trees][:count]


def usual_experts() -> list[tuple[str, Any]]:
    """Three experts that take about a second each to fit to 100,000 rows of ten columns, or less."""
    boosting = HistGradientBoostingRegressor(max_iter=30, random_state=0)
    return [("ridge", Ridge()), ("tree", DecisionTreeRegressor(max_depth=6, random_state=0)), ("boosting", boosting)]


def _two_columns(X: np.ndarray, first: int) -> np.ndarray:
    return X[:, first : first + 2]


def largest_gigabytes() -> float:
    """Of this process alone; what `resource` tells is at least that of the process which started it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return float(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 2**20


def without_trees() -> dict[str, Any]:
    """The arguments of `MoERegressor` without members of trees."""
    import gatewise as gw  # noqa: PLC0415 - the rival's process does without

    return {"gates": ["linear", "quadratic", "kernel", "forecast"], "settings": gw.MoESettings(learners=())}


def fit_one(name: str, size: Size, threads: int, usual: bool) -> dict[str, float]:
    """CPU seconds, memory and accuracy of one of the two, with cheap or usual experts and five folds."""
    rng = np.random.default_rng(0)
    X, _, truth = make_rows(size._replace(M=1), rng)
    X, folds = X[:, : size.d].copy(), KFold(5, shuffle=True, random_state=0)
    fresh, _, fresh_truth = make_rows(Size(FRESH, size.d, 1), rng)
    y, experts = truth + NOISE * rng.normal(size=size.n), usual_experts() if usual else cheap_experts(size.M)
    model: Any = StackingRegressor(experts, RidgeCV(), cv=folds)
    if name == "gatewise":
        import numba  # noqa: PLC0415

        import gatewise as gw  # noqa: PLC0415

        numba.set_num_threads(threads)
        model = gw.MoERegressor(experts, cv=folds, random_state=0, **without_trees())
    with threadpool_limits(threads):
        clone(model).fit(X[:300], y[:300])  # imports and compiled code
        before, start = largest_gigabytes(), time.process_time()
        model.fit(X, y)
        used = time.process_time() - start
    largest = largest_gigabytes()
    distance = float(np.sqrt(np.mean((model.predict(fresh[:, : size.d]) - fresh_truth) ** 2)))
    added = max(largest - before, 2**-10)  # a megabyte at least
    return {"cpu_seconds": used, "largest_gigabytes": largest, "added_gigabytes": added, "distance": distance}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=["gatewise", "stack"])
    for field in Size._fields:
        parser.add_argument(field, type=int)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--usual", action="store_true")
    given = parser.parse_args()
    print(json.dumps(fit_one(given.name, Size(given.n, given.d, given.M), given.threads, given.usual)))
