"""The findings: every number that the page shows about a fitted model on the rows of a table."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from gatewise.app.models.fitting import best_single
from gatewise.app.models.method_scores import compare, MethodScore
from gatewise.app.models.model_file import SavedModel
from gatewise.app.page.importance import (
    column_importance,
    ColumnImportance,
    fitted_leaders,
    important_columns,
    profile,
    region_plot,
    RegionPlot,
    WeightProfile,
)
from gatewise.app.page.scored_rows import score_rows, ScoredRows
from gatewise.arrays import Floats
from gatewise.geometry import Activation, activation, Interval, mean_interval, Specialization, specialization
from gatewise.router.candidates import log_prior
from gatewise.router.facts import beside_constant, plain_values
from gatewise.router.verdict import RegionTable, Verdict

EXPLAINED = (0.1, 0.5, 0.9)  # quantiles of the predictions whose rows are taken apart
BAND = 0.1  # a row whose two largest weights differ by less lies at a border between experts


@dataclass(frozen=True)
class ActiveExperts:
    """The gate with only the k largest weights of every row, scaled to sum one: its root mean squared error ``rmse``.

    ``excess`` is how much its mean squared error exceeds that of the full gate, k = M, as a fraction of the latter,
    with a 95 % interval.
    """

    k: int
    rmse: float
    excess: Interval


@dataclass(frozen=True, eq=False)
class LeadMargins:
    """The lead of each row's expert of largest weight: its weight less the second largest, ``margins`` (n,).

    Rows whose margin is below `BAND` lie at a border between experts: ``share`` is the fraction of such rows,
    ``rmse_band`` the root mean squared error on them and ``rmse_rest`` that on all others.
    """

    margins: Floats
    share: float
    rmse_band: float
    rmse_rest: float


@dataclass(frozen=True)
class CandidateWeight:
    """A candidate of the aggregation, its aggregation weight, its held-out error in the fit, and log(1 / prior)."""

    candidate: str
    weight: float
    rmse: float
    price: float


@dataclass(frozen=True)
class ExplainedRow:
    """A row of the file, by its number from 1, the parts of its prediction by name, and their sum."""

    row: int
    parts: Mapping[str, float]
    prediction: float


@dataclass(frozen=True, eq=False)
class Findings:
    """Every number that the page shows; the classes of the fields describe them."""

    target: str
    rows: ScoredRows
    verdict: Verdict
    facts: Mapping[str, Any]
    scores: tuple[MethodScore, ...]
    best_single: str
    regions: RegionTable
    leaders: Mapping[str, float]
    importance: tuple[ColumnImportance, ...]
    profiles: tuple[WeightProfile, ...]
    map: RegionPlot | None
    specialization: Specialization | None
    active: tuple[ActiveExperts, ...]
    activation: Activation | None
    margins: LeadMargins
    candidates: tuple[CandidateWeight, ...]
    explained: tuple[ExplainedRow, ...] = ()
    beside_constant: tuple[str, ...] = ()

    def record(self) -> dict[str, Any]:
        """The figures of the page as plain values, without the rows."""
        special = () if self.specialization is None else self.specialization.experts
        margins = self.margins
        plain: dict[str, Any] = plain_values(
            {
                "target": self.target,
                "n_rows": len(self.rows.y),
                "verdict": asdict(self.verdict),
                "scores": [asdict(one) for one in self.scores],
                "best_single": self.best_single,
                "regions": [asdict(row) for row in self.regions],
                "fitted_leaders": dict(self.leaders),
                "importance": [
                    {"column": one.column.name, "weight_moved": one.weight_moved} for one in self.importance
                ],
                "specialization": [asdict(one) for one in special],
                "active": [asdict(one) for one in self.active],
                "border": {"share": margins.share, "rmse_band": margins.rmse_band, "rmse_rest": margins.rmse_rest},
                "candidates": [asdict(one) for one in self.candidates],
                "explained": [asdict(one) for one in self.explained],
            }
        )
        return plain


def find(saved: SavedModel, frame: Any) -> Findings:
    """All findings about a saved model on the rows of a data frame that has the target's column."""
    model, rows = saved.model, score_rows(saved, frame)
    several = len(rows.names) > 1
    columns = column_importance(model, rows.X, saved.columns) if several else []
    drawn = [one.column for one in important_columns(columns)]
    leader = rows.weights.argmax(axis=1)
    prices = -log_prior(model.candidates_)
    return Findings(
        target=saved.target,
        rows=rows,
        verdict=model.verdict_,
        facts=saved.facts,
        scores=compare(rows.y, rows.forecast, rows.stack, rows.F, rows.names, model.verdict_.widened),
        best_single=best_single(model),
        regions=model.region_table(),
        leaders=fitted_leaders(model, rows.X, rows.names),
        importance=tuple(columns),
        profiles=tuple(profile(model, rows.X, column) for column in drawn),
        map=region_plot(model, rows.X, drawn[0], drawn[1]) if len(drawn) > 1 else None,
        specialization=specialization(rows.losses, rows.weights) if several else None,
        active=active_experts(rows),
        activation=activation(rows.F, rows.y, leader) if several else None,
        margins=lead_margins(rows),
        candidates=tuple(
            CandidateWeight(
                str(model.candidates_[s]), float(model.weights_[s]), float(model.sigma_[s]), float(prices[s])
            )
            for s in np.argsort(-model.weights_)
        ),
        explained=explained_rows(model, rows),
        beside_constant=tuple(beside_constant(model)),
    )


