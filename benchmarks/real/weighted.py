"""Fixed weights from out-of-fold predictions: the best single expert, the simplex stack, greedy selection."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone, RegressorMixin
from sklearn.model_selection import cross_val_predict

from gatewise.aggregation import convex_stack
from gatewise.arrays import Floats

Rule = Callable[[Floats, Floats], Floats]


def best_single(F: Floats, y: Floats) -> Floats:
    """All weight on the expert with the least squared error, (M,).

    >>> best_single(np.array([[0.0, 1.0], [0.0, 2.0]]), np.array([1.0, 2.0]))
    array([0., 1.])
    """
    errors = ((F - y[:, None]) ** 2).mean(axis=0)
    return np.asarray(np.eye(F.shape[1])[int(errors.argmin())])


def simplex(F: Floats, y: Floats) -> Floats:
    """The convex combination with the least squared error, (M,)."""
    return np.asarray(convex_stack(F, y).theta[:, 0])


def greedy(F: Floats, y: Floats, rounds: int = 50) -> Floats:
    """Ensemble selection with replacement (Caruana and others, 2004), (M,).

    Each round adds the expert that makes the plain average of all those added the best; the weights are the shares
    after the best round.

    >>> greedy(np.array([[0.0, 4.0], [0.0, 4.0]]), np.array([1.0, 1.0]), rounds=10)
    array([0.75, 0.25])
    """
    total, counts = np.zeros(len(y)), np.zeros(F.shape[1])
    best, best_error = counts, np.inf
    for size in range(1, rounds + 1):
        errors = (((total[:, None] + F) / size - y[:, None]) ** 2).mean(axis=0)  # (M,)
        chosen = int(errors.argmin())
        total, counts = total + F[:, chosen], counts + np.eye(F.shape[1])[chosen]
        if errors[chosen] < best_error:
            best, best_error = counts / size, errors[chosen]
    return best


class WeightedExperts(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Experts with fixed weights, which ``rule`` finds from out-of-fold predictions; then refitted on all rows."""

    def __init__(self, experts: Sequence[tuple[str, Any]], rule: Rule, cv: Any) -> None:
        self.experts = experts
        self.rule = rule
        self.cv = cv

    def fit(self, X: Any, y: Floats) -> "WeightedExperts":
        """Find the weights, refit the experts that have one."""
        F = np.column_stack([cross_val_predict(expert, X, y, cv=self.cv) for _, expert in self.experts])
        self.weights_ = self.rule(F, y)
        used = [(w, expert) for w, (_, expert) in zip(self.weights_, self.experts, strict=True) if w > 0.0]
        self.fitted_ = [(w, clone(expert).fit(X, y)) for w, expert in used]
        return self

    def predict(self, X: Any) -> Floats:
        """The weighted sum of the experts, (n,)."""
        total: Floats = sum(w * expert.predict(X) for w, expert in self.fitted_)
        return total
