"""`MoERegressor` against `StackingRegressor`: the same five experts and folds, 20,000 rows of 20 features.

Time of ``fit``, and of ``predict`` with a dense gate, as ratios to the stack's. Both refit the experts on all rows.
"""

import argparse
import warnings
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor, StackingRegressor
from sklearn.linear_model import Ridge, RidgeCV
from sklearn.model_selection import KFold
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer
from threadpoolctl import threadpool_limits

import gatewise
from benchmarks.timing import in_turn, save

N, N_NEW, D, ROUNDS = 20_000, 20_000, 20, 3


def make_experts() -> list[tuple[str, Any]]:
    """Unfitted, with fixed seeds, each on one thread."""
    return [
        ("ridge", Ridge()),
        ("knn", KNeighborsRegressor(10)),
        ("forest", RandomForestRegressor(50, random_state=0)),
        ("boosting", HistGradientBoostingRegressor(random_state=0)),
        ("splines", make_pipeline(SplineTransformer(), Ridge())),
    ]


def make_rows(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A line on one side of a plane, a wave on the other, and noise."""
    X = rng.normal(size=(n, D))
    wave = 2.0 * np.sin(2.0 * X[:, 1]) + X[:, 2] * X[:, 3]
    return X, np.where(X[:, 0] > 0.0, X[:, :5].sum(axis=1), wave) + 0.5 * rng.normal(size=n)


def contestants() -> dict[str, Any]:
    """The stack and ours, unfitted, on the same folds."""
    folds = KFold(5, shuffle=True, random_state=0)
    stack = StackingRegressor(make_experts(), RidgeCV(), cv=folds)
    if not hasattr(gatewise, "MoERegressor"):
        warnings.warn("this version has no MoERegressor: only the stack is timed", stacklevel=2)
        return {"stack": stack}
    return {"stack": stack, "gatewise": gatewise.MoERegressor(make_experts(), cv=folds, random_state=0)}


def run(n: int = N, rounds: int = ROUNDS) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    (X, y), (X_new, y_new) = make_rows(n, rng), make_rows(min(n, N_NEW), rng)
    models = contestants()
    with threadpool_limits(1):
        fit = in_turn({name: (lambda m=m: m.fit(X, y)) for name, m in models.items()}, rounds=rounds)
        predict = in_turn({name: (lambda m=m: m.predict(X_new)) for name, m in models.items()}, rounds=rounds)
        errors = {name: float(np.mean((m.predict(X_new) - y_new) ** 2)) for name, m in models.items()}
    result: dict[str, Any] = {"n": n, "d": D, "test_mse": errors}
    result |= {"fit_seconds": fit.medians(), "predict_seconds": predict.medians()}
    if "gatewise" in models:
        result["fit_over_stack"] = fit.ratio("gatewise", "stack")
        result["predict_over_stack"] = predict.ratio("gatewise", "stack")
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=N)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    given, _ = parser.parse_known_args()
    save("moe_regressor", run(given.rows, given.rounds))


if __name__ == "__main__":
    main()
