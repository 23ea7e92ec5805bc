"""AFTER over a list of out-of-sample forecasts, averaged over time and over orders of the rows."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from gatewise.arrays import Floats
from gatewise.noise import Noise

BLOCK = 2**21  # numbers held at a time


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
    shares, online = np.zeros(len(sigma)), np.zeros(len(y))
    for order in orders:
        for rows, weights in _paths(log_density, log_prior, order):
            shares += weights.sum(axis=0)
            online[rows] += np.einsum("is,is->i", weights, forecasts[rows])
    total = log_prior + log_density.sum(axis=0)
    return Mixing(shares / shares.sum(), online / len(orders), sigma, total - total.max(), len(y))


def go_on(mixing: Mixing, forecasts: Floats, y: Floats, noise: Noise, sample_weight: Floats) -> Mixing:
    """The aggregation after more rows, in their order, with the scales as they are; ``online`` is for these rows."""
    log_density = sample_weight[:, None] * (
        noise.log_density((y[:, None] - forecasts) / mixing.sigma) - np.log(mixing.sigma)
    )
    total, online = mixing.n_seen * mixing.shares, np.empty(len(y))
    for rows, weights in _paths(log_density, mixing.log_weights, np.arange(len(y))):
        total = total + weights.sum(axis=0)
        online[rows] = np.einsum("is,is->i", weights, forecasts[rows])
    state = mixing.log_weights + log_density.sum(axis=0)
    return Mixing(total / total.sum(), online, mixing.sigma, state - state.max(), mixing.n_seen + len(y))


def scales(residuals: Floats, sample_weight: Floats) -> Floats:
    """The root mean squared residual of every candidate, (S,), kept above zero."""
    squares = sample_weight @ residuals**2 / sample_weight.sum()
    least = 1e-12 * max(float(squares.max(initial=0.0)), np.finfo(np.float64).tiny / 1e-12)
    return np.asarray(np.sqrt(np.maximum(squares, least)))


def _paths(
    log_density: Floats, log_prior: Floats, order: NDArray[np.intp]
) -> Iterator[tuple[NDArray[np.intp], Floats]]:
    """The rows of an order in blocks, each with the weights (rows, S) that predict it."""
    state = log_prior
    step = max(1, BLOCK // len(log_prior))
    for start in range(0, len(order), step):
        rows = order[start : start + step]
        steps = np.cumsum(log_density[rows], axis=0)
        before = np.concatenate([np.zeros((1, len(log_prior))), steps[:-1]])
        yield rows, np.asarray(softmax(state + before, axis=1))
        state = state + steps[-1]
        state = state - state.max()
