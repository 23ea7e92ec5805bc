"""AFTER over a list of out-of-fold forecasts, averaged over time and over orders of the rows."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gatewise.aggregation.weights import time_average
from gatewise.arrays import Floats
from gatewise.losses import Loss


@dataclass(frozen=True, eq=False)
class Mixing:
    """What the aggregation of S candidates on n rows found.

    ``shares`` (S,) are the weights averaged over time and orders, ``online`` (n,) the one-step-ahead predictions
    averaged over orders, ``scale`` (S,) the candidates' scales, ``log_weights`` (S,) the state after all rows, which
    no order changes.
    """

    shares: Floats
    online: Floats
    scale: Floats
    log_weights: Floats
    n_seen: int


def mix(forecasts: Floats, loss: Loss, log_prior: Floats, power: Floats, orders: list[NDArray[np.intp]]) -> Mixing:
    """Aggregate forecasts (n, S) under the loss of their rows, in every one of the orders (`alg:scale_online`).

    A candidate's scale, where the loss has one, is its root mean squared error on all rows. The log density of row i
    is multiplied by power_i: the sample weight, tempered.

    >>> from gatewise.losses import ResidualLoss
    >>> y = np.linspace(-1, 1, 50)
    >>> found = mix(np.column_stack([y + 0.1, -y]), ResidualLoss(y), np.zeros(2), np.ones(50), [np.arange(50)])
    >>> found.shares.round(2)
    array([0.99, 0.01])
    """
    loss = loss.calibrated(forecasts, power)
    log_density = power[:, None] * loss.log_density(forecasts)
    shares, online = time_average(log_prior, log_density, forecasts, orders)
    state = log_prior + log_density.sum(axis=0)
    scale = np.broadcast_to(loss.scale, shares.shape)
    return Mixing(shares, online, scale, state - state.max(), len(forecasts))


def continue_mixing(mixing: Mixing, forecasts: Floats, loss: Loss, power: Floats) -> Mixing:
    """The aggregation after more rows, in their order, with the scales as they are; ``online`` is for these rows."""
    n = len(forecasts)
    log_density = power[:, None] * loss.scaled(mixing.scale).log_density(forecasts)
    shares, online = time_average(mixing.log_weights, log_density, forecasts, [np.arange(n)])
    total = mixing.n_seen * mixing.shares + n * shares
    state = mixing.log_weights + log_density.sum(axis=0)
    return Mixing(total / total.sum(), online, mixing.scale, state - state.max(), mixing.n_seen + n)
