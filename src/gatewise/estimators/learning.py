"""From held-out forecasts to an aggregated router."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gatewise.estimators.held_out import HeldOut
from gatewise.noise import as_noise
from gatewise.routing.candidates import Candidate, FittedList, log_prior
from gatewise.routing.inputs import Inputs
from gatewise.routing.mixing import mix, Mixing
from gatewise.routing.settings import MoESettings

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]
LEAST_ROWS = 2  # that a gate is fitted to
PARTS = 5  # at most, of the rows, for shares that have not seen a part


@dataclass(frozen=True, eq=False)
class Sample:
    """What a router learns from: the gate's view of all rows, responses and weights (n,), held-out forecasts."""

    inputs: Inputs
    y: Floats
    sample_weight: Floats
    held_out: HeldOut


@dataclass(frozen=True, eq=False)
class RouterFit:
    """The list fitted on all held-out rows, its aggregation, and what both say of rows that were held out.

    ``rows`` (N,) are the rows that the aggregation used; ``weights`` (N, M), ``forecasts`` (N,), ``stack`` (N,) the
    gate, the aggregate's and the convex stack's forecasts there, none of which has seen the row; ``plain`` (N,) those
    of an aggregate without gates; ``F`` (N, M) the experts' forecasts; ``n_parts`` how many parts were held out.
    """

    final: FittedList
    mixing: Mixing
    rows: Rows
    F: Floats
    weights: Floats
    forecasts: Floats
    plain: Floats
    stack: Floats
    n_parts: int


def learn(
    sample: Sample, candidates: tuple[Candidate, ...], maps: Mapping[str, Any], settings: MoESettings, seed: int
) -> RouterFit:
    """Fit the list on folds, aggregate its held-out forecasts, and fit it on all of them."""
    data, in_time = sample.held_out, sample.held_out.in_time
    y, inputs = sample.y[data.rows], sample.inputs[data.rows]
    weight = sample.sample_weight[data.rows] / np.bincount(data.rows)[data.rows]  # a row counts once in all

    def fit_on(rows: Rows) -> FittedList:
        return FittedList.fit(candidates, maps, inputs[rows], data.F[rows], y[rows], weight[rows])

    splits = _gate_splits(data, seed)
    lists = [(fit_on(known), out) for known, out in splits]
    used = np.concatenate([out for _, out in lists])
    forecasts = np.concatenate([fitted.forecasts(inputs[out], data.F[out]) for fitted, out in lists])
    part = np.repeat(np.arange(len(lists)) % PARTS, [len(out) for _, out in lists])
    setting = (log_prior(candidates), as_noise(settings.noise), settings.rate * weight[used])
    orders = _orders(data.rows[used] if in_time else None, len(used), settings.n_orders, seed)
    mixing = mix(forecasts, y[used], *setting, orders)
    plain = [s for s, c in enumerate(candidates) if c.kind != "gate"]
    without = (setting[0][plain], *setting[1:])
    if in_time:
        blind, blind_plain = mixing.online, mix(forecasts[:, plain], y[used], *without, orders).online
    else:
        blind = _blind(forecasts, y[used], part, setting, orders)
        blind_plain = _blind(forecasts[:, plain], y[used], part, without, orders)
    gates = np.concatenate([fitted.mean_weights(mixing.shares, inputs[out], data.F[out]) for fitted, out in lists])
    stack = forecasts[:, candidates.index(Candidate("stack", "convex"))]
    final = fit_on(np.arange(len(y)))
    return RouterFit(final, mixing, data.rows[used], data.F[used], gates, blind, blind_plain, stack, len(lists))


def _gate_splits(data: HeldOut, seed: int) -> list[tuple[Rows, Rows]]:
    """The entries to learn from and to predict, split by split; a split that leaves nothing to learn from goes.

    Where none is left, as with one held-out part or experts that came fitted, the entries are split anew.
    """
    splits = [(known, out) for known, out in data.learners() if len(known) >= LEAST_ROWS and len(out)]
    if splits:
        return splits
    part = np.random.default_rng(seed).permutation(len(data.rows)) % min(PARTS, len(data.rows))
    return [(np.flatnonzero(part != j), np.flatnonzero(part == j)) for j in range(part.max() + 1)]


def _orders(times: Rows | None, n: int, count: int, seed: int) -> list[Rows]:
    if times is not None:
        return [np.argsort(times, kind="stable")]
    rng = np.random.default_rng([seed, 1])
    return [rng.permutation(n) for _ in range(count)]


def _blind(forecasts: Floats, y: Floats, part: Rows, setting: tuple[Any, ...], orders: list[Rows]) -> Floats:
    """The aggregate's forecast of every row by shares that have seen no row of its part."""
    prior, noise, weight = setting
    out = np.empty(len(y))
    for number in np.unique(part):
        kept = np.flatnonzero(part != number)
        held = part == number
        if len(kept) == 0:
            return mix(forecasts, y, prior, noise, weight, orders).online
        place = np.full(len(y), -1)
        place[kept] = np.arange(len(kept))
        shorter = [place[order][place[order] >= 0] for order in orders]
        shares = mix(forecasts[kept], y[kept], prior, noise, weight[kept], shorter).shares
        out[held] = forecasts[held] @ shares
    return out
