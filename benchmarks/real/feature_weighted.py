"""Feature-weighted linear stacking (Sill and others, 2009): experts' weights, linear in meta-features."""

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import RidgeCV

from benchmarks.real.weighted import simplex
from gatewise.arrays import Floats

ALPHAS = np.logspace(-2, 6, 17)
FARTHEST = 3.0  # meta-features stop here, in standard deviations: outside of the data lines lead anywhere


def products(F: Floats, Z: Floats) -> Floats:
    """Every meta-feature times every forecast: F (n, M), Z (n, k) -> (n, k M).

    >>> products(np.array([[2.0, 3.0]]), np.array([[1.0, 10.0]]))
    array([[ 2.,  3., 20., 30.]])
    """
    return np.asarray((Z[:, :, None] * F[:, None, :]).reshape(len(F), -1))


class FeatureWeightedStack:
    """Ridge regression of what the convex stack leaves on products of forecasts and meta-features.

    So a large penalty leads to the stack, which is better than to zero, where ridge regression of the response itself
    leads. Meta-features are the constant alone, the constant and the numbers, or the constant and all encoded
    columns: which of the three, and the penalty, is decided by leave-one-out error.
    """

    def __init__(self, encoder: Any) -> None:
        self.encoder = encoder  # as `scaled_inputs` makes it: numbers first

    def fit(self, F: Floats, X: Any, y: Floats) -> "FeatureWeightedStack":
        """Learn from out-of-fold forecasts F (n, M)."""
        self.encoder_ = clone(self.encoder).fit(X)
        self.centre_, self.scale_ = float(y.mean()), float(y.std()) or 1.0
        self.stack_ = simplex(F, y)
        Z, G, left = self._meta(X), self._scaled(F), (y - F @ self.stack_) / self.scale_
        widths = sorted({1, 1 + self.encoder_.output_indices_["numbers"].stop, Z.shape[1]})
        models = [(width, RidgeCV(ALPHAS).fit(products(G, Z[:, :width]), left)) for width in widths]
        self.width_, self.model_ = max(models, key=lambda one: float(one[1].best_score_))
        return self

    def predict(self, F: Floats, X: Any) -> Floats:
        """Predictions (n,) from the experts' forecasts F (n, M) at X."""
        rows = products(self._scaled(F), self._meta(X)[:, : self.width_])
        return np.asarray(F @ self.stack_ + self.scale_ * self.model_.predict(rows))

    def _scaled(self, values: Floats) -> Floats:
        return np.asarray((values - self.centre_) / self.scale_)

    def _meta(self, X: Any) -> Floats:
        columns = np.clip(np.asarray(self.encoder_.transform(X), dtype=float), -FARTHEST, FARTHEST)
        return np.column_stack([np.ones(len(columns)), columns])  # (n, 1 + k)
