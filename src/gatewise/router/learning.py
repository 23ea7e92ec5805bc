"""From held-out forecasts to an aggregated router."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from gatewise.arrays import Floats
from gatewise.experts.pool import HeldOut
from gatewise.gates.inputs import Inputs
from gatewise.noise import as_noise, Noise
from gatewise.router.candidates import Candidate, FittedList, log_prior
from gatewise.router.mixing import mix, Mixing
from gatewise.router.settings import MoESettings

Rows = NDArray[np.intp]
LEAST_ROWS = 2  # that a gate is fitted to
PARTS = 5  # of the rows, for shares that have not seen a part
MOST_LISTS = 10  # fits of the whole list; more splits than that are merged


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

    ``rows`` (N,) are the rows that the aggregation used, more than once where they were held out more than once;
    ``weights`` (N, M), ``forecasts`` (N,), ``stack`` (N,) the gate, the aggregate's and the convex stack's forecasts
    there, with gates and shares from other parts of the rows, in time from earlier ones; ``plain`` (N,) the forecasts
    of an aggregate without gates; ``F`` (N, M) the experts'; ``n_parts`` how many parts there were.
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

    def fit_on(entries: Rows) -> FittedList:
        return FittedList.fit(candidates, maps, inputs[entries], data.F[entries], y[entries], weight[entries])

    lists = [(fit_on(known), out) for known, out in _gate_splits(data, seed)]
    used = np.concatenate([out for _, out in lists])
    fold = np.repeat(np.arange(len(lists)), [len(out) for _, out in lists])
    forecasts = np.concatenate([fitted.forecasts(inputs[out], data.F[out]) for fitted, out in lists])
    rows, prior = data.rows[used], log_prior(candidates)
    orders = _orders(rows if in_time else None, len(used), settings.n_orders, seed)
    problem = Aggregation(forecasts, y[used], prior, as_noise(settings.noise), settings.rate * weight[used], orders)
    parts = _earlier(fold) if in_time else _others(rows, fold)
    shares = [(out, problem.shares(kept)) for out, kept in parts]
    plain = prior + np.where([c.kind == "gate" for c in candidates], -np.inf, 0.0)
    shares_plain = [(out, problem.shares(kept, plain)) for out, kept in parts]
    weights = np.empty((len(used), data.F.shape[1]))
    for entries, share in shares:
        for number in np.unique(fold[entries]):
            here = entries[fold[entries] == number]
            at = used[here]
            weights[here] = lists[number][0].mean_weights(share, inputs[at], data.F[at])
    return RouterFit(
        final=fit_on(np.arange(len(y))),
        mixing=problem.mixing(),
        rows=rows,
        F=data.F[used],
        weights=weights,
        forecasts=_by_part(forecasts, shares),
        plain=_by_part(forecasts, shares_plain),
        stack=forecasts[:, candidates.index(Candidate("stack", "convex"))],
        n_parts=len(parts),
    )


@dataclass(frozen=True, eq=False)
class Aggregation:
    """Forecasts (N, S) of y (N,), and how they are aggregated."""

    forecasts: Floats
    y: Floats
    log_prior: Floats
    noise: Noise
    power: Floats  # (N,): of the density of each entry
    orders: list[Rows]

    def mixing(self) -> Mixing:
        """The aggregation of all entries."""
        return mix(self.forecasts, self.y, self.log_prior, self.noise, self.power, self.orders)

    def shares(self, kept: Rows, log_prior: Floats | None = None) -> Floats:
        """The shares (S,) that some of the entries lead to; the prior's where there are none."""
        prior = self.log_prior if log_prior is None else log_prior
        if len(kept) == 0 or not self.power[kept].any():
            return np.asarray(softmax(prior))
        place = np.full(len(self.y), -1)
        place[kept] = np.arange(len(kept))
        orders = [place[order][place[order] >= 0] for order in self.orders]
        return mix(self.forecasts[kept], self.y[kept], prior, self.noise, self.power[kept], orders).shares


def _gate_splits(data: HeldOut, seed: int) -> list[tuple[Rows, Rows]]:
    """The entries to learn from and to predict, split by split; a split that leaves nothing to learn from goes.

    Where none is left, as with one held-out part or experts that came fitted, the entries are split anew.
    """
    splits = [(known, out) for known, out in data.learners() if len(known) >= LEAST_ROWS and len(out)]
    if splits:
        return _merged(splits)
    part = np.random.default_rng(seed).permutation(len(data.rows)) % min(PARTS, len(data.rows))
    return [(np.flatnonzero(part != j), np.flatnonzero(part == j)) for j in range(part.max() + 1)]


def _merged(splits: list[tuple[Rows, Rows]]) -> list[tuple[Rows, Rows]]:
    """Many small splits as a few: each learns from what all of its members may learn from."""
    if len(splits) <= MOST_LISTS:
        return splits
    groups = [splits[j * len(splits) // MOST_LISTS : (j + 1) * len(splits) // MOST_LISTS] for j in range(MOST_LISTS)]
    merged = [
        (reduce(np.intersect1d, [known for known, _ in group]), np.concatenate([out for _, out in group]))
        for group in groups
    ]
    return merged if all(len(known) >= LEAST_ROWS for known, _ in merged) else splits


def _orders(times: Rows | None, n: int, count: int, seed: int) -> list[Rows]:
    if times is not None:
        return [np.argsort(times, kind="stable")]
    rng = np.random.default_rng([seed, 1])
    return [rng.permutation(n) for _ in range(count)]


def _others(rows: Rows, fold: Rows) -> list[tuple[Rows, Rows]]:
    """(entries, entries of other rows) for every part; a row belongs to the part of its first fold."""
    first = np.full(rows.max() + 1, fold.max() + 1)
    np.minimum.at(first, rows, fold)
    part = first[rows] % max(PARTS, 1)
    return [(np.flatnonzero(part == j), np.flatnonzero(part != j)) for j in np.unique(part)]


def _earlier(fold: Rows) -> list[tuple[Rows, Rows]]:
    """(entries, entries of earlier folds) for every fold."""
    return [(np.flatnonzero(fold == j), np.flatnonzero(fold < j)) for j in np.unique(fold)]


def _by_part(forecasts: Floats, shares: list[tuple[Rows, Floats]]) -> Floats:
    out = np.empty(len(forecasts))
    for entries, share in shares:
        out[entries] = forecasts[entries] @ share
    return out
