"""Online routing with the score of the chosen model only: exponential weights that are weighted by importance.

At a query the candidates vote; the model that is asked is drawn from the votes mixed with exploration. The value of a
candidate that picks model m is estimated without bias by

    f_m + [m was asked] (score - f_m) / chance of m,

with the forecast f_m. Exploration is concentrated near the border between models, where decisions can change
(`sec:adaptation`, boundary-aware exploration).
"""

from typing import Any, NamedTuple

import numpy as np

from gatewise.aggregation.weights import normalise
from gatewise.arrays import Floats, Indices
from gatewise.losses import ScoreLoss

LEAST_EXPLORATION = 0.2  # of the mean: what remains of it far from every border
LEAST_WEIGHT = 1e-6  # a candidate that had less in the fit starts with this
CONTENDER = 0.01  # votes: models with more are explored


class OnlineState(NamedTuple):
    """Where the aggregation stands: log prior weights and sums of estimated values, (S,), and what sets the rate.

    ``variation`` is the sum over scores of the variance of the candidates' values under the weights then, ``largest``
    the largest deviation of a value from the mean, ``n_seen`` the number of scores, those of the fit included.
    """

    log_prior: Floats
    sums: Floats
    variation: float
    largest: float
    n_seen: int

    @property
    def log_weights(self) -> Floats:
        """log prior + rate * sums, normalised; rate = sqrt(log S / variation), at most 1 / largest."""
        if self.variation == 0.0:
            return normalise(self.log_prior)[0]
        rate = min(float(np.sqrt(np.log(max(len(self.sums), 2)) / self.variation)), 1.0 / self.largest)
        return normalise(self.log_prior + ScoreLoss(rate).log_density(self.sums))[0]


def begin(weights: Floats, n_seen: int) -> OnlineState:
    """The state before any score came back: weights (S,) of a fit to ``n_seen`` queries."""
    log_prior = normalise(np.log(np.maximum(weights, LEAST_WEIGHT)))[0]
    return OnlineState(log_prior, np.zeros(len(weights)), 0.0, 0.0, n_seen)


class RouteDraw(NamedTuple):
    """The model drawn for every query, by its name and its number (n,), and the chances (n, M) it was drawn from."""

    models: Any
    numbers: Indices
    chances: Floats


def exploration_chances(gate: Floats, exploration: float, near_border: bool = True) -> Floats:
    """Chances (n, M) of asking each model, from votes (n, M): the leader's, mixed with exploration of the others.

    Near the border the chance of another model is proportional to how close the two largest votes are, with the mean
    ``exploration`` over the queries and a floor; it goes to the runner-up and to all others with votes. Else it is
    the same for all queries and models.

    >>> exploration_chances(np.array([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]), 0.1).round(3)
    array([[0.82, 0.18, 0.  ],
           [0.98, 0.02, 0.  ]])
    """
    n, M = gate.shape
    order, rows = np.argsort(-gate, axis=1, kind="stable"), np.arange(n)
    leader = np.eye(M)[order[:, 0]]
    if not near_border:
        return np.asarray((1.0 - exploration) * leader + exploration * (1.0 - leader) / (M - 1))
    closeness = 1.0 - (gate[rows, order[:, 0]] - gate[rows, order[:, 1]])
    mean = float(closeness.mean()) if n else 1.0
    relative = LEAST_EXPLORATION + (1.0 - LEAST_EXPLORATION) * closeness / mean if mean > 0.0 else np.ones(n)
    share = np.minimum(exploration * relative, 1.0)[:, None]
    contenders = gate > CONTENDER
    contenders[rows, order[:, 1]] = True
    contenders[rows, order[:, 0]] = False
    return np.asarray((1.0 - share) * leader + share * contenders / contenders.sum(axis=1, keepdims=True))


def break_ties(gate: Floats, forecasts: Floats) -> Floats:
    """Votes (n, M) in which models without any are ordered by their forecast scores (n, M), each below CONTENDER."""
    span = float(np.ptp(forecasts)) if forecasts.size else 0.0
    return np.asarray(gate + 1e-6 * (forecasts - forecasts.min()) / span) if span > 0.0 else gate


def draw_models(chances: Floats, rng: np.random.Generator) -> Indices:
    """One model for every row of chances (n, M)."""
    return np.asarray((rng.random((len(chances), 1)) < np.cumsum(chances, axis=1)).argmax(axis=1))


def estimated_values(forecasts: Floats, models: Indices, scores: Floats, chances: Floats) -> Floats:
    """Doubly robust values (n, M) of all models from the score and the chance (n,) of the one that was asked.

    >>> estimated_values(np.array([[0.5, 0.2]]), np.array([0]), np.array([1.0]), np.array([0.5]))
    array([[1.5, 0.2]])
    """
    rows = np.arange(len(models))
    out = forecasts.copy()
    out[rows, models] += (scores - forecasts[rows, models]) / chances
    return out


def update_weights(state: OnlineState, values: Floats) -> OnlineState:
    """The state after estimated values (n, S) of all candidates.

    The rate falls as values vary: an estimate over a small chance is large, and moves no weight by itself.
    """
    weights = np.exp(state.log_weights)
    deviation = values - (values @ weights)[:, None]
    return OnlineState(
        state.log_prior,
        state.sums + values.sum(axis=0),
        state.variation + float((deviation**2 @ weights).sum()),
        float(np.abs(deviation).max(initial=state.largest)),
        state.n_seen + len(values),
    )
