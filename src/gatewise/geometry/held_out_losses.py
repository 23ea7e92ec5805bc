"""Losses of models on rows that they were not fitted on."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gatewise.arrays import as_count, as_rows, as_vector, Floats
from gatewise.experts.pool import Pool


def out_of_fold_losses(
    models: Sequence[Any], X: Any, y: ArrayLike, *, n_folds: int = 5, seed: int | np.random.Generator = 0
) -> Floats:
    """(y_i - f_m(x_i))^2 with f_m fitted on the other folds, (n, M).

    ``models`` are scikit-learn regressors or (name, regressor) pairs.

    >>> from sklearn.dummy import DummyRegressor
    >>> models = [DummyRegressor(), DummyRegressor(strategy="constant", constant=1.0)]
    >>> out_of_fold_losses(models, np.zeros((4, 1)), [1.0, 1.0, 1.0, 5.0], n_folds=4)[:, 1]
    array([ 0.,  0.,  0., 16.])
    """
    rows = as_rows(X)
    n = len(rows)
    y = as_vector(y, "y", n)
    n_folds = as_count(n_folds, "n_folds", low=2, high=n)
    fold = np.random.default_rng(seed).permutation(n) % n_folds
    splits = [(np.flatnonzero(fold != number), np.flatnonzero(fold == number)) for number in range(n_folds)]
    held = Pool.of(models, "models", kind="model").hold_out(X if hasattr(X, "shape") else rows, y, splits)
    losses = np.empty(held.F.shape)
    losses[held.rows] = (y[held.rows, None] - held.F) ** 2
    return losses
