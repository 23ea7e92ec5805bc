"""AFTER: exponential reweighting of S forecasts by their predictive densities (`alg:scale_online`).

The one recursion of the package, in NumPy: the log weight of candidate s before observation t is its log prior plus
the sum of its earlier log densities, normalised over the candidates. `cumulate` and `normalise` are these two halves,
`update` is one observation, and everything else is built of the three. All of it stays in log space: a density that
underflows still has its logarithm, and the weights are defined by ratios.
"""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp, softmax

from gatewise.arrays import BLOCK_NUMBERS, Booleans, Floats, Indices, refuse_lossy

LEAST_INFORMATION = 0.01
WIDE = 1e6  # a sum of log densities as large as this would round off the small ones that are added to it
FEW = 2**16  # numbers that a processor keeps near itself

IMPOSSIBLE = (
    "log_density must hold numbers or -inf, and a finite one for a candidate that has weight; an observation "
    "that is impossible under every candidate needs a noise density with unbounded support"
)
NOT_A_NUMBER = "log_density must hold numbers or -inf, but an entry is not a number; check the data and the experts"


class AfterState(NamedTuple):
    """Where the aggregation stands after t observations.

    log_weights (S,): log w_{s,t}, normalised; log_evidence: the log of the product of the mixture's densities so far.
    """

    log_weights: Floats
    log_evidence: float


class TimeAverage(NamedTuple):
    """Averages of an aggregation: weights (S,) over time and orders; predictions (n,) over orders, if asked."""

    weights: Floats
    predictions: Floats


def cumulate(log_prior: Floats, log_density: Floats, axis: int = 0) -> Floats:
    """Log prior plus the log densities of all earlier observations, not normalised.

    ``axis`` of log_density is time; the result is longer by one there, first the prior, last the sum of all.

    >>> cumulate(np.zeros(2), np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([[0., 0.],
           [1., 2.],
           [4., 6.]])
    """
    path = np.concatenate([np.expand_dims(log_prior, axis), log_density], axis=axis)
    return np.asarray(np.cumsum(path, axis=axis, out=path))


def normalise(log_weights: Floats) -> tuple[Floats, Floats]:
    """Log weights (..., S) whose weights have sum one over the last axis, and the log (...) of the sum before."""
    log_sum = np.asarray(logsumexp(log_weights, axis=-1, keepdims=True))
    return log_weights - log_sum, log_sum[..., 0]


def update(log_weights: Floats, log_density: Floats) -> tuple[Floats, float]:
    """Normalised log weights (S,) after one more observation, and the log of its density under the mixture.

    w_{s,t+1} = w_{s,t} q_s / sum_r w_{r,t} q_r with log_density (S,) = log q (`eqn:gen-after-update`). Where q is 0
    for every candidate that has weight no ratio is defined: the weights stay, and the log density is -inf.

    >>> update(np.log([0.5, 0.5]), np.array([-1000.0, -1000.0 + np.log(3.0)]))[0].round(3)
    array([-1.386, -0.288])
    """
    (row,), (top,) = _counted(log_weights, log_density[None])
    if np.isneginf(top):
        return log_weights, -np.inf
    shift = top if abs(top) > WIDE else 0.0
    updated, log_mixture = normalise(log_weights + (row - shift))
    return updated, float(shift + log_mixture)


def effective_size(log_weights: Floats) -> float:
    """The effective sample size 1 / sum_s w_s^2 of normalised log weights (S,), a number from 1 to S.

    >>> round(effective_size(np.log([0.5, 0.5, 1e-300])), 9)
    2.0
    """
    parts = range(0, len(log_weights), BLOCK_NUMBERS)  # no second array of size S
    return float(1.0 / sum(np.exp(2.0 * log_weights[i : i + BLOCK_NUMBERS]).sum() for i in parts))


def init(log_prior: ArrayLike) -> AfterState:
    """The state before any observation: the prior weights, normalised.

    >>> np.exp(init([0.0, np.log(3.0)]).log_weights)
    array([0.25, 0.75])
    """
    prior = _logarithms(log_prior, "log_prior")
    if prior.ndim != 1 or prior.size == 0:
        raise ValueError(f"log_prior must have shape (S,) with S >= 1, not {prior.shape}")
    if not np.isfinite(prior.max()):
        raise ValueError("log_prior must hold numbers or -inf, and at least one finite entry")
    return AfterState(normalise(prior)[0], 0.0)


def step(state: AfterState, log_density: ArrayLike) -> AfterState:
    """The state after one more observation, log_density (S,) its log density under every candidate."""
    log_weights, log_mixture = update(state.log_weights, _logarithms(log_density, "log_density"))
    if np.isneginf(log_mixture):
        raise ValueError(IMPOSSIBLE)
    return AfterState(log_weights, state.log_evidence + log_mixture)


