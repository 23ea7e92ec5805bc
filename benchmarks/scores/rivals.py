"""Other routers: each takes features and answers of training questions and forecasts (n, M) for others."""

from collections.abc import Callable

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import NearestNeighbors

from gatewise.arrays import Floats
from gatewise.scores.queries import Queries

Rival = Callable[[Queries, Floats, Queries], Floats]


def best_single(train: Queries, right: Floats, test: Queries) -> Floats:  # noqa: ARG001
    """The model of largest mean for every question."""
    return np.tile(right.mean(axis=0), (len(test), 1))


def best_per_category(train: Queries, right: Floats, test: Queries) -> Floats:
    """The model of largest mean in the question's category, the first column of categories."""
    out = best_single(train, right, test)
    for code in range(train.n_levels[0]):
        out[test.codes[:, 0] == code] = right[train.codes[:, 0] == code].mean(axis=0)
    return out


def logistic(train: Queries, right: Floats, test: Queries) -> Floats:
    """One logistic regression a model on all features."""
    fits = [LogisticRegression(C=0.1, max_iter=100).fit(train.full, column) for column in right.T]
    return np.column_stack([fit.predict_proba(test.full)[:, 1] for fit in fits])


def neighbours(train: Queries, right: Floats, test: Queries) -> Floats:
    """The mean over the 100 nearest questions."""
    near = NearestNeighbors(n_neighbors=100, algorithm="brute").fit(train.full)
    return np.asarray(right[near.kneighbors(test.full, return_distance=False)].mean(axis=1))


def factorisation(train: Queries, right: Floats, test: Queries) -> Floats:
    """Question and model factors: eight principal axes of the answers, each forecast by a ridge regression."""
    mean = right.mean(axis=0)
    axes = np.linalg.svd(right - mean, full_matrices=False)[2][:8]
    factors = Ridge(alpha=300.0).fit(train.full, (right - mean) @ axes.T).predict(test.full)
    return np.asarray(mean + factors @ axes)


def boosted_trees(train: Queries, right: Floats, test: Queries) -> Floats:
    """Boosted trees a model, on the answer less the mean over all models."""
    centred = right - right.mean(axis=1, keepdims=True)
    options = {"max_iter": 20, "learning_rate": 0.15, "max_leaf_nodes": 8, "min_samples_leaf": 40, "random_state": 0}
    fits = [HistGradientBoostingRegressor(**options).fit(train.full, column) for column in centred.T]
    return np.column_stack([fit.predict(test.full) for fit in fits])


RIVALS: dict[str, Rival] = {
    "best single": best_single,
    "best per category": best_per_category,
    "logistic regression per model": logistic,
    "100 nearest neighbours": neighbours,
    "matrix factorisation": factorisation,
    "boosted trees per model": boosted_trees,
}
