"""A learned router: what it takes for a forecast, the fitted list and its shares, and how sure a prediction is."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from sklearn.utils import _safe_indexing

from gatewise.arrays import Booleans, FieldsOnly, Floats, Indices, TINY
from gatewise.gates.inputs import GateInputs
from gatewise.losses import LogLoss, Loss, ResidualLoss
from gatewise.router.candidates import Candidate, log_prior
from gatewise.router.class_rows import ClassRows, ProbabilityFloor
from gatewise.router.learning import continue_mixing, Mixing, RouterFit
from gatewise.router.members import FittedList, ListRows
from gatewise.router.verdict import HeldOutLosses, LEAST_SHARE, reach_verdict, region_table, RegionTable, Verdict
from gatewise.stats import weighted_quantile

NEGLIGIBLE = 1e-3  # candidates with a smaller share are left out of predictions
TRUSTED = 10.0  # widths outside of its range, at most, where a forecast that others agree with stays
FAR = 2.0  # times the largest held-out distance of a forecast from the other experts: farther is far
COVERED = 0.9
QUANTILE = 1.6448536269514722  # of |z| for a standard Gaussian at that level
SLIGHT = 0.005  # of the responses' standard deviation: gates of little share that move no forecast more are left out
REMEMBERED = 100  # rows that the scale of predictions, and the choice of a single candidate, remember later
LARGEST_RATIO = 9.0  # of a squared residual to its expected size: a larger one counts as this


@dataclass(frozen=True, eq=False)
class ForecastGuard:
    """Sets forecasts aside for a row, and puts the median of the other experts' forecasts in their place.

    A forecast is set aside if it lies outside of [low, high], the range of the expert's held-out forecasts widened by
    its ``width`` on both sides, and if it is farther than ``far`` from the median of the other experts' forecasts; of
    an even number of others, from both that are in the middle. So it stays where half of the others agree with it,
    but not beyond TRUSTED widths outside of [low, high]: a wrong input may lead several experts there.
    ``far`` is twice the largest such distance on held-out rows. Held-out forecasts that are off the range of the
    response by more than its length do not count towards these ranges and distances. A forecast that is missing (NaN)
    is replaced in the same way. The others are the ``voters`` alone: no expert that makes the forecasts of another
    one, and none that diverges, which is off the range of the response by more than its length at most rows.
    """

    low: Floats  # (M,)
    high: Floats  # (M,)
    far: Floats  # (M,)
    width: Floats  # (M,), the length of the range of the held-out forecasts
    voters: Indices

    @classmethod
    def fit(cls, F: Floats, y: Floats, voters: Indices | None = None) -> Self:
        """Learn the ranges from held-out forecasts F (n, M) and responses y (n,).

        ``voters`` are the experts that differ, all if None; those that diverge are left out, if some remain.

        >>> F = np.array([[0.0, 0.1, 0.2], [1.0, 1.1, 1e9], [2.0, 2.1, 2.2]])
        >>> guard = ForecastGuard.fit(F, np.array([0.0, 1.0, 2.0]))
        >>> guard.apply(F)[0][1]
        array([1.  , 1.1 , 1.05])
        """
        M = F.shape[1]
        least, most = float(y.min()), float(y.max())
        room = most - least
        plausible = (least - room <= F) & (most + room >= F)
        inside = np.where(plausible, F, np.nan)
        known = plausible.any(axis=0)
        voters = np.arange(M) if voters is None else voters
        steady = voters[2 * plausible.sum(axis=0)[voters] >= (~np.isnan(F)).sum(axis=0)[voters]]
        voters = steady if len(steady) else voters
        low, high = np.full(M, least), np.full(M, most)
        low[known], high[known] = np.nanmin(inside[:, known], axis=0), np.nanmax(inside[:, known], axis=0)
        width = np.where(high > low, high - low, room)
        apart = np.abs(inside - _median_of_others(inside, voters))
        far = FAR * np.nanmax(np.where(np.isnan(apart), 0.0, apart), axis=0)
        return cls(low - width, high + width, far, width, voters)

    @classmethod
    def open(cls, n_experts: int) -> Self:
        """A guard that lets every forecast pass."""
        wide = np.full(n_experts, np.inf)
        return cls(-wide, wide, wide, wide, np.arange(n_experts))

    def doubts(self, m: int, forecasts: Floats) -> Booleans:
        """Which forecasts (n,) of expert m lie outside of its range or are missing, (n,): these may be set aside."""
        return ~np.asarray((self.low[m] <= forecasts) & (self.high[m] >= forecasts))

    def apply(self, F: Floats, numbers: Indices | None = None) -> tuple[Floats, Booleans]:
        """Forecasts F (n, M) with those replaced that are set aside or missing, and where that was, (n, M).

        ``numbers`` (n,) are those of the rows, if they are not in order.
        """
        low, high = np.broadcast_to(self.low, F.shape), np.broadcast_to(self.high, F.shape)
        return self._within(F, low, high, numbers)

    def continued(self, F: Floats, y: Floats, weight: Floats) -> tuple[Floats, Self]:
        """As `apply`, for rows that come one after the other, and the guard after them.

        A forecast that was off the response y (n,) by no more than ``width`` belongs to the expert's range for later
        rows, so that a range follows responses that drift. Rows of ``weight`` (n,) zero teach nothing.
        """
        confirmed = (np.abs(F - y[:, None]) <= self.width) & (weight > 0.0)[:, None]
        low, high = (np.vstack([now, np.where(confirmed, F, now)]) for now in (self.low, self.high))
        low[1:] -= np.where(confirmed, self.width, 0.0)
        high[1:] += np.where(confirmed, self.width, 0.0)
        low, high = np.minimum.accumulate(low), np.maximum.accumulate(high)
        return self._within(F, low[:-1], high[:-1])[0], replace(self, low=low[-1], high=high[-1])

    def _within(
        self, F: Floats, low: Floats, high: Floats, numbers: Indices | None = None
    ) -> tuple[Floats, Booleans]:
        """As `apply`, with the range [low, high] of every forecast, (n, M) each."""
        aside = ~((low <= F) & (high >= F))
        if not aside.any():
            return F, aside
        rows = np.flatnonzero(aside.any(axis=1))
        part = F[rows]
        room = TRUSTED * self.width
        agreeing = np.where((low[rows] - room <= part) & (high[rows] + room >= part), part, np.nan)
        apart = np.abs(agreeing - _middle_of_others(agreeing, self.voters))
        aside[rows] &= ~(apart <= self.far).any(axis=0)
        others, absent = _median_of_others(np.where(aside[rows], np.nan, part), self.voters), np.isnan(part)
        alone = np.isnan(others)
        if (alone & absent).any():
            place = int(rows[(alone & absent).any(axis=1).argmax()])
            row = place if numbers is None else int(numbers[place])
            raise ValueError(f"X: a forecast is missing at row {row}, and no other can take its place; leave it out")
        # Where no other expert is left, a forecast is cut to its own range.
        kept = np.where(alone, np.clip(part, low[rows], high[rows]), others)
        out = F.copy()
        out[rows] = np.where(aside[rows], kept, part)
        return out, aside


def _median_of_others(F: Floats, voters: Indices) -> Floats:
    """For every entry of F (n, M) the median of the row's other voters that are not NaN; NaN if there is none."""
    return np.asarray(_middle_of_others(F, voters).mean(axis=0))


