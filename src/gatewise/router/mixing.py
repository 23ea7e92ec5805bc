"""AFTER over a list of out-of-sample forecasts, averaged over time and over orders of the rows."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gatewise.aggregation.weights import time_average
from gatewise.arrays import Floats
from gatewise.noise import Noise
from gatewise.stats import clip_scale, root_mean_square

LEAST = float(np.sqrt(np.finfo(np.float64).tiny))  # a scale whose square is a number above zero


@dataclass(frozen=True, eq=False)
class Mixing:
    """What the aggregation of S forecasts on n rows found.

    ``shares`` (S,) are the weights averaged over time and orders, ``online`` (n,) the one-step-ahead predictions
    averaged over orders, ``log_weights`` (S,) the state after all rows, which no order changes.
    """

    shares: Floats
    online: Floats
    sigma: Floats  # (S,)
    log_weights: Floats
    n_seen: int


def mix(
    forecasts: Floats,
    y: Floats,
    log_prior: Floats,
    noise: Noise,
    sample_weight: Floats,
    orders: list[NDArray[np.intp]],
) -> Mixing:
    """Aggregate forecasts (n, S) of y (n,) in every one of the orders (`alg:scale_online`, fixed scales).

    A candidate's scale is its root mean squared error on all rows. A sample weight multiplies the log density.

    >>> from gatewise.noise import Gaussian
    >>> y = np.linspace(-1, 1, 50)
    >>> found = mix(np.column_stack([y + 0.1, -y]), y, np.zeros(2), Gaussian(), np.ones(50), [np.arange(50)])
    >>> found.shares.round(2)
    array([0.99, 0.01])
    """
    residuals = y[:, None] - forecasts
    sigma = scales(residuals, sample_weight)
    log_density = sample_weight[:, None] * (noise.log_density(residuals / sigma) - np.log(sigma))
    shares, online = time_average(log_prior, log_density, forecasts, orders)
    total = log_prior + log_density.sum(axis=0)
    return Mixing(shares, online, sigma, total - total.max(), len(y))


def go_on(mixing: Mixing, forecasts: Floats, y: Floats, noise: Noise, sample_weight: Floats) -> Mixing:
    """The aggregation after more rows, in their order, with the scales as they are; ``online`` is for these rows."""
    log_density = sample_weight[:, None] * (
        noise.log_density((y[:, None] - forecasts) / mixing.sigma) - np.log(mixing.sigma)
    )
    shares, online = time_average(mixing.log_weights, log_density, forecasts, [np.arange(len(y))])
    total = mixing.n_seen * mixing.shares + len(y) * shares
    state = mixing.log_weights + log_density.sum(axis=0)
    return Mixing(total / total.sum(), online, mixing.sigma, state - state.max(), mixing.n_seen + len(y))


def scales(residuals: Floats, sample_weight: Floats) -> Floats:
    """The root mean squared residual of every candidate, (S,), not below a millionth of the largest of them."""
    sigma = root_mean_square(residuals, sample_weight)
    low = max(1e-6 * float(sigma.max(initial=0.0)), LEAST)
    return clip_scale(sigma, low, np.inf)
