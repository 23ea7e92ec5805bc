"""AFTER on a stream: one observation at a time, with a running scale for every forecast (`alg:scale_online`)."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from gatewise.aggregation import weights as weighting
from gatewise.aggregation.scales import check_bounds
from gatewise.arrays import as_positive, as_vector, Floats
from gatewise.noise import Noise
from gatewise.stats import clip_scale


class StreamState(NamedTuple):
    """The state of a stream: the state of AFTER, and the sums behind the running scales.

    squares (S,): the sum of squared errors of every forecast so far; seen: the number of observations in that sum.
    Both include the scale to start from, which counts as ``start_count`` observations.
    """

    after: weighting.AfterState
    squares: Floats
    seen: float
    bounds: tuple[float, float]


def init(
    log_prior: ArrayLike, sigma: ArrayLike, bounds: tuple[float, float] = (1e-6, 1e6), start_count: float = 10.0
) -> StreamState:
    """The state before any observation.

    ``sigma``, one number or (S,), is the scale to start from; it counts as much as ``start_count`` observations. The
    running scales are kept within ``bounds``.
    """
    state = weighting.init(log_prior)
    low, high = check_bounds(bounds)
    scales = as_vector(np.broadcast_to(np.asarray(sigma, dtype=np.float64), state.log_weights.shape), "sigma")
    if scales.min() <= 0:
        raise ValueError(f"sigma must be above 0, not {scales.min()}")
    count = as_positive(start_count, "start_count")
    return StreamState(state, count * scales**2, count, (low, high))


def scales(state: StreamState) -> Floats:
    """The scale of every forecast now, (S,): the root of its mean squared error so far, within the bounds."""
    return clip_scale(np.sqrt(state.squares / state.seen), *state.bounds)


def predict(state: StreamState, forecasts: ArrayLike) -> float:
    """The aggregated forecast sum_s w_s mu_s of the next observation, from forecasts (S,)."""
    values = as_vector(forecasts, "forecasts", state.squares.size)
    return float(np.exp(state.after.log_weights) @ values)


def step(state: StreamState, forecasts: ArrayLike, y: float, noise: Noise) -> StreamState:
    """The state after the observation y that the forecasts (S,) were made for.

    The weights are updated with the scales from before this observation; its errors then go into the scales.

    >>> from gatewise.noise import Gaussian
    >>> state = init([0.0, 0.0], sigma=1.0)
    >>> for y in (0.9, 1.1, 1.0, 0.9):
    ...     state = step(state, [1.0, 0.0], y, Gaussian())
    >>> round(predict(state, [1.0, 0.0]), 2)
    0.9
    """
    values = as_vector(forecasts, "forecasts", state.squares.size)
    if not np.isfinite(y):
        raise ValueError(f"y must be finite, not {y}")
    sigma = scales(state)
    log_density = noise.log_density((y - values) / sigma) - np.log(sigma)
    updated = weighting.step(state.after, log_density)
    return StreamState(updated, state.squares + (y - values) ** 2, state.seen + 1.0, state.bounds)