def explained_rows(model: Any, rows: ScoredRows) -> tuple[ExplainedRow, ...]:
    """A row of low, one of middle and one of high prediction as sums of their parts; parts that are zero left out."""
    order = np.argsort(rows.forecast, kind="stable")
    some = order[np.unique(np.quantile(np.arange(len(order)), EXPLAINED, method="nearest").astype(int))]
    parts = model.explain(rows.X.iloc[some].reset_index(drop=True))
    shown = {name: values for name, values in parts.items() if np.abs(values).max() > 0.0}
    return tuple(
        ExplainedRow(
            int(rows.place[i]) + 1,
            {name: float(values[j]) for name, values in shown.items()},
            float(sum(values[j] for values in parts.values())),
        )
        for j, i in enumerate(some)
    )


def active_experts(rows: ScoredRows) -> tuple[ActiveExperts, ...]:
    """The error of the gate when every row keeps its k largest weights, scaled to sum one, for k = 1, ..., M."""
    M = len(rows.names)
    order = np.argsort(-rows.weights, axis=1, kind="stable")
    losses = []
    for k in range(1, M + 1):
        kept = np.zeros_like(rows.weights)
        np.put_along_axis(kept, order[:, :k], np.take_along_axis(rows.weights, order[:, :k], axis=1), axis=1)
        forecast = np.einsum("im,im->i", kept / kept.sum(axis=1, keepdims=True), rows.F)
        losses.append((rows.y - forecast) ** 2)
    base = float(losses[-1].mean()) or 1.0
    return tuple(
        ActiveExperts(
            k, float(np.sqrt(loss.mean())), Interval(*(end / base for end in mean_interval(loss - losses[-1])))
        )
        for k, loss in enumerate(losses, start=1)
    )


def lead_margins(rows: ScoredRows) -> LeadMargins:
    """The largest weight less the second largest at every row, and the errors at borders and elsewhere.

    With one expert every margin is 1.
    """
    ordered = -np.sort(-rows.weights, axis=1)
    margins = ordered[:, 0] - (ordered[:, 1] if ordered.shape[1] > 1 else 0.0)
    band = margins < BAND
    squares = (rows.y - rows.forecast) ** 2
    inside, outside = (float(np.sqrt(squares[part].mean())) if part.any() else np.nan for part in (band, ~band))
    return LeadMargins(margins, float(band.mean()), inside, outside)
