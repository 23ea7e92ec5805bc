"""From held-out forecasts to an aggregated router: the list fitted on folds, and AFTER over its forecasts."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from gatewise.aggregation.fixed_share import begin, fixed_share, SwitchingState
from gatewise.aggregation.weights import information, time_average
from gatewise.arrays import BLOCK_NUMBERS, Floats, Indices, TINY
from gatewise.backends import thread_pools
from gatewise.experts.pool import HeldOut
from gatewise.losses import Loss
from gatewise.progress import RUNNING
from gatewise.router.candidates import by_group, Candidate, CONVEX, log_priors
from gatewise.router.class_scores import calibration_error, two_class_calibration
from gatewise.router.class_stacks import ClassStacks
from gatewise.router.members import (
    FittedGroup,
    FittedList,
    ListRows,
    ListTask,
    PlainMembers,
    SoftmaxMembers,
)
from gatewise.router.settings import MoESettings
from gatewise.router.tree_members import ProductMembers, SharedLearners, TreeGates

LEAST_ROWS = 2  # rows that a gate is fitted to, at least
PARTS = 5  # parts that the rows are divided into: the shares for one part are learned from the others
MEMORY = 100  # rows that the scales remember when rows are added later
ONE_ROW = 3.0  # nats: the log densities of two candidates at one later row differ by this, at most
# How long the groups of a list take beside one another, roughly, for the time left: 1,000 rows of 20 forecasts.
COSTS = {"plain": 0.1, "softmax": 7.0, "tree": 5.0, "shared": 12.0, "products": 2.0}
MOST_LISTS, FEWEST_LISTS = 10, 2  # how often the list is fitted on splits, at most; and where rows are many
MOST_LEARNED = 50_000  # rows that the list learns from; of n rows beyond that the square root of this times n
MOST_ORDERED = 500_000  # rows in all random orders together: beyond 50,000 rows one order varies little
NONE_YET = np.empty(0)  # predictions of rows that are added later
WEIGHED = 2**14  # rows whose weights are computed at a time
LEAST_TOLD = 0.01  # share of a candidate whose calibration error is told where classes are more than two
MOST_COMPARED = 20_000  # rows on which candidates are compared with the aggregate, at most


@dataclass(frozen=True, eq=False)
class RouterSample:
    """The data that a router learns from: N held-out forecasts, and what the list sees of their rows.

    ``seen`` holds the N entries of ``held_out``. With nested forecasts it has one more view of them for every fold,
    as the list sees them that is fitted without the fold, and ``stacks`` (K, M) are the convex stacks that ordinary
    out-of-fold forecasts give without each fold: those that predictions are held against. ``loss`` and
    ``sample_weight`` (n,) are those of the n rows. ``rate`` is the power of the likelihood, before `information`.
    Entries that are not ``fresh`` (N,) chose the experts: the list is fitted to them and predicts them, but is not
    judged on them.
    """

    seen: ListRows
    held_out: HeldOut
    loss: Loss
    sample_weight: Floats
    rate: float
    stacks: Floats | None = None
    fresh: NDArray[np.bool_] | None = None

    def part(self, entries: Indices) -> Self:
        """Some of the entries, with ordinary out-of-fold forecasts."""
        fresh = None if self.fresh is None else self.fresh[entries]
        return replace(
            self, seen=self.seen.part(entries), held_out=self.held_out.part(entries), stacks=None, fresh=fresh
        )


@dataclass(frozen=True, eq=False)
class Mixing:
    """The result of AFTER over S candidates on n rows.

    ``shares`` (S,) are the weights averaged over the second half of time and over the random orders of the rows,
    ``scale`` (S,) the candidates' scales. Once rows were added later, ``online`` has the one-step-ahead predictions
    of the last ones, and ``switching`` is the state of AFTER with forgetting.
    """

    shares: Floats
    online: Floats
    scale: Floats
    switching: SwitchingState | None = None


@dataclass(frozen=True, eq=False)
class RouterFit:
    """The list ``final`` fitted on all held-out forecasts, its aggregation ``mixing``, and out-of-fold predictions.

    ``entries`` (N,) are the held-out forecasts that the aggregation used, ``rows`` (N,) their rows; a row occurs as
    often as it was held out. ``F`` (N, M) are the experts' forecasts and ``loss`` the loss there. Out-of-fold, from
    gates and shares that were learned on other parts of the rows (on earlier parts, if the rows are in time), are:
    ``weights`` (N, M), the gate; ``forecasts`` (N,), the aggregate's; ``stack`` (N,), the convex stack's; and
    ``signal`` (N, 3), what speaks for gates, as `gating_signal` says, or zeros if no test is asked. ``compared``
    (n, S) are forecasts of ``final`` at some rows, ``errors`` (S,) the mean held-out errors of the candidates. Where
    responses are classes, the out-of-fold probabilities of all classes are those of the aggregate, ``probabilities``
    (N, C), of the convex stack, ``stacked`` (N, C), and of the ``experts`` (N, M, C), and ``calibration`` (S,) has
    the calibration errors of the candidates as far as they are known; else all are empty. ``across_folds`` says that
    the forecasts that the list was fitted to depend on the responses of the rows that it was judged on. ``units`` has
    the number of every row's group, where rows may depend on one another. ``learned`` are the rows of all entries
    that the list learned from, and ``everything`` is the fit with all of these, where some chose the experts: they
    have forecasts and weights, but judged nothing.
    """

    final: FittedList
    mixing: Mixing
    entries: Indices
    rows: Indices
    loss: Loss
    F: Floats
    weights: Floats
    forecasts: Floats
    stack: Floats
    signal: Floats
    compared: Floats
    errors: Floats
    probabilities: Floats = field(default_factory=lambda: np.empty(0))
    stacked: Floats = field(default_factory=lambda: np.empty(0))
    experts: Floats = field(default_factory=lambda: np.empty(0))
    calibration: Floats = field(default_factory=lambda: np.empty(0))
    across_folds: bool = False
    units: Indices | None = None
    learned: Indices = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    everything: "RouterFit | None" = None

    @property
    def whole(self) -> "RouterFit":
        """The fit with all entries that the list learned from."""
        return self if self.everything is None else self.everything

    def judged(self, fresh: NDArray[np.bool_]) -> "RouterFit":
        """The fit with those of its entries alone that are fresh (N,)."""
        kept = np.flatnonzero(fresh)
        names = ["entries", "rows", "F", "weights", "forecasts", "stack", "signal"]
        names += ["probabilities", "stacked", "experts"] if len(self.experts) else []
        own = {name: getattr(self, name)[kept] for name in names}
        return replace(self, loss=self.loss.part(kept), everything=self, **own)


def gating_signal(loss: Loss, gated: Floats, plain: Floats, turned: Floats) -> Floats:
    """Minus the slope of the loss at answers without gates, times what gates change there: (n, 3).

    Two answers, ``plain`` (n, 2), are the aggregate without gates and its best candidate. The third is the aggregate
    with gates, ``gated`` (n,), less ``turned`` (n,), what it owes to weights that change with x: it has the mean of
    these weights at all rows, for gates may also find constant weights that no other candidate has. The mean of a
    column is positive if gates move predictions from that answer towards the responses.
    """
    answers = np.column_stack([plain, gated - turned])
    return np.stack([-loss.slope(one) * (gated - one) for one in answers.T], axis=1)


def _turned(weights: Floats, F: Floats, sample_weight: Floats) -> Floats:
    """What mixtures of forecasts F (n, M) owe to weights (n, M) that are not the same at all rows, (n,)."""
    mean = np.average(weights, axis=0, weights=sample_weight if sample_weight.any() else None)
    return np.asarray(np.einsum("im,im->i", weights - mean, F))


def _held_out_signal(
    loss: Loss,
    answers: Sequence[Floats],
    moving: Floats,
    F: Floats,
    sample_weight: Floats,
    parts: Sequence[Indices],
) -> Floats:
    """The signal (N, 3) of held-out rows: `gating_signal` with mean weights taken within each of the parts.

    ``answers`` are those with gates, without gates, and of the best candidate without, (N,) each; ``moving`` (N, M)
    is what gates contribute to the weights of forecasts F (N, M).
    """
    turned = np.empty(len(F))
    for out in parts:
        turned[out] = _turned(moving[out], F[out], sample_weight[out])
    gated, *plain = answers
    return gating_signal(loss, gated, np.stack(plain, axis=1), turned)


def _of_gates(candidates: Sequence[Candidate], shares: Floats) -> Floats:
    """The shares (S,) of gates; 0 for all other candidates, whose weights are the same at all rows."""
    return np.where([c.kind == "gate" for c in candidates], shares, 0.0)


def _best_plain(errors: Floats, log_prior: Floats) -> Floats:
    """All of the share (S,) for the candidate of the prior with the least of the errors (S,)."""
    return np.asarray(np.eye(len(errors))[np.where(np.isfinite(log_prior), errors, np.inf).argmin()])


def learn(
    sample: RouterSample,
    candidates: tuple[Candidate, ...],
    settings: MoESettings,
    seed: int,
    purpose: str = "router",
    given: bool = False,
) -> RouterFit:
    """Learn a router: fit the list on folds, aggregate its held-out forecasts by AFTER, fit the list on all rows.

    ``seed`` draws the orders of the rows; ``purpose`` is what the progress calls the list. What speaks for gates is
    found where the held-out forecasts can show it: those of ``given`` experts, and those of rows in time.
    """
    seen, data, priors = sample.seen, sample.held_out, log_priors(candidates)
    n, in_time = len(data.rows), data.in_time
    entries = np.arange(len(seen.F)) % n  # of all views
    weight = sample.sample_weight[data.rows] / np.bincount(data.rows)[data.rows]  # a row counts once in all
    weight = weight[entries]
    splits = _gate_splits(data, weight, seed)
    used = np.concatenate([out for _, out in splits])
    rows, loss = data.rows[entries[used]], sample.loss.part(data.rows[entries])
    used_loss = loss if np.array_equal(used, np.arange(len(seen.F))) else loss.part(used)
    some = np.arange(0, n, -(-n // MOST_COMPARED))
    both = [*splits, (np.arange(n), some)]
    *lists, (final, compared) = fit_lists(candidates, seen, loss, weight, both, seed, purpose, True)
    now = RUNNING.get()
    if now is not None:
        now.stage("weights of the list")
    fold = np.repeat(np.arange(len(splits)), [len(out) for _, out in splits])
    forecasts, fitted = np.concatenate([found for _, found in lists]), [one for one, _ in lists]
    del lists  # a second array of all forecasts
    orders = _orders(rows if in_time else None, len(used), settings.n_orders, seed)
    parts, judging, judges = _earlier(fold) if in_time else _others(rows, fold), weight[used], None
    if sample.fresh is not None:
        judging = np.where(sample.fresh[entries[used]], judging, 0.0)
        judges = np.flatnonzero(sample.fresh[entries[used]])
        parts = [(out, np.intersect1d(kept, judges)) for out, kept in parts]
    whole = ListForecasts(forecasts, used_loss, judging, sample.rate, orders)
    learned = [mix(whole, priors, kept) for _, kept in parts]
    (mixing,) = mix(whole, priors[:1], judges)
    shares, gated, plain = (
        [(out, found[place].shares) for (out, _), found in zip(parts, learned, strict=True)] for place in range(3)
    )
    errors = whole.error_sums([np.arange(len(used)), *(kept for _, kept in parts)])
    best = [(out, _best_plain(one, priors[2])) for (out, _), one in zip(parts, errors[1:], strict=True)]
    signal = np.zeros((len(used), 3))
    if settings.test and (given or in_time):
        gates = [(out, _of_gates(candidates, share)) for out, share in gated]
        moving = _held_out_weights(gates, fitted, fold, seen, used)
        answers = [_by_part(forecasts, one) for one in (gated, plain, best)]
        held_out = [out for out, _ in parts]
        signal = _held_out_signal(used_loss, answers, moving, seen.F[used], whole.sample_weight, held_out)
    weights = _held_out_weights(shares, fitted, fold, seen, used)
    return RouterFit(
        final=final,
        mixing=mixing,
        entries=entries[used],
        rows=rows,
        loss=used_loss,
        F=seen.F[used],
        weights=weights,
        forecasts=_by_part(forecasts, shares),
        stack=_stack_forecasts(sample, splits, forecasts[:, candidates.index(CONVEX)]),
        signal=signal,
        compared=compared,
        errors=errors[0] / (whole.sample_weight.sum() or 1.0),
        across_folds=not (given or in_time) and data.nested is None,
        learned=rows,
        **_held_out_classes(whole, shares, mixing.shares, fitted, fold, seen, used, weights),
    )


def _stack_forecasts(sample: RouterSample, splits: Sequence[tuple[Indices, Indices]], listed: Floats) -> Floats:
    """The convex stack's held-out forecasts (N,): those that are ``listed`` (N,), or of the sample's own stacks."""
    if sample.stacks is None:
        return listed
    both = zip(sample.stacks, splits, strict=True)
    return np.concatenate([sample.seen.F[out] @ own for own, (_, out) in both])


def fresh_signal(sample: RouterSample, candidates: tuple[Candidate, ...], settings: MoESettings, seed: int) -> Floats:
    """What speaks for gates, as `gating_signal` says, at the fresh entries of a sample, (entries, 3).

    Fresh are the entries of the last fold, for which ``held_out.train`` has no rows. List and shares are learned from
    the other entries alone.
    """
    data = sample.held_out
    loss, weight, priors = sample.loss.part(data.rows), sample.sample_weight[data.rows], log_priors(candidates)[1:]
    own, fresh = (np.flatnonzero((data.fold < len(data.train)) == inner) for inner in (True, False))
    splits = [(known, out) for known, out in _inner(data) if weight[known].any()]
    *lists, (final, judged) = fit_lists(candidates, sample.seen, loss, weight, [*splits, (own, fresh)], seed, "test")
    used, forecasts = np.concatenate([out for _, out in splits]), np.concatenate([found for _, found in lists])
    orders = _orders(None, len(used), settings.n_orders, seed)
    used_loss, fresh_loss = loss.part(used), loss.part(fresh)
    whole = ListForecasts(forecasts, used_loss, weight[used], sample.rate, orders)
    gated, plain = mix(whole, priors)
    weights = final.mean_weights(_of_gates(candidates, gated.shares), sample.seen.part(fresh))
    turned = _turned(weights, sample.seen.F[fresh], weight[fresh])
    best = _best_plain(whole.error_sums([np.arange(len(used))])[0], priors[1])
    answers = judged @ np.stack([plain.shares, best], axis=1)
    return gating_signal(fresh_loss, judged @ gated.shares, answers, turned)


def _inner(data: HeldOut) -> Iterator[tuple[Indices, Indices]]:
    """The splits of the entries that are not fresh."""
    for known, out in list(data.learners()):
        yield known[data.fold[known] < len(data.train)], out


def fit_lists(
    candidates: tuple[Candidate, ...],
    rows: ListRows,
    loss: Loss,
    weight: Floats,
    splits: Sequence[tuple[Indices, Indices]],
    seed: int,
    purpose: str = "router",
    follows: bool = False,
) -> list[tuple[FittedList, Floats]]:
    """The list fitted to the first part of every split, and its forecasts (rows, S) of the second part.

    Rows (n,) have the given weights. The parts may overlap. ``purpose`` is what the progress calls the list. With
    ``follows`` the softmax gates of the last split start near the mean of the others': they are the same gates fitted
    to all rows, and judged on none.
    """
    with thread_pools().limit(limits=1, user_api="blas"):  # with more, sums are taken in another order
        asked, now = [out for _, out in splits], RUNNING.get()
        weights = np.zeros((len(splits), len(weight)))
        for number, (known, _) in enumerate(splits):
            weights[number, known] = weight[known]
        parts, task = by_group(candidates), ListTask.prepare(rows, loss, weights, asked, follows)
        groups: list[FittedGroup] = []
        if now is not None:
            now.stage(f"list of the {purpose}", len(parts), costs=[COSTS.get(group, 1.0) for group in parts])
        for group, members in parts.items():
            if now is not None:
                now.piece(_parts_told(group, members, rows) * len(splits), group)
            if group == "plain":
                groups.append(PlainMembers.fit(members, task))
            elif group == "tree":
                groups.append(TreeGates.fit(members, task, seed))
            elif group == "shared":
                groups.append((SharedLearners if rows.classes is None else ClassStacks).fit(members, task, seed))
            elif group == "products":
                groups.append(ProductMembers.fit(members, task))
            else:
                groups.append(SoftmaxMembers.fit(members, task))
            if now is not None:
                now.step(group)
    lists = []
    for common, *fits in zip(task.commons, *groups, strict=True):
        fitted = FittedList(candidates, common, tuple(group for group, _ in fits))
        lists.append((fitted, np.concatenate([forecasts for _, forecasts in fits], axis=1)))
    return lists


def _parts_told(group: str, members: Sequence[Candidate], rows: ListRows) -> int:
    """How many parts a group of the list counts for every sample: its ensembles, and the other stacks of classes."""
    if group == "tree":
        return len({c.depth for c in members})
    if group == "shared":
        return len({c.name for c in members} if rows.classes is None else {bool(c.trees) for c in members} | {False})
    return 0


@dataclass(frozen=True, eq=False)
class ListForecasts:
    """Forecasts (N, S), the loss and the weights (N,) of their rows, the tempering, and the orders of the rows."""

    forecasts: Floats
    loss: Loss
    sample_weight: Floats
    rate: float
    orders: list[Indices]

    def error_sums(self, parts: list[Indices]) -> Floats:
        """The weighted sums of every candidate's errors over each of the parts, (P, S), block by block."""
        total, counted = np.zeros((len(parts), self.forecasts.shape[1])), np.zeros((len(parts), len(self.forecasts)))
        for one, part in zip(counted, parts, strict=True):
            one[part] = self.sample_weight[part]
        step = max(1, BLOCK_NUMBERS // max(1, total.shape[1]))
        for start in range(0, len(self.forecasts), step):
            rows = slice(start, start + step)
            total += counted[:, rows] @ self.loss.part(rows).error(self.forecasts[rows])
        return total

    def log_densities(self, kept: Indices) -> tuple[Floats, Floats]:
        """The weighted log densities (rows, S) of the entries kept, with scales (S,) that are calibrated on them."""
        counted = np.zeros(len(self.forecasts))
        counted[kept] = self.sample_weight[kept]
        loss, out = self.loss.calibrated(self.forecasts, counted), np.empty((len(kept), self.forecasts.shape[1]))
        scale, step = np.broadcast_to(loss.scale, out.shape[1]), max(1, BLOCK_NUMBERS // max(1, out.shape[1]))
        for start in range(0, len(kept), step):
            some = kept[start : start + step]
            out[start : start + step] = counted[some, None] * loss.part(some).log_density(self.forecasts[some])
        return out, scale


def mix(given: ListForecasts, log_priors: Floats, kept: Indices | None = None) -> list[Mixing]:
    """Aggregate forecasts of S candidates in every one of the orders (`alg:scale_online`), for several priors (R, S).

    Only the entries ``kept`` are used, if they are given. A candidate's scale, where the loss has one, is its root
    mean squared error on all rows. The log density of row i is multiplied by its sample weight and by a power, the
    tempering rate times `information`. The shares are the weights averaged over the second half of the rows of every
    order: in the first half they still are near the prior. Without rows of positive weight they are the prior's.

    >>> from gatewise.losses import ResidualLoss
    >>> y = np.linspace(-1, 1, 50)
    >>> F = np.column_stack([y + 0.1, -y])
    >>> found, = mix(ListForecasts(F, ResidualLoss(y), np.ones(50), 1.0, [np.arange(50)]), np.zeros((1, 2)))
    >>> found.shares.round(2)
    array([1., 0.])
    """
    n, S = given.forecasts.shape
    orders, kept = (given.orders, np.arange(n)) if kept is None else (_within(given.orders, kept, n), kept)
    if not given.sample_weight[kept].any():
        return [Mixing(softmax(prior), NONE_YET, np.ones(S)) for prior in log_priors]
    log_density, scale = given.log_densities(kept)
    found = []
    for prior in log_priors:
        power = given.rate * information(log_density, prior)
        averages = time_average(prior, log_density, orders, skipped=len(kept) // 2, power=power)
        found.append(Mixing(averages.weights, NONE_YET, scale))
    return found


def _within(orders: list[Indices], kept: Indices, n: int) -> list[Indices]:
    """Orders of n rows as orders of those that are kept."""
    place = np.full(n, -1)
    place[kept] = np.arange(len(kept))
    return [place[order][place[order] >= 0] for order in orders]


def continue_mixing(mixing: Mixing, log_prior: Floats, forecasts: Floats, loss: Loss, weight: Floats) -> Mixing:
    """Continue with more rows in the order given, by AFTER with forgetting (`fixed_share`).

    Forecasts and loss as in `mix`; ``weight`` (n,) are the sample weights. New rows are not tempered, as no candidate
    has seen them; a row of weight 0 is predicted, and changes nothing. The scale of every candidate follows its
    squared errors with a memory of MEMORY rows. Where there are scales no candidate loses more than ONE_ROW in log
    density against another one by a row: far from all forecasts the largest scale has the largest density, and one
    wild response would hand the weight to the worst candidate. ``shares`` are then those that predict the next row,
    ``online`` (n,) the predictions of the new rows.
    """
    state = begin(np.log(mixing.shares + TINY)) if mixing.switching is None else mixing.switching
    scale, online = mixing.scale, np.empty(len(forecasts))
    for i in range(len(forecasts)):
        if weight[i] == 0.0:
            online[i] = state.weights @ forecasts[i]
            continue
        row = loss.part(slice(i, i + 1))
        log_density = row.scaled(scale).log_density(forecasts[i : i + 1])
        if loss.additive:  # the loss has a scale
            log_density = np.maximum(log_density, log_density.max() - ONE_ROW)
        log_density = weight[i] * log_density
        state, online[i : i + 1] = fixed_share(
            state, log_prior, log_density, forecasts[i : i + 1], min(weight[i], 1.0)
        )
        if loss.additive:
            scale = _followed(scale, row.error(forecasts[i : i + 1])[0], min(weight[i], 1.0) / MEMORY)
    return replace(mixing, shares=state.weights, online=online, scale=scale, switching=state)


def _followed(scale: Floats, errors: Floats, part: float) -> Floats:
    """The scales (S,) after one more row with squared errors (S,): at most sqrt(2) times as large."""
    squares = np.square(scale)
    return np.asarray(np.sqrt((1.0 - part) * squares + part * np.minimum(errors, MEMORY * squares)))


def _held_out_weights(
    shares: list[tuple[Indices, Floats]],
    lists: list[FittedList],
    fold: Indices,
    seen: ListRows,
    used: Indices,
) -> Floats:
    """The out-of-fold gate weights of every entry, (N, M), which are the rows ``used`` (N,) of what the list sees.

    The gates of an entry come from the list that was fitted without its fold, their shares from the other parts.
    """
    weights = np.empty((len(used), seen.F.shape[1]))
    for entries, share in shares:
        for number in np.unique(fold[entries]):
            here = entries[fold[entries] == number]
            for rows in range(0, len(here), WEIGHED):
                some = here[rows : rows + WEIGHED]
                weights[some] = lists[number].mean_weights(share, seen.part(used[some]))
    return weights


def _held_out_classes(
    whole: ListForecasts,
    shares: list[tuple[Indices, Floats]],
    final_shares: Floats,
    lists: list[FittedList],
    fold: Indices,
    seen: ListRows,
    used: Indices,
    weights: Floats,
) -> dict[str, Any]:
    """What a fit tells of classes out of fold: probabilities (N, C), and calibration errors (S,); else nothing."""
    if seen.classes is None:
        return {}
    seen = seen.part(used)
    assert seen.classes is not None
    experts, stacks = seen.classes.probabilities, np.stack([one.stack for one in lists])
    return {
        "probabilities": _held_out_probabilities(shares, lists, fold, seen, weights),
        "stacked": np.einsum("im,imc->ic", stacks[fold], experts),
        "experts": experts,
        "calibration": _held_out_calibration(whole, final_shares, lists, fold, seen),
    }


def _held_out_probabilities(
    shares: list[tuple[Indices, Floats]], lists: list[FittedList], fold: Indices, seen: ListRows, weights: Floats
) -> Floats:
    """The out-of-fold probabilities (N, C) of all classes, from the same lists and shares as the weights (N, M)."""
    assert seen.classes is not None
    total = np.asarray(np.einsum("im,imc->ic", weights, seen.classes.probabilities))
    for entries, share in shares:
        for number in np.unique(fold[entries]):
            here = entries[fold[entries] == number]
            for part in lists[number].shared_parts(share, seen.part(here)).values():
                total[here] += part
    return total


def _held_out_calibration(
    whole: ListForecasts, shares: Floats, lists: list[FittedList], fold: Indices, seen: ListRows
) -> Floats:
    """The expected calibration errors (S,) of the candidates' held-out probabilities.

    Of more than two classes only those of candidates with a share of at least LEAST_TOLD: the forecasts have the
    probabilities of the classes that were observed, and those of all classes are computed anew. NaN for the others.
    """
    assert seen.classes is not None
    weight, outcome = whole.sample_weight, seen.classes.outcome
    if seen.classes.probabilities.shape[2] == 2:
        return two_class_calibration(whole.forecasts, weight)
    found, everything = np.full(len(shares), np.nan), np.arange(len(fold))
    for s in np.flatnonzero(shares >= LEAST_TOLD).tolist():
        alone = [(everything, np.eye(len(shares))[s])]
        weights = _held_out_weights(alone, lists, fold, seen, everything)
        p = _held_out_probabilities(alone, lists, fold, seen, weights)
        found[s] = calibration_error(p.max(axis=1), p.argmax(axis=1) == outcome, weight)
    return found


def _gate_splits(data: HeldOut, weight: Floats, seed: int) -> list[tuple[Indices, Indices]]:
    """Pairs of rows of what the list sees, those to fit it on and those to predict: entries, or those of a view.

    Splits with fewer than LEAST_ROWS entries of positive weight to fit on are left out. If no split remains, as with
    one held-out part, the entries are divided at random into PARTS parts.
    """
    learners: Iterable[tuple[Indices, Indices]] = data.learners()
    if data.nested is not None:  # the first view is that of the list fitted to all rows
        starts = len(data.rows) * np.arange(1, 1 + len(data.nested))
        learners = [(known + start, out + start) for (known, out), start in zip(learners, starts, strict=True)]
    splits = [(known, out) for known, out in learners if np.count_nonzero(weight[known]) >= LEAST_ROWS and len(out)]
    if splits:
        return _merged(splits, MOST_LISTS if len(data.rows) <= MOST_LEARNED else FEWEST_LISTS)
    part = np.random.default_rng(seed).permutation(len(data.rows)) % min(PARTS, len(data.rows))
    return [(np.flatnonzero(part != j), np.flatnonzero(part == j)) for j in range(part.max() + 1)]


def _merged(splits: list[tuple[Indices, Indices]], most: int) -> list[tuple[Indices, Indices]]:
    """At most so many splits, made by joining neighbours; the entries to fit on are those common to all joined."""
    if len(splits) <= most:
        return splits
    groups = [splits[j * len(splits) // most : (j + 1) * len(splits) // most] for j in range(most)]
    merged = [
        (reduce(np.intersect1d, [known for known, _ in group]), np.concatenate([out for _, out in group]))
        for group in groups
    ]
    return merged if all(len(known) >= LEAST_ROWS for known, _ in merged) else splits


def _orders(times: Indices | None, n: int, count: int, seed: int) -> list[Indices]:
    """``count`` random orders of n rows, fewer where rows are many; the one of their times, if these are given."""
    if times is not None:
        return [np.argsort(times, kind="stable")]
    rng = np.random.default_rng([seed, 1])
    return [rng.permutation(n) for _ in range(max(1, min(count, MOST_ORDERED // max(n, 1))))]


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
