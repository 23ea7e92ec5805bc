"""Losses of models on rows that they were not fitted on."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from gatewise.arrays import as_count, as_rows, as_vector, Floats
from gatewise.experts import expert_predictions


def out_of_fold_losses(
    models: Sequence[Any], X: Any, y: ArrayLike, *, n_folds: int = 5, seed: int | np.random.Generator = 0
) -> Floats:
    """(y_i - f_m(x_i))^2 with f_m fitted on the other folds, (n, M), for scikit-learn regressors.

    >>> from sklearn.dummy import DummyRegressor
    >>> models = [DummyRegressor(), DummyRegressor(strategy="constant", constant=1.0)]
    >>> out_of_fold_losses(models, np.zeros((4, 1)), [1.0, 1.0, 1.0, 5.0], n_folds=4)[:, 1]
    array([ 0.,  0.,  0., 16.])
    """
    rows = as_rows(X)
    n = len(rows)
    y = as_vector(y, "y", n)
    n_folds = as_count(n_folds, "n_folds", low=2, high=n)
    if len(models) == 0:
        raise ValueError("models must hold at least one model")
    X = X if hasattr(X, "shape") else rows
    fold = np.random.default_rng(seed).permutation(n) % n_folds
    losses = np.empty((n, len(models)))
    for number in range(n_folds):
        train, held_out = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
        part = _safe_indexing(X, held_out)
        for m, model in enumerate(models):
            fitted = clone(model).fit(_safe_indexing(X, train), y[train])
            losses[held_out, m] = (y[held_out] - expert_predictions(fitted, part, f"models[{m}]")) ** 2
    return losses
