"""The facts of a page: what gating gains, where each expert leads, whether that is real, how many, how sure."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from gatewise.app.evidence import Evidence, gather
from gatewise.app.fitting import best_single
from gatewise.app.importance import Profile, profile, region_plot, RegionPlot, shown, Telling, telling_columns
from gatewise.app.model_file import SavedModel
from gatewise.app.score_table import compare, Score
from gatewise.arrays import Floats
from gatewise.geometry import Activation, activation, Interval, mean_interval, Specialization, specialization
from gatewise.router.expert_regions import RegionTable
from gatewise.router.facts import plain_values
from gatewise.router.verdict import Verdict

BAND = 0.1  # two leading weights closer than that: a row at the border


@dataclass(frozen=True)
class ActiveExperts:
    """The gate cut to its k largest weights: its error, and by how much its mean squared error exceeds that of k = M.

    ``excess`` is a share of the latter, with a 95 % interval.
    """

    k: int
    rmse: float
    excess: Interval


@dataclass(frozen=True, eq=False)
class Sureness:
    """How far the leading expert is ahead: margins (n,), the share of rows at a border, the errors there and away."""

    margins: Floats
    share: float
    rmse_band: float
    rmse_rest: float


@dataclass(frozen=True)
class Weighted:
    """A candidate of the aggregation, its weight and its held-out error in the fit."""

    candidate: str
    weight: float
    rmse: float


@dataclass(frozen=True, eq=False)
class Findings:
    """All that the page says."""

    target: str
    evidence: Evidence
    verdict: Verdict
    facts: Mapping[str, Any]
    scores: tuple[Score, ...]
    best_single: str
    regions: RegionTable
    telling: tuple[Telling, ...]
    profiles: tuple[Profile, ...]
    map: RegionPlot | None
    specialization: Specialization | None
    active: tuple[ActiveExperts, ...]
    activation: Activation | None
    sureness: Sureness
    candidates: tuple[Weighted, ...]

    def record(self) -> dict[str, Any]:
        """The figures of the page as plain values, without the rows."""
        special = () if self.specialization is None else self.specialization.experts
        sure = self.sureness
        plain: dict[str, Any] = plain_values(
            {
                "target": self.target,
                "n_rows": len(self.evidence.y),
                "verdict": asdict(self.verdict),
                "scores": [asdict(one) for one in self.scores],
                "best_single": self.best_single,
                "regions": [asdict(row) for row in self.regions],
                "telling": [{"column": one.column.name, "moves": one.moves} for one in self.telling],
                "specialization": [asdict(one) for one in special],
                "active": [asdict(one) for one in self.active],
                "border": {"share": sure.share, "rmse_band": sure.rmse_band, "rmse_rest": sure.rmse_rest},
                "candidates": [asdict(one) for one in self.candidates],
            }
        )
        return plain


def find(saved: SavedModel, frame: Any) -> Findings:
    """All facts about a model on the rows of a data frame."""
    model, evidence = saved.model, gather(saved, frame)
    several = len(evidence.names) > 1
    columns = telling_columns(model, evidence.X, saved.columns) if several else []
    drawn = [one.column for one in shown(columns)]
    leader = evidence.weights.argmax(axis=1)
    order = np.argsort(-model.weights_)
    return Findings(
        target=saved.target,
        evidence=evidence,
        verdict=model.verdict_,
        facts=saved.facts,
        scores=compare(evidence.y, evidence.forecast, evidence.stack, evidence.F, evidence.names),
        best_single=best_single(model),
        regions=model.region_table(),
        telling=tuple(columns),
        profiles=tuple(profile(model, evidence.X, column) for column in drawn),
        map=region_plot(model, evidence.X, drawn[0], drawn[1]) if len(drawn) > 1 else None,
        specialization=specialization(evidence.losses, evidence.weights) if several else None,
        active=active_experts(evidence),
        activation=activation(evidence.F, evidence.y, leader) if several else None,
        sureness=sureness(evidence),
        candidates=tuple(
            Weighted(str(model.candidates_[s]), float(model.weights_[s]), float(model.sigma_[s])) for s in order
        ),
    )


def active_experts(evidence: Evidence) -> tuple[ActiveExperts, ...]:
    """The error by the number of experts that a row may use, its largest weights scaled to sum one."""
    M = len(evidence.names)
    order = np.argsort(-evidence.weights, axis=1, kind="stable")
    losses = []
    for k in range(1, M + 1):
        kept = np.zeros_like(evidence.weights)
        np.put_along_axis(kept, order[:, :k], np.take_along_axis(evidence.weights, order[:, :k], axis=1), axis=1)
        forecast = np.einsum("im,im->i", kept / kept.sum(axis=1, keepdims=True), evidence.F)
        losses.append((evidence.y - forecast) ** 2)
    base = float(losses[-1].mean()) or 1.0
    return tuple(
        ActiveExperts(
            k, float(np.sqrt(loss.mean())), Interval(*(end / base for end in mean_interval(loss - losses[-1])))
        )
        for k, loss in enumerate(losses, start=1)
    )


def sureness(evidence: Evidence) -> Sureness:
    """The lead of the first expert over the second at every row; with one expert it is 1."""
    ordered = -np.sort(-evidence.weights, axis=1)
    margins = ordered[:, 0] - (ordered[:, 1] if ordered.shape[1] > 1 else 0.0)
    band = margins < BAND
    squares = (evidence.y - evidence.forecast) ** 2
    inside, outside = (float(np.sqrt(squares[rows].mean())) if rows.any() else np.nan for rows in (band, ~band))
    return Sureness(margins, float(band.mean()), inside, outside)