def run(state: AfterState, log_density: ArrayLike) -> tuple[AfterState, Floats]:
    """All rows of log_density (T, S), as `step` after `step`: the last state, and the log weights (T+1, S)."""
    rows = _logarithms(log_density, "log_density")
    if rows.ndim != 2 or rows.shape[1] != state.log_weights.size:
        raise ValueError(f"log_density must have shape (T, {state.log_weights.size}), not {rows.shape}")
    path = np.empty((len(rows) + 1, rows.shape[1]))
    path[0], log_evidence = state.log_weights, state.log_evidence
    for start, stop in _blocks(_wide_rows(rows), rows.shape[1]):
        cumulated, log_scale = _cumulated_block(path[start], rows[start:stop])
        path[start + 1 : stop + 1], log_sums = normalise(cumulated[1:])
        log_evidence += log_scale + float(log_sums[-1])
    return AfterState(path[-1].copy(), log_evidence), path


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
    rows = _logarithms(log_density, "log_density")
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise ValueError(f"log_density must have shape (T, S) with S >= 1, not {rows.shape}")
    prior = np.zeros(rows.shape[1]) if log_prior is None else log_prior
    _, path = run(init(prior), rows)
    weights: Floats = np.exp(path)
    return weights


def time_average(
    log_prior: Floats,
    log_density: Floats,
    orders: Iterable[Indices],
    skipped: int = 0,
    forecasts: Floats | None = None,
    power: float = 1.0,
) -> TimeAverage:
    """AFTER over the rows of ``power`` times log_density (n, S) in each of some orders of them, averaged.

    ``weights`` are the weights that predict a row, averaged over orders and over the rows of each but its first
    ``skipped``; ``predictions`` the forecasts (n, S) of each row with the weights that predict it, averaged over
    orders, where they are given. Every order holds every row once. The path is made a block of rows at a time.

    >>> density = np.log([[0.5, 0.25], [0.5, 0.25]])
    >>> time_average(np.zeros(2), density, [np.array([1, 0])], forecasts=np.array([[1.0, 0.0], [1.0, 0.0]]))
    TimeAverage(weights=array([0.58333333, 0.41666667]), predictions=array([0.66666667, 0.5       ]))
    """
    start, wide = init(log_prior).log_weights, _wide_rows(log_density, WIDE / power)
    possible = bool(np.isfinite(log_density).all())
    # Where all is possible the candidates that have weight are the same in every order, and so is the largest entry.
    top = _counted(start, log_density)[1] if possible else None
    given = TemperedRows(log_density, top, power, wide, possible)
    if log_density.size <= BLOCK_NUMBERS:  # once for all orders
        given = TemperedRows(given.block(slice(None)), None, 1.0, wide, possible)
    jump = skipped if possible and forecasts is None and not wide.any() else 0
    weights, predictions, n_orders = np.zeros(start.size), np.zeros(0 if forecasts is None else len(forecasts)), 0
    for order in orders:
        done, first = jump, start
        for begin, end in _blocks(wide[order[:jump]], start.size) if jump else ():
            first = first + given.block(order[begin:end]).sum(axis=0)
        for rows, predicting in _predicting(first - first.max(), given, order[jump:]):
            weights += predicting[max(skipped - done, 0) :].sum(axis=0)
            done += len(rows)
            if forecasts is not None:
                predictions[rows] += np.einsum("is,is->i", predicting, forecasts[rows])
        n_orders += 1
    return TimeAverage(weights / weights.sum(), predictions / n_orders)