def _middle_of_others(F: Floats, voters: Indices) -> Floats:
    """As `_median_of_others`, the lower and the upper median, (2, n, M): the same where an odd number is left."""
    out = np.full((2, *F.shape), np.nan)
    for m in range(F.shape[1]):
        others = np.sort(F[:, voters[voters != m]], axis=1)  # NaN comes last
        count = (~np.isnan(others)).sum(axis=1)
        rows = np.flatnonzero(count)
        out[0, rows, m] = others[rows, (count[rows] - 1) // 2]
        out[1, rows, m] = others[rows, count[rows] // 2]
    return out


@dataclass(frozen=True, eq=False)
class PredictionScale:
    """The standard deviation of a response given its row, sd(x) = factor sqrt(noise + weight * disagreement(x)).

    The disagreement of a row is the variance of the experts' forecasts under the row's gate weights. ``noise`` and
    ``weight`` come from least squares of the squared held-out residuals on 1 and the disagreement; ``factor`` is such
    that 90 % of the held-out residuals are at most 1.645 sd.
    """

    noise: float
    weight: float
    factor: float

    @classmethod
    def fit(cls, residuals: Floats, disagreement: Floats, sample_weight: Floats) -> Self:
        """Calibrate on held-out residuals (n,) and the disagreement (n,) of the same rows, if they have weight."""
        from scipy.optimize import nnls  # noqa: PLC0415 - slow to import

        kept = sample_weight > 0.0
        residuals, disagreement, sample_weight = residuals[kept], disagreement[kept], sample_weight[kept]
        squares, root = residuals**2, np.sqrt(sample_weight)
        cut = np.minimum(squares, np.quantile(squares, 0.99))  # a few huge errors must not decide noise and weight
        unit = float(cut.mean()) or 1.0
        typical = float(disagreement.mean()) or 1.0
        design = np.column_stack([np.ones(len(cut)), disagreement / typical]) * root[:, None]
        (constant, slope), _ = nnls(design, cut / unit * root)
        noise, weight = max(constant, 0.05) * unit, slope * unit / typical
        ratios = np.abs(residuals) / np.sqrt(noise + weight * disagreement)
        level = min(1.0, COVERED * (1.0 + 1.0 / len(ratios)))
        return cls(float(noise), float(weight), weighted_quantile(ratios, sample_weight, level) / QUANTILE)

    def continued(self, residuals: Floats, disagreement: Floats, weight: Floats) -> Self:
        """The scale after more rows, in their order: the factor follows the size of the residuals slowly.

        Every row is held against the factor after the row before it, so that rows may come one by one or at once. A
        row whose ``weight`` (n,) is below 1 moves it by that part of a whole row.
        """
        square = self.factor**2
        steps = np.minimum(weight, 1.0) / REMEMBERED
        for found, step in zip(np.square(residuals / self.sd(disagreement)).tolist(), steps.tolist(), strict=True):
            ratio = min(found * self.factor**2 / square, LARGEST_RATIO)
            square *= 1.0 + (ratio - 1.0) * step
        return replace(self, factor=float(np.sqrt(square)))

    def sd(self, disagreement: Floats) -> Floats:
        """The standard deviation at rows of this disagreement, (n,)."""
        return np.asarray(self.factor * np.sqrt(self.noise + self.weight * disagreement))


def disagreement(weights: Floats, F: Floats) -> Floats:
    """The variance of the experts' forecasts F (n, M) under the weights (n, M), (n,)."""
    mean = np.einsum("im,im->i", weights, F)
    return np.asarray(np.einsum("im,im->i", weights, (F - mean[:, None]) ** 2))


@dataclass(frozen=True, eq=False)
class RowView:
    """What a router needs to look at new rows: the guard of the forecasts, and which experts are in the list.

    Of ``n_experts`` experts the ``distinct`` ones are in the list. The guard of class probabilities is their floor.
    """

    guard: ForecastGuard | ProbabilityFloor
    distinct: Indices
    n_experts: int

    def spread_out(self, values: Floats) -> Floats:
        """Values (..., distinct) as (..., M), with zeros for the other experts."""
        out = np.zeros((*values.shape[:-1], self.n_experts))
        out[..., self.distinct] = values
        return out


@dataclass(frozen=True, eq=False)
class OutOfFold:
    """Out-of-fold forecasts of a fit: N entries, one for each time that a row was held out.

    ``rows`` (N,) are the numbers of the rows, ``y`` (N,) their responses, ``F`` (N, M) the experts' forecasts,
    ``weights`` (N, M) the gate's weights, ``forecasts`` (N,) those of the aggregate, and ``stack`` (N,) those of the
    convex stack. No expert, gate or share behind an entry was fitted on its row.
    """

    rows: Indices
    y: Floats
    F: Floats
    weights: Floats
    forecasts: Floats
    stack: Floats


@dataclass(frozen=True, eq=False)
class FittedRouter(FieldsOnly):
    """The weights of the experts at new rows: of a single candidate, or the mean over candidates by their shares.

    ``names`` are the names of the experts; ``single`` is the number of the candidate whose forecasts are nearest to
    the aggregate's. It has ``single_k`` active experts, if that is given, and is a gate only where the aggregate has
    gates. ``recent`` (at most REMEMBERED, S) are forecasts of the candidates at the last rows, on which it is chosen
    again when rows are added. Gates with less than LEAST_SHARE together are in the aggregate if ``keeps_gates``:
    without them a forecast would move by more than ``slight``. The list learned from ``n_entries`` held-out
    forecasts.
    """

    names: tuple[str, ...]
    inputs: GateInputs
    view: RowView
    fitted: FittedList
    mixing: Mixing
    single: int
    verdict: Verdict
    regions: RegionTable
    recent: Floats
    single_k: int | None = None
    keeps_gates: bool = False
    slight: float = np.inf
    n_entries: int = 0

    @classmethod
    def from_fit(
        cls,
        fit: RouterFit,
        view: RowView,
        X: Any,
        inputs: GateInputs,
        names: Sequence[str],
        sample_weight: Floats,
        signal: Floats,
        single_k: int | None,
    ) -> Self:
        """The router of a fit to the rows X, with its verdict, its regions and its single candidate.

        ``signal`` (n, 3) is what speaks for gates at every row. With ``single_k`` the single candidate is a gate with
        that many active experts, or one expert alone.
        """
        slight = SLIGHT * _response_deviation(fit)
        keeps_gates = _gates_move(fit.final.candidates, fit.mixing.shares, fit.compared, slight)
        shares = _shares_in_use(fit.final.candidates, fit.mixing.shares, keeps_gates)
        nearest = _nearest(fit.compared, shares, _nameable(fit.final.candidates, shares))
        some = np.linspace(0, len(fit.compared) - 1, min(REMEMBERED, len(fit.compared))).astype(np.intp)
        return cls(
            names=tuple(names),
            inputs=inputs,
            view=view,
            fitted=fit.final,
            mixing=fit.mixing,
            single=_nearest(fit.compared, shares, _nameable(fit.final.candidates, shares, single_k)),
            verdict=_verdict(fit, shares, nearest, names, sample_weight, signal),
            regions=held_out_regions(fit, fit.loss.error(fit.F), X, inputs, names, sample_weight),
            recent=fit.compared[some],
            single_k=single_k,
            keeps_gates=keeps_gates,
            slight=slight,
            n_entries=len(fit.learned),
        )

    def shares(self, readout: str) -> Floats:
        """The share of every candidate in a prediction, (S,), with sum one.

        For "single" it is 1 at the single candidate. For "aggregate" shares below NEGLIGIBLE are set to 0, and those
        of all gates if they have less than LEAST_SHARE together and move no forecast by more than ``slight``.
        """
        if readout == "single":
            return np.asarray(np.eye(len(self.fitted.candidates))[self.single])
        return self._in_use

    @cached_property
    def _in_use(self) -> Floats:
        return _shares_in_use(self.fitted.candidates, self.mixing.shares, self.keeps_gates)

    def needs_forecasts(self, shares: Floats) -> bool:
        """Whether a prediction needs the forecasts of all experts at every row."""
        used = [self.fitted.candidates[s] for s in np.flatnonzero(shares)]
        return any(c.kind == "shared" or c.corrected or self._looks(c) for c in used)

    def weights_need_forecasts(self, shares: Floats) -> bool:
        """Whether the weights of the experts depend on their forecasts."""
        return any(self._looks(self.fitted.candidates[s]) for s in np.flatnonzero(shares))

    def rows(self, X: Any, F: Floats | None = None, classes: ClassRows | None = None) -> ListRows:
        """What the candidates see of the rows of X; F (n, M) are the experts' forecasts, if needed.

        Where responses are classes, ``classes`` has the experts' probabilities and, if they are known, the classes.
        """
        inputs = self.inputs.transform(X)
        distinct = self.view.distinct
        seen = None if F is None else F[:, distinct] if F.shape[1] > len(distinct) else F
        forecasts = np.empty((len(inputs.inside), 0)) if seen is None else seen
        return ListRows(inputs, forecasts, classes)

    def mean_weights(self, shares: Floats, rows: ListRows) -> Floats:
        """The weight of every expert at rows by these shares, (n, M)."""
        return self.view.spread_out(self.fitted.mean_weights(shares, rows))

    def candidate_forecasts(self, X: Any, F: Floats, classes: ClassRows | None = None) -> Floats:
        """The forecasts of all candidates at the rows of X, (n, S)."""
        return self.fitted.forecasts(self.rows(X, F, classes))

    def continued(self, X: Any, F: Floats, loss: Loss, weight: Floats, classes: ClassRows | None = None) -> Self:
        """The router after AFTER with forgetting has seen more rows X; the candidates are not fitted again.

        F (n, M) are the experts' forecasts, ``loss`` is the loss at these rows, ``weight`` (n,) their weights. The
        single candidate is the one nearest to the aggregate as it is now, on the last REMEMBERED rows that weigh.
        """
        candidates = self.fitted.candidates
        forecasts = self.candidate_forecasts(X, F, classes)
        mixing = continue_mixing(self.mixing, log_prior(candidates), forecasts, loss, weight)
        if not weight.any():
            return replace(self, mixing=mixing)
        recent = np.concatenate([self.recent, forecasts[weight > 0.0]])[-REMEMBERED:]
        keeps_gates = _gates_move(candidates, mixing.shares, recent, self.slight)
        shares = _shares_in_use(candidates, mixing.shares, keeps_gates)
        single = _nearest(recent, shares, _nameable(candidates, shares, self.single_k))
        return replace(self, mixing=mixing, single=single, keeps_gates=keeps_gates, recent=recent)

    def _looks(self, c: Candidate) -> bool:
        """Whether a candidate is a gate that looks at the forecasts."""
        return c.kind == "gate" and self.fitted.looks(c.name)


def held_out_regions(
    fit: RouterFit, losses: Floats, X: Any, inputs: GateInputs, names: Sequence[str], sample_weight: Floats
) -> RegionTable:
    """Where each expert leads, and whether it wins there by losses (N, M) of the entries of a fit to the rows X.

    A row that was held out more than once counts once, with the means of its weights and losses.
    """
    rows, entry = np.unique(fit.rows, return_inverse=True)
    weights, means = (_by_number(values, entry) for values in (fit.weights, losses))
    encoded = inputs.encode(_safe_indexing(X, rows))
    return region_table(names, weights, means, encoded, inputs.names, sample_weight[rows])


def _by_number(values: Floats, numbers: Indices) -> Floats:
    """The means of values (N, M) with the same number, (numbers, M)."""
    count = np.bincount(numbers)
    if count.max() == 1:
        return np.asarray(values[np.argsort(numbers)])
    return np.stack([np.bincount(numbers, column) / count for column in values.T], axis=1)


def _nearest(forecasts: Floats, shares: Floats, compared: Booleans) -> int:
    """The candidate nearest to the aggregate in mean squared distance of forecasts (n, S), of those compared (S,)."""
    distance = ((forecasts - (forecasts @ shares)[:, None]) ** 2).mean(axis=0)
    return int(np.where(compared, distance, np.inf).argmin())


def _nameable(candidates: Sequence[Candidate], shares: Floats, k: int | None = None) -> Booleans:
    """The candidates that may be named as the one nearest to the aggregate of these shares (S,), (S,).

    They are gates only if gates have a share. With k they are single experts and gates with k active experts.
    """
    gated = any(share > 0.0 and c.kind == "gate" for share, c in zip(shares, candidates, strict=True))
    active = [k is None or c.kind == "single" or c.k == k for c in candidates]
    return np.array([on and (gated or c.kind != "gate") for on, c in zip(active, candidates, strict=True)])


def _verdict(
    fit: RouterFit, shares: Floats, nearest: int, names: Sequence[str], sample_weight: Floats, signal: Floats
) -> Verdict:
    """The verdict from the mean held-out error of every row, as a row may have been held out more than once.

    Rows of a group, which may depend on one another, count as one with their mean.
    """
    units = np.arange(len(sample_weight)) if fit.units is None else fit.units
    _, entry = np.unique(units[fit.rows], return_inverse=True)
    heavy = sample_weight[fit.rows] / np.bincount(fit.rows)[fit.rows]
    total: Floats = np.bincount(entry, heavy).astype(np.float64)

    def by_unit(values: Floats) -> Floats:
        return np.asarray(np.bincount(entry, heavy * values) / np.maximum(total, TINY))

    error = fit.loss.error
    singles, aggregate, stack = error(fit.F), error(fit.forecasts), error(fit.stack)
    best = int(np.average(singles, axis=0, weights=sample_weight[fit.rows]).argmin())
    losses = HeldOutLosses(
        aggregate=by_unit(aggregate),
        stack=by_unit(stack),
        single=by_unit(singles[:, best]),
        signal=np.stack([np.bincount(units, column) for column in (signal * sample_weight[:, None]).T], axis=1),
        sample_weight=total,
        across_folds=fit.across_folds,
    )
    return reach_verdict(fit.final.candidates, shares, nearest, names[best], losses)


def _response_deviation(fit: RouterFit) -> float:
    """The standard deviation of the responses; of a class, that of the indicator of the observed one."""
    if isinstance(fit.loss, ResidualLoss):
        return float(fit.loss.y.std())
    mean = fit.compared @ fit.mixing.shares
    return float(np.sqrt(np.mean(mean * (1.0 - mean))) if isinstance(fit.loss, LogLoss) else mean.std())


def _gates_move(candidates: Sequence[Candidate], shares: Floats, forecasts: Floats, slight: float) -> bool:
    """Whether gates that have less than LEAST_SHARE move one of the forecasts (n, S) by more than ``slight``."""
    if not 0.0 < shares[_are_gates(candidates)].sum() < LEAST_SHARE:
        return False
    kept, dropped = (_shares_in_use(candidates, shares, keeps) for keeps in (True, False))
    return bool(np.abs(forecasts @ (kept - dropped)).max(initial=0.0) > slight)


def _are_gates(candidates: Sequence[Candidate]) -> Booleans:
    return np.array([c.kind == "gate" for c in candidates])


def _shares_in_use(candidates: Sequence[Candidate], shares: Floats, keeps_gates: bool) -> Floats:
    """The shares (S,) in a prediction, with sum one: those below NEGLIGIBLE, or below half of their mean, are 0.

    Gates that have less than LEAST_SHARE together are all left out, or all kept with ``keeps_gates``.
    """
    is_gate = _are_gates(candidates)
    small = shares[is_gate].sum() < LEAST_SHARE
    if small and not keeps_gates:
        shares = np.where(is_gate, 0.0, shares)
    least = np.full(len(shares), min(NEGLIGIBLE, 0.5 * float(shares.mean())))
    if small and keeps_gates:
        least[is_gate] = 0.0
    used = np.where(shares >= least, shares, 0.0)
    return np.asarray(used / used.sum())
