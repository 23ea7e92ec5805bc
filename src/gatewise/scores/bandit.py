"""Online routing with the score of the chosen model only: exponential weights that are weighted by importance.

At a query the candidates vote; the model that is asked is drawn from the votes mixed with exploration. The value of a
candidate that picks model m is estimated without bias by

    f_m + [m was asked] (score - f_m) / chance of m,

with the forecast f_m. Exploration is concentrated near the border between models, where decisions can change
(`sec:adaptation`, boundary-aware exploration).
"""

from typing import NamedTuple

import numpy as np

from gatewise.aggregation.weights import normalise
from gatewise.arrays import Floats, Indices
from gatewise.losses import ScoreLoss

LEAST_EXPLORATION = 0.2  # of the mean: what remains of it far from every border
CONTENDER = 0.01  # votes: models with more are explored


class OnlineState(NamedTuple):
    """Normalised log weights (S,) of the candidates and the number of scores seen, those of the fit included."""

    log_weights: Floats
    n_seen: int


class RouteDraw(NamedTuple):
    """The model drawn for every query, by its number (n,), and the chances (n, M) it was drawn from."""

    models: Indices
    chances: Floats


def exploration_chances(gate: Floats, exploration: float, near_border: bool = True) -> Floats:
    """Chances (n, M) of asking each model, from votes (n, M): the leader's, mixed with exploration.

    Near the border the share of exploration at a query is proportional to how close the two largest votes are, with
    the mean ``exploration`` over the queries and a floor; it goes to the models with votes. Else it is the same for
    all queries and models.

    >>> exploration_chances(np.array([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]), 0.1).round(3)
    array([[0.91, 0.09, 0.  ],
           [1.  , 0.  , 0.  ]])
    """
    M = gate.shape[1]
    leader = np.eye(M)[gate.argmax(axis=1)]
    if not near_border:
        return np.asarray((1.0 - exploration) * leader + exploration / M)
    ordered = np.sort(gate, axis=1)
    closeness = 1.0 - (ordered[:, -1] - ordered[:, -2])
    closeness = LEAST_EXPLORATION + (1.0 - LEAST_EXPLORATION) * closeness / max(float(closeness.mean()), 1e-12)
    share = np.minimum(exploration * closeness / closeness.mean(), 1.0)[:, None]
    contenders = (gate > CONTENDER) | (leader > 0)
    return np.asarray((1.0 - share) * leader + share * contenders / contenders.sum(axis=1, keepdims=True))


def draw_models(chances: Floats, rng: np.random.Generator) -> Indices:
    """One model for every row of chances (n, M)."""
    return np.asarray((rng.random((len(chances), 1)) < np.cumsum(chances, axis=1)).argmax(axis=1))


def estimated_values(forecasts: Floats, models: Indices, scores: Floats, chances: Floats) -> Floats:
    """Doubly robust values (n, M) of all models from the score (n,) of the one that was asked.

    >>> estimated_values(np.array([[0.5, 0.2]]), np.array([0]), np.array([1.0]), np.array([[0.5, 0.5]]))
    array([[1.5, 0.2]])
    """
    rows = np.arange(len(models))
    out = forecasts.copy()
    out[rows, models] += (scores - forecasts[rows, models]) / chances[rows, models]
    return out


def update_weights(state: OnlineState, values: Floats, reach: float) -> OnlineState:
    """The state after estimated values (n, S) of all candidates; ``reach`` is the range of the scores.

    The rate is sqrt(8 log S / t) / reach with t the scores seen so far, so that regret grows like sqrt(t log S).
    """
    n, S = values.shape
    seen = state.n_seen + n
    rate = float(np.sqrt(8.0 * np.log(max(S, 2)) / max(seen, 1)) / (reach or 1.0))
    log_weights = normalise(state.log_weights + ScoreLoss(rate).log_density(values.sum(axis=0)))[0]
    return OnlineState(log_weights, seen)
