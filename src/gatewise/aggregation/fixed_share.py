"""AFTER with forgetting: the best candidate may change, and how often it does is learned."""

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from gatewise.arrays import Floats

# The chances that the best candidate changes from one row to the next; 0 is AFTER without forgetting.
SWITCHING = (0.0, 0.002, 0.01, 0.05)


class SwitchingState(NamedTuple):
    """Log weights (R, S) of the candidates under each of R chances of switching, and log weights (R,) of these."""

    log_weights: Floats
    log_rates: Floats

    @property
    def weights(self) -> Floats:
        """The weights (S,) that predict the next row: the mean over the chances of switching."""
        return np.asarray(np.exp(logsumexp(self.log_weights + self.log_rates[:, None], axis=0)))


def begin(log_weights: Floats) -> SwitchingState:
    """The state before the first row: log weights (S,) of the candidates, equal ones of the chances of switching."""
    R = len(SWITCHING)
    start = log_weights - logsumexp(log_weights)
    return SwitchingState(np.tile(start, (R, 1)), np.full(R, -np.log(R)))


def fixed_share(
    state: SwitchingState, log_prior: Floats, log_density: Floats, forecasts: Floats, elapsed: float = 1.0
) -> tuple[SwitchingState, Floats]:
    """The state after the rows of log_density (T, S), and the one-step-ahead predictions (T,) from forecasts (T, S).

    Under the chance a of switching, the weights after a row are (1 - a) times those of AFTER plus a times the prior:
    the posterior of the best candidate if it is drawn anew from the prior with probability a after every row. The
    chances themselves are weighed by AFTER. Where rows count as less than one, ``elapsed`` is what they count as:
    after each of them the chance is 1 - (1 - a)^elapsed.

    >>> density, forecasts = np.log([[0.9, 0.1]] * 9), np.array([[1.0, 0.0]] * 9)
    >>> state, seen = fixed_share(begin(np.zeros(2)), np.zeros(2), density, forecasts)
    >>> state.weights.round(2), seen[-1].round(2)
    (array([0.99, 0.01]), np.float64(0.99))
    """
    prior = log_prior - logsumexp(log_prior)
    with np.errstate(divide="ignore"):
        stay = elapsed * np.log1p(-np.array(SWITCHING))[:, None]
        move = np.log(-np.expm1(stay))
    log_weights, log_rates = state
    predictions = np.empty(len(log_density))
    for t, row in enumerate(log_density):
        predictions[t] = SwitchingState(log_weights, log_rates).weights @ forecasts[t]
        joint = log_weights + (row - row.max())
        mixture = logsumexp(joint, axis=1)
        log_rates = log_rates + mixture
        log_rates = log_rates - logsumexp(log_rates)
        log_weights = np.logaddexp(stay + joint - mixture[:, None], move + prior)
    return SwitchingState(log_weights, log_rates), predictions
