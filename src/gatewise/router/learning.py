"""From held-out forecasts to an aggregated router: the list fitted on folds, and AFTER over its forecasts."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
from scipy.special import softmax

from gatewise.aggregation.fixed_share import begin, fixed_share, SwitchingState
from gatewise.aggregation.weights import time_average
from gatewise.arrays import Floats, Indices
from gatewise.experts.pool import HeldOut
from gatewise.gates.feature_maps import GateFeatures
from gatewise.gates.inputs import Inputs
from gatewise.losses import Loss
from gatewise.router.candidates import Candidate, log_prior
from gatewise.router.fitted_list import FittedList
from gatewise.router.guard import ForecastGuard
from gatewise.router.members import ListRows
from gatewise.router.settings import MoESettings

LEAST_ROWS = 2  # rows that a gate is fitted to, at least
PARTS = 5  # parts that the rows are divided into: the shares for one part are learned from the others
MEMORY = 100  # rows that the scales remember when rows are added later
TINY = 1e-300
MOST_LISTS = 10  # how often the whole list is fitted; more splits than that are merged


@dataclass(frozen=True, eq=False)
class RouterSample:
    """The data that a router learns from: gate inputs, loss and weights of n rows, and the held-out forecasts.

    The ``guard`` replaces forecasts that cannot be meant.
    """

    inputs: Inputs
    loss: Loss
    sample_weight: Floats
    held_out: HeldOut
    guard: ForecastGuard


@dataclass(frozen=True, eq=False)
class Mixing:
    """The result of AFTER over S candidates on n rows.

    ``shares`` (S,) are the weights averaged over the second half of time and over the random orders of the rows,
    ``online`` (n,) the one-step-ahead predictions averaged over the orders, ``scale`` (S,) the candidates' scales.
    ``switching`` is the state of AFTER with forgetting once rows were added later.
    """

    shares: Floats
    online: Floats
    scale: Floats
    switching: SwitchingState | None = None


@dataclass(frozen=True, eq=False)
class RouterFit:
    """The list ``final`` fitted on all held-out forecasts, its aggregation ``mixing``, and out-of-fold predictions.

    ``rows`` (N,) are the rows that the aggregation used; a row occurs as often as it was held out. ``F`` (N, M) are
    the experts' forecasts and ``loss`` the loss at these entries. Out-of-fold, from gates and shares that were
    learned on other parts of the rows (on earlier parts, if the rows are in time), are: ``weights`` (N, M), the gate;
    ``forecasts`` (N,), the aggregate's; ``plain`` (N,), those of an aggregate without gates; and ``stack`` (N,), the
    convex stack's. ``plain_shares`` (S,) are the shares of an aggregate without gates after all rows.
    """

    final: FittedList
    maps: Mapping[str, GateFeatures]
    guard: ForecastGuard
    mixing: Mixing
    rows: Indices
    loss: Loss
    F: Floats
    weights: Floats
    forecasts: Floats
    plain: Floats
    stack: Floats
    plain_shares: Floats

    def signal(self) -> Floats:
        """What speaks for gates at every entry, (N,), as `gating_signal` says."""
        return gating_signal(self.loss, self.forecasts, self.plain)


def gating_signal(loss: Loss, forecasts: Floats, plain: Floats) -> Floats:
    """Minus the slope of the loss at the aggregate without gates, ``plain`` (n,), times what gates change there.

    Its mean is positive if gates move predictions towards the responses.
    """
    return np.asarray(-loss.slope(plain) * (forecasts - plain))


def learn(
    sample: RouterSample,
    candidates: tuple[Candidate, ...],
    maps: Mapping[str, GateFeatures],
    settings: MoESettings,
    seed: int,
) -> RouterFit:
    """Learn a router: fit the list on folds, aggregate its held-out forecasts by AFTER, fit the list on all rows.

    ``maps`` are the fitted features of every gate by its name, ``seed`` draws the orders of the rows.
    """
    data = sample.held_out
    F, loss = sample.guard.apply(data.F)[0], sample.loss.part(data.rows)
    inputs = sample.inputs[data.rows]
    seen = ListRows(inputs, gate_features(maps, inputs, F), F)
    weight = sample.sample_weight[data.rows] / np.bincount(data.rows)[data.rows]  # a row counts once in all

    def fit_on(entries: Indices) -> FittedList:
        return FittedList.fit(candidates, seen.part(entries), loss.part(entries), weight[entries], seed)

    lists = [(fit_on(known), out) for known, out in _gate_splits(data, seed)]
    used = np.concatenate([out for _, out in lists])
    fold = np.repeat(np.arange(len(lists)), [len(out) for _, out in lists])
    forecasts = np.concatenate([one.forecasts(seen.part(out)) for one, out in lists])
    rows, prior, used_loss = data.rows[used], log_prior(candidates), loss.part(used)
    orders = _orders(rows if data.in_time else None, len(used), settings.n_orders, seed)
    whole = ListForecasts(forecasts, used_loss, settings.rate * weight[used], orders)
    parts = _earlier(fold) if data.in_time else _others(rows, fold)
    shares = [(out, whole.shares(prior, kept)) for out, kept in parts]
    no_gates = np.where([c.kind == "gate" for c in candidates], -np.inf, prior)
    plain_shares = [(out, whole.shares(no_gates, kept)) for out, kept in parts]
    return RouterFit(
        final=fit_on(np.arange(len(F))),
        maps=maps,
        guard=sample.guard,
        mixing=mix(forecasts, used_loss, prior, whole.power, orders),
        rows=rows,
        loss=used_loss,
        F=F[used],
        weights=_held_out_weights(shares, lists, fold, seen.part(used)),
        forecasts=_by_part(forecasts, shares),
        plain=_by_part(forecasts, plain_shares),
        stack=forecasts[:, candidates.index(Candidate("stack", "convex"))],
        plain_shares=whole.shares(no_gates, np.arange(len(used))),
    )


def mix(forecasts: Floats, loss: Loss, log_prior: Floats, power: Floats, orders: list[Indices]) -> Mixing:
    """Aggregate forecasts (n, S) under the loss of their rows, in every one of the orders (`alg:scale_online`).

    A candidate's scale, where the loss has one, is its root mean squared error on all rows. The log density of row i
    is multiplied by power_i, the tempering rate times the sample weight. The shares are the weights averaged over the
    second half of the rows of every order: in the first half they still are near the prior.

    >>> from gatewise.losses import ResidualLoss
    >>> y = np.linspace(-1, 1, 50)
    >>> found = mix(np.column_stack([y + 0.1, -y]), ResidualLoss(y), np.zeros(2), np.ones(50), [np.arange(50)])
    >>> found.shares.round(2)
    array([1., 0.])
    """
    loss = loss.calibrated(forecasts, power)
    log_density = power[:, None] * loss.log_density(forecasts)
    shares, online = time_average(log_prior, log_density, forecasts, orders, skipped=len(forecasts) // 2)
    return Mixing(shares, online, np.broadcast_to(loss.scale, shares.shape))


def continue_mixing(mixing: Mixing, log_prior: Floats, forecasts: Floats, loss: Loss, weight: Floats) -> Mixing:
    """Continue with more rows in the order given, by AFTER with forgetting (`fixed_share`).

    Forecasts and loss as in `mix`; ``weight`` (n,) are the sample weights. New rows are not tempered, as no candidate
    has seen them. The scale of every candidate follows its squared errors with a memory of MEMORY rows. ``shares``
    are then those that predict the next row, ``online`` (n,) the predictions of the new rows.
    """
    state = begin(np.log(mixing.shares + TINY)) if mixing.switching is None else mixing.switching
    scale, online = mixing.scale, np.empty(len(forecasts))
    for i in range(len(forecasts)):
        row = loss.part(slice(i, i + 1))
        log_density = weight[i] * row.scaled(scale).log_density(forecasts[i : i + 1])
        state, online[i : i + 1] = fixed_share(state, log_prior, log_density, forecasts[i : i + 1])
        if loss.additive:  # the loss has a scale
            scale = _followed(scale, row.error(forecasts[i : i + 1])[0], min(weight[i], 1.0) / MEMORY)
    return replace(mixing, shares=state.weights, online=online, scale=scale, switching=state)


def _followed(scale: Floats, errors: Floats, part: float) -> Floats:
    """The scales (S,) after one more row with squared errors (S,): at most sqrt(2) times as large."""
    squares = np.square(scale)
    return np.asarray(np.sqrt((1.0 - part) * squares + part * np.minimum(errors, MEMORY * squares)))


@dataclass(frozen=True, eq=False)
class ListForecasts:
    """Forecasts (N, S), the loss of their rows, the power (N,) of each row's density, and the orders of the rows."""

    forecasts: Floats
    loss: Loss
    power: Floats
    orders: list[Indices]

    def shares(self, log_prior: Floats, kept: Indices) -> Floats:
        """The shares (S,) after AFTER on the entries ``kept`` only; the prior weights if ``kept`` is empty."""
        if len(kept) == 0 or not self.power[kept].any():
            return np.asarray(softmax(log_prior))
        place = np.full(len(self.forecasts), -1)
        place[kept] = np.arange(len(kept))
        orders = [place[order][place[order] >= 0] for order in self.orders]
        return mix(self.forecasts[kept], self.loss.part(kept), log_prior, self.power[kept], orders).shares


