"""AFTER: exponential reweighting of S forecasts by their predictive densities (`alg:scale_online`).

A state of log weights; `step` takes one observation's log densities, `run` many. All in log space: a density that is
zero in floating point still has its logarithm, and the weights are defined by ratios.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from gatewise.arrays import Floats


class AfterState(NamedTuple):
    """Where the aggregation stands after t observations.

    log_weights (S,): log w_{s,t}, normalised; log_evidence: the log of the product of the mixture's densities so far.
    """

    log_weights: Floats
    log_evidence: float


def init(log_prior: ArrayLike) -> AfterState:
    """The state before any observation: the prior weights, normalised.

    >>> np.exp(init([0.0, np.log(3.0)]).log_weights)
    array([0.25, 0.75])
    """
    prior = np.asarray(log_prior, dtype=np.float64)
    if prior.ndim != 1 or prior.size == 0:
        raise ValueError(f"log_prior must have shape (S,) with S >= 1, not {prior.shape}")
    total = logsumexp(prior)
    if not np.isfinite(total):
        raise ValueError("log_prior must hold numbers or -inf, and at least one finite entry")
    return AfterState(prior - total, 0.0)


def step(state: AfterState, log_density: ArrayLike) -> AfterState:
    """The state after one more observation, log_density (S,) its log density under every candidate.

    w_{s,t+1} = w_{s,t} q_s / sum_r w_{r,t} q_r (`eqn:gen-after-update`).
    """
    density = np.asarray(log_density, dtype=np.float64)
    top = float(np.max(density, initial=-np.inf, where=np.isfinite(state.log_weights)))
    if not np.isfinite(top):
        raise ValueError(
            "log_density must hold numbers or -inf, and a finite one for a candidate that has weight; an observation "
            "that is impossible under every candidate needs a noise density with unbounded support"
        )
    joint = state.log_weights + (density - top)  # ratios first: a huge common factor must not swallow them
    total = float(logsumexp(joint))
    return AfterState(joint - total, state.log_evidence + top + total)


def run(state: AfterState, log_density: ArrayLike) -> tuple[AfterState, Floats]:
    """Step through the rows of log_density (T, S): the last state, and the path of log weights (T+1, S)."""
    rows = np.asarray(log_density, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] != state.log_weights.size:
        raise ValueError(f"log_density must have shape (T, {state.log_weights.size}), not {rows.shape}")
    path = np.empty((len(rows) + 1, rows.shape[1]))
    path[0] = state.log_weights
    for t, row in enumerate(rows):
        state = step(state, row)
        path[t + 1] = state.log_weights
    return state, path


def after(log_density: ArrayLike, log_prior: ArrayLike | None = None) -> Floats:
    """The path of weights (T+1, S) from one-step-ahead log predictive densities (T, S).

    Row t holds the weights that predict observation t: the prior first, the weights after all T last. Weights are
    equal at first unless ``log_prior`` (S,) is given. The product of the mixture's densities equals the
    prior-weighted sum of the candidates' products.

    >>> after(np.log([[0.5, 0.25], [0.5, 0.25]]))
    array([[0.5       , 0.5       ],
           [0.66666667, 0.33333333],
           [0.8       , 0.2       ]])
    """
    rows = np.asarray(log_density, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise ValueError(f"log_density must have shape (T, S) with S >= 1, not {rows.shape}")
    prior = np.zeros(rows.shape[1]) if log_prior is None else log_prior
    _, path = run(init(prior), rows)
    weights: Floats = np.exp(path)
    return weights
