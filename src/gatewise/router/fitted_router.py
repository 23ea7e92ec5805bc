"""A learned router: the list, its aggregation, and what was found on the way."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from sklearn.utils import _safe_indexing

from gatewise.arrays import Floats, Indices
from gatewise.gates.feature_maps import GateFeatures
from gatewise.gates.inputs import GateInputs
from gatewise.losses import Loss
from gatewise.router.candidates import Candidate, FittedList, gate_features
from gatewise.router.expert_regions import region_table, RegionTable
from gatewise.router.learning import continue_mixing, Mixing, RouterFit
from gatewise.router.verdict import HeldOutLosses, reach_verdict, Verdict

NEGLIGIBLE = 1e-3  # the total share of candidates that a prediction leaves out


@dataclass(frozen=True, eq=False)
class OutOfFold:
    """What a fit says of rows that were held out: one entry for each time that a row was, N in all.

    ``rows`` (N,) are the rows of the fit and ``y`` (N,) their responses; ``F`` (N, M) the experts' forecasts,
    ``weights`` (N, M) the gate's weights, ``forecasts`` and ``stack`` (N,) those of the aggregate and of the convex
    stack. Nothing of an entry was fitted on its row.
    """

    rows: Indices
    y: Floats
    F: Floats
    weights: Floats
    forecasts: Floats
    stack: Floats


@dataclass(frozen=True, eq=False)
class FittedRouter:
    """Weights of the experts at new rows, by an aggregated list of candidates or by the single one nearest to it.

    ``names`` are the experts'; ``single`` is the number of the candidate nearest to the aggregate.
    """

    names: tuple[str, ...]
    inputs: GateInputs
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
        single_k: int | None,
    ) -> Self:
        """The router of a fit to the rows X, with its verdict, its regions and its single candidate.

        With ``single_k`` that candidate is one that activates so many experts, or a single expert.
        """
        seen = inputs.transform(X)[fit.rows]
        forecasts = fit.final.forecasts(gate_features(fit.maps, seen, fit.F), fit.F)
        encoded = inputs.encode(_safe_indexing(X, fit.rows))
        return cls(
            names=tuple(names),
            inputs=inputs,
            maps=fit.maps,
            fitted=fit.final,
            mixing=fit.mixing,
            single=_nearest(forecasts, fit.mixing.shares, fit.final.candidates, single_k),
            verdict=_verdict(fit, sample_weight),
            regions=region_table(names, fit.weights, fit.loss.error(fit.F), encoded, inputs.names),
        )

    def shares(self, readout: str) -> Floats:
        """The share of every candidate in a prediction, (S,): candidates of negligible weight are left out."""
        if readout == "single":
            return np.asarray(np.eye(len(self.fitted.candidates))[self.single])
        weights = self.mixing.shares
        order = np.argsort(weights)
        kept = np.cumsum(weights[order]) > NEGLIGIBLE
        shares = np.zeros(len(weights))
        shares[order[kept]] = weights[order[kept]]
        return np.asarray(shares / shares.sum())

    def needs_forecasts(self, shares: Floats) -> bool:
        """Whether the weights of the experts depend on their forecasts."""
        return any(self.maps[name].needs_forecasts for name in self.fitted.gates_in_use(shares))

    def is_corrected(self, shares: Floats) -> bool:
        """Whether a correction is added, which needs every expert's forecast."""
        return bool((shares @ self.fitted.correction).any())

    def weights(self, shares: Floats, X: Any, F: Floats | None = None) -> Floats:
        """The weights of the experts at the rows of X, (n, M); F (n, M) their forecasts where those are needed."""
        inputs = self.inputs.transform(X)
        used = self.fitted.gates_in_use(shares)
        maps = {name: one for name, one in self.maps.items() if name in used}
        return self.fitted.mean_weights(shares, gate_features(maps, inputs, F), len(inputs.Z))

    def candidate_forecasts(self, X: Any, F: Floats) -> Floats:
        """The forecasts of all candidates at the rows of X, (n, S)."""
        return self.fitted.forecasts(gate_features(self.maps, self.inputs.transform(X), F), F)

    def continued(self, X: Any, F: Floats, loss: Loss, power: Floats) -> Self:
        """The router after more rows: the aggregation goes on, all else stays."""
        return replace(self, mixing=continue_mixing(self.mixing, self.candidate_forecasts(X, F), loss, power))


def _nearest(forecasts: Floats, shares: Floats, candidates: Sequence[Candidate], k: int | None) -> int:
    """The allowed candidate nearest to the aggregate over the rows."""
    distance = ((forecasts - (forecasts @ shares)[:, None]) ** 2).mean(axis=0)
    if k is not None:
        distance = np.where([c.kind == "single" or c.k == k for c in candidates], distance, np.inf)
    return int(distance.argmin())


def _verdict(fit: RouterFit, sample_weight: Floats) -> Verdict:
    """The verdict from the mean held-out error of every row, as a row may have been held out more than once."""
    rows, entry = np.unique(fit.rows, return_inverse=True)
    own, plain, stack = (
        np.bincount(entry, fit.loss.error(forecast)) / np.bincount(entry)
        for forecast in (fit.forecasts, fit.plain, fit.stack)
    )
    losses = HeldOutLosses(own, plain, stack, sample_weight[rows], fit.n_parts)
    return reach_verdict(fit.final.candidates, fit.mixing.shares, losses)
