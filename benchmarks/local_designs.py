"""Designs on which a gate is the truth, with known experts.

The three designs of the paper, and a fourth with two experts, each right on one half of the square.
"""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin

from gatewise.arrays import Floats
from gatewise.paper.designs import Design, DESIGNS


def _half_space_scores(X: Floats) -> Floats:
    """Scores of the two experts, so steep that the softmax is an indicator of the half-space, (n, 2)."""
    return np.column_stack([1e6 * (0.8 * X[:, 0] - 0.6 * X[:, 1]), np.zeros(len(X))])


HALF_SPACE = Design("half-space", DESIGNS["linear"].experts[:2], _half_space_scores, 0.5, (1000, 1000))
LOCAL_DESIGNS: dict[str, Design] = {**DESIGNS, HALF_SPACE.name: HALF_SPACE}


class KnownExpert(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A function of the rows as a scikit-learn regressor that has nothing to learn."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def fit(self, _X: Any, _y: Any) -> "KnownExpert":
        """Nothing to do."""
        return self

    def predict(self, X: Any) -> Floats:
        """The function at every row, (n,)."""
        rows = np.asarray(X, dtype=float)
        values = self.function.predict(rows) if hasattr(self.function, "predict") else self.function(rows)
        return np.asarray(values, dtype=float)

    def __sklearn_is_fitted__(self) -> bool:
        return True
