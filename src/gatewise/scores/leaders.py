"""The leading models: what tells them from one another decides most queries, and is fitted by itself.

A score model that is fitted to all M models spends its penalties and splits on models that are never called. Every
member is fitted to all models and to the few of largest mean score; of the second fit the differences between the
leaders are taken, of the first all else.
"""

import numpy as np

from gatewise.arrays import Floats, Indices

LEADERS = 4


def leading_models(scores: Floats) -> Indices:
    """The places of the models of largest mean score, in their order; all of them if there are not more.

    >>> leading_models(np.array([[0.1, 0.9, 0.5, 0.2, 0.3]]))
    array([1, 2, 3, 4])
    """
    return np.sort(np.argsort(-scores.mean(axis=0), kind="stable")[:LEADERS])


def centre(scores: Floats) -> Floats:
    """Scores (n, M) less their mean over the models: a query's difficulty is common to all."""
    return np.asarray(scores - scores.mean(axis=1, keepdims=True))


def with_leaders(values: Floats, own: Floats, leaders: Indices) -> Floats:
    """Values (..., M) in which the leaders differ from one another as in ``own`` (..., K); their mean stays.

    >>> with_leaders(np.array([0.0, 1.0, 3.0]), np.array([5.0, 6.0]), np.array([1, 2]))
    array([0. , 1.5, 2.5])
    """
    out = values.copy()
    out[..., leaders] = values[..., leaders].mean(axis=-1, keepdims=True) + own - own.mean(axis=-1, keepdims=True)
    return out