def gate_features(maps: Mapping[str, GateFeatures], inputs: Inputs, F: Floats | None) -> dict[str, Floats]:
    """The features (n, p) of every gate by its name, from the inputs of n rows and the forecasts F (n, M)."""
    return {name: one.features(inputs, F) for name, one in maps.items()}


def _held_out_weights(
    shares: list[tuple[Indices, Floats]],
    lists: list[tuple[FittedList, Indices]],
    fold: Indices,
    seen: ListRows,
) -> Floats:
    """The out-of-fold gate weights of every entry, (N, M).

    The gates of an entry come from the list that was fitted without its fold, their shares from the other parts.
    """
    weights = np.empty(seen.F.shape)
    for entries, share in shares:
        for number in np.unique(fold[entries]):
            here = entries[fold[entries] == number]
            weights[here] = lists[number][0].mean_weights(share, seen.part(here))
    return weights


def _gate_splits(data: HeldOut, seed: int) -> list[tuple[Indices, Indices]]:
    """Pairs of entries, those to fit the list on and those to predict.

    Splits with fewer than LEAST_ROWS entries to fit on are left out. If no split remains, as with one held-out part
    or with experts that were fitted before, the entries are divided at random into PARTS parts.
    """
    splits = [(known, out) for known, out in data.learners() if len(known) >= LEAST_ROWS and len(out)]
    if splits:
        return _merged(splits)
    part = np.random.default_rng(seed).permutation(len(data.rows)) % min(PARTS, len(data.rows))
    return [(np.flatnonzero(part != j), np.flatnonzero(part == j)) for j in range(part.max() + 1)]


