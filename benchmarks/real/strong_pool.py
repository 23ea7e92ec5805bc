"""The strong pool: three boosting libraries, extra trees, ridge and a network, in one thread with fixed seeds."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone, RegressorMixin
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from gatewise.app.models.default_pool import numeric_columns, ordinal_inputs, ridge, scaled_inputs, text_columns
from gatewise.arrays import Floats

TREES, RATE = 300, 0.05  # of the boosting libraries that have no automatic rate


class LightGBM(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """`lightgbm.LGBMRegressor` whose first ``n_categorical`` columns are codes of categories.

    The library takes these as an argument of ``fit`` only, which a pipeline does not hand on by itself.
    """

    def __init__(self, n_categorical: int = 0) -> None:
        self.n_categorical = n_categorical

    def fit(self, X: Any, y: Floats) -> "LightGBM":
        """Boost."""
        from lightgbm import LGBMRegressor  # noqa: PLC0415 - an extra

        X = np.asarray(X, dtype=float)
        model = LGBMRegressor(n_estimators=TREES, learning_rate=RATE, n_jobs=1, random_state=0, verbosity=-1)
        columns: Any = list(range(self.n_categorical)) or "auto"
        self.model_ = model.fit(X, y, categorical_feature=columns)
        return self

    def predict(self, X: Any) -> Floats:
        """Predictions, (n,)."""
        return np.asarray(self.model_.booster_.predict(np.asarray(X, dtype=float), num_threads=1))


class XGBoost(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """`xgboost.XGBRegressor` whose first ``n_categorical`` columns are codes of categories."""

    def __init__(self, n_categorical: int = 0) -> None:
        self.n_categorical = n_categorical

    def fit(self, X: Any, y: Floats) -> "XGBoost":
        """Boost."""
        from xgboost import XGBRegressor  # noqa: PLC0415 - an extra

        X = np.asarray(X, dtype=float)
        kinds = ["c"] * self.n_categorical + ["q"] * (X.shape[1] - self.n_categorical)
        model = XGBRegressor(
            n_estimators=TREES,
            learning_rate=RATE,
            max_depth=5,
            min_child_weight=5,
            subsample=0.8,
            colsample_bytree=0.8,
            tree_method="hist",
            feature_types=kinds,
            enable_categorical=True,
            n_jobs=1,
            random_state=0,
        )
        self.model_ = model.fit(X, y)
        return self

    def predict(self, X: Any) -> Floats:
        """Predictions, (n,)."""
        return np.asarray(self.model_.predict(np.asarray(X, dtype=float)), dtype=float)


class CatBoost(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """`catboost.CatBoostRegressor`, which takes text as it is; its rate is the library's own choice."""

    def fit(self, X: Any, y: Floats) -> "CatBoost":
        """Boost."""
        from catboost import CatBoostRegressor  # noqa: PLC0415 - an extra

        text = text_columns(X) if hasattr(X, "columns") else []
        model = CatBoostRegressor(
            iterations=TREES,
            cat_features=text,
            thread_count=1,
            random_seed=0,
            verbose=False,
            allow_writing_files=False,
        )
        self.model_ = model.fit(X, y)
        return self

    def predict(self, X: Any) -> Floats:
        """Predictions, (n,)."""
        return np.asarray(self.model_.predict(X, thread_count=1))


def fill_text(X: Any) -> Any:
    """A data frame whose missing text is a category of its own."""
    text = text_columns(X)
    return X.assign(**{name: X[name].fillna("missing").astype(str) for name in text})


def extra_trees() -> ExtraTreesRegressor:
    return ExtraTreesRegressor(n_estimators=200, random_state=0)


def network() -> TransformedTargetRegressor:
    """Two hidden layers on a standardized response, stopped early on a tenth of the rows."""
    layers = MLPRegressor(
        hidden_layer_sizes=(64, 32),
        alpha=1e-3,
        early_stopping=True,
        n_iter_no_change=20,
        max_iter=500,
        random_state=0,
    )
    return TransformedTargetRegressor(layers, transformer=StandardScaler())


def core_strong_experts() -> list[tuple[str, Any]]:
    """The same six without an encoding, for a matrix of numbers."""
    return [
        ("lightgbm", LightGBM()),
        ("xgboost", XGBoost()),
        ("catboost", CatBoost()),
        ("extra trees", extra_trees()),
        ("ridge", ridge()),
        ("network", network()),
    ]


def make_strong_experts(X: Any) -> list[tuple[str, Any]]:
    """Names and unfitted pipelines for the columns of a data frame."""
    numbers, text = numeric_columns(X), text_columns(X)
    codes, scaled = ordinal_inputs(numbers, text), scaled_inputs(numbers, text)
    whole = ordinal_inputs(numbers, text, missing=-1)
    return [
        ("lightgbm", make_pipeline(codes, LightGBM(len(text)))),
        ("xgboost", make_pipeline(clone(codes), XGBoost(len(text)))),
        ("catboost", make_pipeline(FunctionTransformer(fill_text), CatBoost())),
        ("extra trees", make_pipeline(whole, extra_trees())),
        ("ridge", make_pipeline(scaled, ridge())),
        ("network", make_pipeline(clone(scaled), network())),
    ]
