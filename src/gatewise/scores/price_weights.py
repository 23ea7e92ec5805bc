"""Exponential weights of candidates by their scores less price times cost, for every price of a grid.

The loss is linear in the gate: z = g(x) . (score - price cost). Exponential weights have a mean regret of order
sqrt(log S / n) against the best of S candidates, in the place of log(S) / n for a density. The rate is learned as the
one whose weights from all other folds have the largest mean value on a fold.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gatewise.aggregation.weights import normalise
from gatewise.arrays import Floats, Indices
from gatewise.losses import ScoreLoss

RATES = np.geomspace(0.25, 64.0, 9)  # times sqrt(8 log S / n) over the range of the values
N_PRICES = 32
PRICE_SPAN = (1e-3, 30.0)  # times the range of the models' mean scores over their mean cost


class PriceWeights(NamedTuple):
    """Weights (P, S) of the candidates at prices (P,), and the learned rates (P,) in units of 1 / value."""

    prices: Floats
    weights: Floats
    rates: Floats

    def at(self, price: float) -> Floats:
        """The weights (S,) at the nearest price of the grid."""
        return np.asarray(self.weights[nearest_price(self.prices, price)])


class FoldWeights(NamedTuple):
    """Weights (S,) from all rows, weights (K, S) from all rows but those of each fold, and the learned rate."""

    weights: Floats
    without_fold: Floats
    rate: float


def price_grid(scores: Floats, costs: Floats) -> Floats:
    """Prices from 0 to one at which hardly a score is worth its cost, (P,); 0 alone if all models cost the same.

    >>> price_grid(np.array([[0.0, 1.0]]), np.zeros((1, 2)))
    array([0.])
    """
    if np.ptp(costs) == 0.0:
        return np.zeros(1)
    reach = float(np.ptp(scores.mean(axis=0))) or float(np.ptp(scores)) or 1.0
    low, high = (end * reach / float(costs.mean()) for end in PRICE_SPAN)
    return np.concatenate([[0.0], np.geomspace(low, high, N_PRICES)])


def nearest_price(prices: Floats, price: float) -> int:
    """The place in the grid of the price that is nearest on the scale of logarithms; 0 for hardly any price."""
    if len(prices) == 1 or price < prices[1] / 2.0:
        return 0
    return 1 + int(np.abs(np.log(prices[1:] / price)).argmin())


def choices(forecasts: Floats, costs: Floats, price: float) -> Indices:
    """The model (S, n) that each candidate picks by its forecast (S, n, M) less price times cost (n, M) or (M,)."""
    return np.asarray((forecasts - price * costs if price else forecasts).argmax(axis=2))


def candidate_values(picked: Indices, values: Floats) -> Floats:
    """Values (n, M + S): of every single model, (n, M), then of the models (S, n) that were picked."""
    return np.concatenate([values, np.take_along_axis(values, picked.T, axis=1)], axis=1)


def learn_weights(values: Floats, folds: Sequence[Indices]) -> FoldWeights:
    """Weights proportional to exp(rate times the sum of values (n, S) over held-out rows), with the rate learned.

    >>> values = np.tile([0.0, 1.0], (400, 1))
    >>> learn_weights(values, np.array_split(np.arange(400), 4)).weights.round(3)
    array([0., 1.])
    """
    n, S = values.shape
    sums = np.stack([values[rows].sum(axis=0) for rows in folds])  # (K, S)
    total = sums.sum(axis=0)
    unit = np.sqrt(8.0 * np.log(max(S, 2)) / n) / (float(np.ptp(values)) or 1.0)
    found = [(_mean_value(sums, rate * unit) / n, float(rate * unit)) for rate in RATES]
    rate = max(found)[1]
    return FoldWeights(_weights(total, rate), _weights(total - sums, rate), rate)


def _mean_value(sums: Floats, rate: float) -> float:
    """The sum over folds of the fold's values under the weights of all other folds, from sums (K, S)."""
    return float((_weights(sums.sum(axis=0) - sums, rate) * sums).sum())


def _weights(sums: Floats, rate: float) -> Floats:
    """Exponential weights (..., S) from sums of values (..., S)."""
    return np.asarray(np.exp(normalise(ScoreLoss(rate).log_density(sums))[0]))


def votes(weights: Floats, picked: Indices, n_models: int) -> Floats:
    """Gate weights (n, M): the weight of the single models (the first M of S), and of the candidates that pick each.

    >>> votes(np.array([0.5, 0.0, 0.5]), np.array([[1, 0]]), 2)
    array([[0.5, 0.5],
           [1. , 0. ]])
    """
    n = picked.shape[1]
    out = np.tile(weights[:n_models], (n, 1))
    rows = np.arange(n)
    for weight, chosen in zip(weights[n_models:], picked, strict=True):
        out[rows, chosen] += weight
    return out


def held_out_votes(learned: FoldWeights, picked: Indices, folds: Sequence[Indices], n_models: int) -> Floats:
    """Gate weights (n, M) of every row by the weights that were learned without its fold."""
    out = np.empty((picked.shape[1], n_models))
    for rows, weights in zip(folds, learned.without_fold, strict=True):
        out[rows] = votes(weights, picked[:, rows], n_models)
    return out
