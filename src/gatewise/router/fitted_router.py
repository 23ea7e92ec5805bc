"""A learned router: the fitted list of candidates, their shares, the verdict and the regions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from sklearn.utils import _safe_indexing

from gatewise.arrays import Floats, Indices
from gatewise.gates.feature_maps import GateFeatures
from gatewise.gates.inputs import GateInputs
from gatewise.losses import Loss
from gatewise.router.candidates import Candidate, log_prior
from gatewise.router.expert_regions import region_table, RegionTable
from gatewise.router.fitted_list import FittedList
from gatewise.router.guard import ForecastGuard
from gatewise.router.learning import continue_mixing, gate_features, Mixing, RouterFit
from gatewise.router.members import ListRows
from gatewise.router.verdict import HeldOutLosses, LEAST_SHARE, reach_verdict, Verdict

NEGLIGIBLE = 1e-3  # the total share of the candidates that are left out of a prediction, at most


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
class FittedRouter:
    """The weights of the experts at new rows: of a single candidate, or the mean over candidates by their shares.

    ``names`` are the names of the experts; ``single`` is the number of the candidate whose forecasts are nearest to
    the aggregate's.
    """

    names: tuple[str, ...]
    inputs: GateInputs
    guard: ForecastGuard
    maps: Mapping[str, GateFeatures]
    fitted: FittedList
    mixing: Mixing
    single: int
    verdict: Verdict
    regions: RegionTable

    @classmethod
    def from_fit(
        cls,
        fit: RouterFit,
        X: Any,
        inputs: GateInputs,
        names: Sequence[str],
        sample_weight: Floats,
        signal: Floats,
        single_k: int | None,
    ) -> Self:
        """The router of a fit to the rows X, with its verdict, its regions and its single candidate.

        ``signal`` (n,) is what speaks for gates at every row. With ``single_k`` the single candidate is a gate with
        that many active experts, or one expert alone.
        """
        seen = inputs.transform(X)[fit.rows]
        forecasts = fit.final.forecasts(ListRows(seen, gate_features(fit.maps, seen, fit.F), fit.F))
        encoded = inputs.encode(_safe_indexing(X, fit.rows))
        shares = _shares_in_use(fit.final.candidates, fit.mixing.shares)
        nearest = _nearest(forecasts, shares, fit.final.candidates)
        return cls(
            names=tuple(names),
            inputs=inputs,
            guard=fit.guard,
            maps=fit.maps,
            fitted=fit.final,
            mixing=fit.mixing,
            single=_nearest(forecasts, shares, fit.final.candidates, single_k),
            verdict=_verdict(fit, shares, nearest, names, sample_weight, signal),
            regions=region_table(names, fit.weights, fit.loss.error(fit.F), encoded, inputs.names),
        )

    def shares(self, readout: str) -> Floats:
        """The share of every candidate in a prediction, (S,), with sum one.

        For "single" it is 1 at the single candidate. For "aggregate" the smallest shares, NEGLIGIBLE in total, are
        set to 0, and those of all gates if they have less than LEAST_SHARE together.
        """
        if readout == "single":
            return np.asarray(np.eye(len(self.fitted.candidates))[self.single])
        return _shares_in_use(self.fitted.candidates, self.mixing.shares)

    def needs_forecasts(self, shares: Floats) -> bool:
        """Whether a prediction needs the forecasts of all experts at every row."""
        used = [self.fitted.candidates[s] for s in np.flatnonzero(shares)]
        return any(c.kind == "shared" or c.corrected or self._looks(c) for c in used)

    def weights_need_forecasts(self, shares: Floats) -> bool:
        """Whether the weights of the experts depend on their forecasts."""
        return any(self._looks(self.fitted.candidates[s]) for s in np.flatnonzero(shares))

    def rows(self, shares: Floats, X: Any, F: Floats | None = None) -> ListRows:
        """What the candidates with a share see of the rows of X; F (n, M) are the experts' forecasts, if needed."""
        inputs = self.inputs.transform(X)
        used = {self.fitted.candidates[s].name for s in np.flatnonzero(shares)}
        maps = {name: one for name, one in self.maps.items() if name in used}
        forecasts = np.empty((len(inputs.inside), 0)) if F is None else F
        return ListRows(inputs, gate_features(maps, inputs, F), forecasts)

    def candidate_forecasts(self, X: Any, F: Floats) -> Floats:
        """The forecasts of all candidates at the rows of X, (n, S)."""
        return self.fitted.forecasts(self.rows(np.ones(len(self.fitted.candidates)), X, F))

    def continued(self, X: Any, F: Floats, loss: Loss, weight: Floats) -> Self:
        """The router after AFTER with forgetting has seen more rows X; the candidates are not fitted again.

        F (n, M) are the experts' forecasts, ``loss`` is the loss at these rows, ``weight`` (n,) their weights.
        """
        forecasts, prior = self.candidate_forecasts(X, F), log_prior(self.fitted.candidates)
        return replace(self, mixing=continue_mixing(self.mixing, prior, forecasts, loss, weight))

    def _looks(self, c: Candidate) -> bool:
        """Whether a candidate is a gate that looks at the forecasts."""
        return c.kind == "gate" and c.name in self.maps and self.maps[c.name].needs_forecasts


def _nearest(forecasts: Floats, shares: Floats, candidates: Sequence[Candidate], k: int | None = None) -> int:
    """The candidate nearest to the aggregate in mean squared distance of forecasts (n, S).

    With ``k``, only single experts and gates with k active experts are compared.
    """
    distance = ((forecasts - (forecasts @ shares)[:, None]) ** 2).mean(axis=0)
    if k is not None:
        distance = np.where([c.kind == "single" or c.k == k for c in candidates], distance, np.inf)
    return int(distance.argmin())


def _verdict(
    fit: RouterFit, shares: Floats, nearest: int, names: Sequence[str], sample_weight: Floats, signal: Floats
) -> Verdict:
    """The verdict from the mean held-out error of every row, as a row may have been held out more than once."""
    rows, entry = np.unique(fit.rows, return_inverse=True)
    count = np.bincount(entry)

    def by_row(values: Floats) -> Floats:
        return np.asarray(np.bincount(entry, values) / count)

    singles = fit.loss.error(fit.F)
    best = int(np.average(singles, axis=0, weights=sample_weight[fit.rows]).argmin())
    losses = HeldOutLosses(
        aggregate=by_row(fit.loss.error(fit.forecasts)),
        stack=by_row(fit.loss.error(fit.stack)),
        single=by_row(singles[:, best]),
        signal=signal[rows],
        sample_weight=sample_weight[rows],
    )
    return reach_verdict(fit.final.candidates, shares, nearest, names[best], losses)


def _shares_in_use(candidates: Sequence[Candidate], shares: Floats) -> Floats:
    """The shares (S,) in a prediction, with sum one: the smallest ones, NEGLIGIBLE in total, are left out.

    All gates are left out if they have less than LEAST_SHARE together.
    """
    is_gate = np.array([c.kind == "gate" for c in candidates])
    if shares[is_gate].sum() < LEAST_SHARE:
        shares = np.where(is_gate, 0.0, shares)
    order = np.argsort(shares)
    kept = order[np.cumsum(shares[order]) > NEGLIGIBLE]
    used = np.zeros(len(shares))
    used[kept] = shares[kept]
    return np.asarray(used / used.sum())