def information(log_density: Floats, log_prior: Floats) -> float:
    """How much of the difference of two log likelihoods is information, from log densities (n, S): at most 1.

    If one candidate is true and its errors are independent, the difference D of its log density and another one's
    has a variance of about twice its mean. Heavy tails, unequal variances and dependence make the variance larger,
    and the evidence is then worth 2 mean(D) / var(D) of what it seems. Means and variances are those of the best
    candidate against the others, averaged over the others by the prior.

    >>> rng = np.random.default_rng(0)
    >>> y = rng.normal(size=(5000, 1))
    >>> density = -0.5 * (y - np.array([0.0, 0.2])) ** 2
    >>> round(information(density, np.zeros(2)), 1), round(information(4 * density, np.zeros(2)), 2)
    (1.0, 0.26)
    """
    share = softmax(log_prior)
    best = log_density[:, int(np.where(share > 0.0, log_density.sum(axis=0), -np.inf).argmax())]
    gap, spread, others, step = 0.0, 0.0, np.flatnonzero(share), max(1, FEW // max(1, len(best)))
    for start in range(0, others.size, step):
        some = others[start : start + step]
        differences = np.subtract(best, log_density[:, some].T, order="C")
        for part, mean, variance in zip(share[some], differences.mean(axis=1), differences.var(axis=1), strict=True):
            gap += part * float(mean)
            spread += part * float(variance)
    return float(np.clip(2.0 * gap / spread, LEAST_INFORMATION, 1.0)) if spread > 0.0 else 1.0


def _logarithms(values: ArrayLike, name: str) -> Floats:
    """The values as float64, some of which may be -inf; an error where they would become other numbers."""
    if type(values) is not np.ndarray or values.dtype != np.float64:
        refuse_lossy(values, name)
    return np.asarray(values, dtype=np.float64)


class TemperedRows(NamedTuple):
    """Log densities (n, S) to be multiplied by a power; ``wide`` (n,) are the rows that end a block.

    ``top`` (n,) are the largest entries, which are taken off first. ``possible`` says that all densities are finite
    and that this is done.
    """

    log_density: Floats
    top: Floats | None
    power: float
    wide: Booleans
    possible: bool

    def block(self, rows: Indices | slice) -> Floats:
        """Some of the rows."""
        block = self.log_density[rows]
        if self.top is not None:
            block = block - self.top[rows][:, None]
        return block if self.power == 1.0 else np.asarray(self.power * block)


def _predicting(log_weights: Floats, given: TemperedRows, order: Indices) -> Iterator[tuple[Indices, Floats]]:
    """The rows of an order in blocks, each with the weights (rows, S) that predict them."""
    for start, stop in _blocks(given.wide[order], log_weights.size):
        rows = order[start:stop]
        block = given.block(rows)
        cumulated = cumulate(log_weights, block) if given.possible else _cumulated_block(log_weights, block)[0]
        log_weights, weights = cumulated[-1] - cumulated[-1].max(), cumulated[:-1]  # near zero again
        weights -= weights.max(axis=1, keepdims=True)
        np.exp(weights, out=weights)
        weights /= weights.sum(axis=1, keepdims=True)
        yield rows, weights


def _wide_rows(rows: Floats, most_apart: float = WIDE) -> Booleans:
    """The rows of (T, S) in which finite log densities differ by more than that, (T,)."""
    if rows.size and np.isfinite(rows).all():
        return np.asarray(rows.max(axis=1) - rows.min(axis=1) > most_apart)
    finite = np.isfinite(rows)
    most = rows.max(axis=1, where=finite, initial=-np.inf)
    return np.asarray(most - rows.min(axis=1, where=finite, initial=np.inf) > most_apart)


def _blocks(wide: Booleans, S: int) -> Iterator[tuple[int, int]]:
    """Blocks start..stop of rows that may be cumulated before the weights are normalised again.

    A block holds at most BLOCK_NUMBERS numbers, and a ``wide`` row ends its block, for the small differences of later
    rows not to be lost beside it.
    """
    T = len(wide)
    cuts = {*range(0, T, max(1, BLOCK_NUMBERS // S)), *(np.flatnonzero(wide) + 1).tolist(), T}
    return pairwise(sorted(cuts))


def _cumulated_block(log_weights: Floats, rows: Floats) -> tuple[Floats, float]:
    """`cumulate` from normalised log weights (S,) over rows (T, S), and the log of the factor that was taken off."""
    counted, top = _counted(log_weights, rows)
    if np.isneginf(top).any():
        raise ValueError(IMPOSSIBLE)
    return cumulate(log_weights, counted - top[:, None]), float(top.sum())


def _counted(log_weights: Floats, rows: Floats) -> tuple[Floats, Floats]:
    """Rows (T, S) with 0 for candidates that have no weight then, and the largest entry (T,) among the others.

    A candidate whose prior or earlier density is 0 has no weight and gets none back, whatever its density is. The
    largest entry is a factor that all densities of a row share: taken off, it cannot round off their ratios.
    """
    possible = np.isfinite(log_weights)
    if np.isfinite(rows).all():  # then no candidate loses all its weight on the way
        return rows, rows.max(axis=1) if possible.all() else rows.max(axis=1, where=possible, initial=-np.inf)
    with_weight = np.logical_and.accumulate(np.concatenate([possible[None], ~np.isneginf(rows[:-1])]), axis=0)
    top = rows.max(axis=1, where=with_weight, initial=-np.inf)
    if np.isnan(top).any() or np.isposinf(top).any():
        raise ValueError(NOT_A_NUMBER)
    return np.where(with_weight, rows, 0.0), top