def _merged(splits: list[tuple[Indices, Indices]]) -> list[tuple[Indices, Indices]]:
    """At most MOST_LISTS splits, made by joining neighbours; the entries to fit on are those common to all joined."""
    if len(splits) <= MOST_LISTS:
        return splits
    groups = [splits[j * len(splits) // MOST_LISTS : (j + 1) * len(splits) // MOST_LISTS] for j in range(MOST_LISTS)]
    merged = [
        (reduce(np.intersect1d, [known for known, _ in group]), np.concatenate([out for _, out in group]))
        for group in groups
    ]
    return merged if all(len(known) >= LEAST_ROWS for known, _ in merged) else splits


def _orders(times: Indices | None, n: int, count: int, seed: int) -> list[Indices]:
    if times is not None:
        return [np.argsort(times, kind="stable")]
    rng = np.random.default_rng([seed, 1])
    return [rng.permutation(n) for _ in range(count)]


def _others(rows: Indices, fold: Indices) -> list[tuple[Indices, Indices]]:
    """For every part: its entries, and those of all other parts. A row belongs to the part of its first fold."""
    first = np.full(rows.max() + 1, fold.max() + 1)
    np.minimum.at(first, rows, fold)
    part = first[rows] % PARTS
    return [(np.flatnonzero(part == j), np.flatnonzero(part != j)) for j in np.unique(part)]


def _earlier(fold: Indices) -> list[tuple[Indices, Indices]]:
    """For every fold: its entries, and the entries of earlier folds."""
    return [(np.flatnonzero(fold == j), np.flatnonzero(fold < j)) for j in np.unique(fold)]


def _by_part(forecasts: Floats, shares: list[tuple[Indices, Floats]]) -> Floats:
    out = np.empty(len(forecasts))
    for entries, share in shares:
        out[entries] = forecasts[entries] @ share
    return out
