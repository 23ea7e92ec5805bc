"""Two pools of classifiers: the one that comes with the package, and one of stronger learners."""

from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from benchmarks.real.strong_pool import fill_text
from gatewise.app.models.default_classifiers import make_classifiers
from gatewise.app.models.default_pool import numeric_columns, ordinal_inputs, scaled_inputs, text_columns

Experts = list[tuple[str, Any]]
TREES, RATE = 200, 0.05
PACKAGES = {"default": ("scikit-learn",), "strong": ("scikit-learn", "lightgbm", "xgboost", "catboost")}


class BoostedClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Boosted trees of one of three libraries, in one thread; the first ``n_categorical`` columns are codes.

    The labels are numbered for the fit, as xgboost wants all numbers from 0 on.
    """

    def __init__(self, library: str, n_categorical: int = 0) -> None:
        self.library = library
        self.n_categorical = n_categorical

    def fit(self, X: Any, y: Any) -> "BoostedClassifier":
        """Boost."""
        self.classes_, codes = np.unique(y, return_inverse=True)
        self.model_ = getattr(self, f"_{self.library}")(X, codes)
        return self

    def predict_proba(self, X: Any) -> Any:
        """(n, C)."""
        return self.model_.predict_proba(X if self.library == "catboost" else np.asarray(X, dtype=float))

    def predict(self, X: Any) -> Any:
        """The most probable class, (n,)."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def _lightgbm(self, X: Any, codes: Any) -> Any:
        from lightgbm import LGBMClassifier  # noqa: PLC0415 - an extra

        model = LGBMClassifier(n_estimators=TREES, learning_rate=RATE, n_jobs=1, random_state=0, verbosity=-1)
        columns: Any = list(range(self.n_categorical)) or "auto"
        return model.fit(np.asarray(X, dtype=float), codes, categorical_feature=columns)

    def _xgboost(self, X: Any, codes: Any) -> Any:
        from xgboost import XGBClassifier  # noqa: PLC0415 - an extra

        kinds = ["c"] * self.n_categorical + ["q"] * (X.shape[1] - self.n_categorical)
        model = XGBClassifier(
            n_estimators=TREES,
            learning_rate=RATE,
            max_depth=5,
            subsample=0.8,
            colsample_bytree=0.8,
            tree_method="hist",
            feature_types=kinds,
            enable_categorical=True,
            n_jobs=1,
            random_state=0,
        )
        return model.fit(np.asarray(X, dtype=float), codes)

    def _catboost(self, X: Any, codes: Any) -> Any:
        from catboost import CatBoostClassifier  # noqa: PLC0415 - an extra

        model = CatBoostClassifier(
            iterations=TREES,
            cat_features=text_columns(X),
            thread_count=1,
            random_seed=0,
            verbose=False,
            allow_writing_files=False,
        )
        return model.fit(X, codes)


def make_strong_classifiers(X: Any) -> Experts:
    """Names and unfitted pipelines for the columns of a data frame."""
    numbers, text = numeric_columns(X), text_columns(X)
    codes, scaled = ordinal_inputs(numbers, text), scaled_inputs(numbers, text)
    trees = ExtraTreesClassifier(n_estimators=200, random_state=0)
    network = MLPClassifier((64, 32), alpha=1e-3, early_stopping=True, n_iter_no_change=20, random_state=0)
    return [
        ("lightgbm", make_pipeline(codes, BoostedClassifier("lightgbm", len(text)))),
        ("xgboost", make_pipeline(clone(codes), BoostedClassifier("xgboost", len(text)))),
        ("catboost", make_pipeline(FunctionTransformer(fill_text), BoostedClassifier("catboost"))),
        ("extra trees", make_pipeline(ordinal_inputs(numbers, text, missing=-1), trees)),
        ("logistic", make_pipeline(scaled, LogisticRegression(max_iter=1000))),
        ("network", make_pipeline(clone(scaled), network)),
    ]


CLASS_POOLS: Mapping[str, Callable[[Any], Experts]] = {
    "default": make_classifiers,
    "strong": make_strong_classifiers,
}


def pool_versions(pool: str) -> str:
    """The packages whose versions decide what the experts of a pool say.

    >>> pool_versions("default").split()[0]
    'scikit-learn'
    """
    if pool not in CLASS_POOLS:
        raise ValueError(f"pool must be one of {', '.join(CLASS_POOLS)}, not {pool!r}")
    return ", ".join(f"{name} {version(name)}" for name in PACKAGES[pool])
