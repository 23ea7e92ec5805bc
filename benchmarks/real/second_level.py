"""Experts and a model that combines their forecasts and may look at the inputs."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from sklearn.base import BaseEstimator, clone, RegressorMixin
from sklearn.model_selection import cross_val_predict

from gatewise.arrays import Floats


class Combiner(Protocol):
    """Learns from forecasts F (n, M), rows X and responses; predicts from forecasts and rows."""

    def fit(self, F: Floats, X: Any, y: Floats) -> Any:
        """Learn."""
        ...

    def predict(self, F: Floats, X: Any) -> Floats:
        """Predictions, (n,)."""
        ...


class SecondLevel(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A combiner that learns from out-of-fold forecasts; the experts are then refitted on all rows."""

    def __init__(self, experts: Sequence[tuple[str, Any]], combiner: Combiner, cv: Any) -> None:
        self.experts = experts
        self.combiner = combiner
        self.cv = cv

    def fit(self, X: Any, y: Floats) -> "SecondLevel":
        """Hold out, combine, refit."""
        F = np.column_stack([cross_val_predict(expert, X, y, cv=self.cv) for _, expert in self.experts])
        self.combiner_ = self.combiner.fit(F, X, y)
        self.fitted_ = [clone(expert).fit(X, y) for _, expert in self.experts]
        return self

    def predict(self, X: Any) -> Floats:
        """What the combiner makes of the experts' forecasts, (n,)."""
        return np.asarray(self.combiner_.predict(np.column_stack([one.predict(X) for one in self.fitted_]), X))
