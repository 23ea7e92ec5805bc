"""The findings about a fitted classifier: every number that its page shows."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from gatewise.app.models.class_method_scores import ClassMethodScore, compare_classes
from gatewise.app.models.fitting import best_single
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
from gatewise.app.page.scored_classes import score_classes, ScoredClasses
from gatewise.arrays import Floats
from gatewise.geometry import Interval, mean_interval
from gatewise.geometry.two_sample import positive_p_value
from gatewise.router.class_scores import reliability, ReliabilityBin
from gatewise.router.facts import beside_constant, plain_values
from gatewise.router.verdict import ALPHA, RegionTable, Verdict
from gatewise.stats import adjusted_p_values

MOST_DIAGRAMS = 6  # classes that have a reliability diagram of their own: the most frequent
LEAST_IN_CLASS = 20  # rows of a class that has one
TOP = "the most probable class"


@dataclass(frozen=True)
class ClassRegion:
    """The rows of one class: the expert of least mean log loss there, and by how much the next one's is larger.

    ``p_value`` is that of Student's two-sided test of no difference to the next one, as either may come out best,
    adjusted for the number of classes (`adjusted_p_values`).
    """

    label: str
    count: int
    expert: str
    loss: Interval
    runner_up: str
    advantage: Interval
    p_value: float
    model_loss: Interval
    recall: float

    @property
    def shown(self) -> bool:
        """Whether the expert is better than the next one beyond what chance gives among all classes."""
        return self.p_value <= ALPHA


@dataclass(frozen=True, eq=False)
class ClassFindings:
    """Every number that the page of a classifier shows; the classes of the fields describe them."""

    target: str
    rows: ScoredClasses
    verdict: Verdict
    facts: Mapping[str, Any]
    scores: tuple[ClassMethodScore, ...]
    best_single: str
    regions: RegionTable
    error_regions: RegionTable
    leaders: Mapping[str, float]
    by_class: tuple[ClassRegion, ...]
    diagrams: Mapping[str, Sequence[ReliabilityBin]]
    importance: tuple[ColumnImportance, ...]
    profiles: tuple[WeightProfile, ...]
    map: RegionPlot | None
    floors: Mapping[str, float]
    beside_constant: tuple[str, ...] = ()

    def record(self) -> dict[str, Any]:
        """The figures of the page as plain values, without the rows."""
        plain: dict[str, Any] = plain_values(
            {
                "target": self.target,
                "n_rows": len(self.rows.y),
                "left_out": list(self.rows.left_out),
                "classes": list(self.rows.classes),
                "verdict": asdict(self.verdict),
                "scores": [one.record() for one in self.scores],
                "best_single": self.best_single,
                "regions": [asdict(row) for row in self.regions],
                "error_regions": [asdict(row) for row in self.error_regions],
                "fitted_leaders": dict(self.leaders),
                "by_class": [asdict(row) for row in self.by_class],
                "reliability": {name: [asdict(one) for one in bins] for name, bins in self.diagrams.items()},
                "importance": [
                    {"column": one.column.name, "weight_moved": one.weight_moved} for one in self.importance
                ],
                "floors": dict(self.floors),
            }
        )
        return plain


def find_classes(saved: SavedModel, frame: Any) -> ClassFindings:
    """All findings about a saved classifier on the rows of a data frame that has the target's column."""
    model, rows = saved.model, score_classes(saved, frame)
    columns = column_importance(model, rows.X, saved.columns) if len(rows.names) > 1 else []
    drawn = [one.column for one in important_columns(columns)]
    return ClassFindings(
        target=saved.target,
        rows=rows,
        verdict=model.verdict_,
        facts=saved.facts,
        scores=compare_classes(
            rows.y, rows.probabilities, rows.stack, rows.experts, rows.names, model.verdict_.widened
        ),
        best_single=best_single(model),
        regions=model.region_table(),
        error_regions=model.region_table("errors"),
        leaders=fitted_leaders(model, rows.X, rows.names),
        by_class=class_regions(rows),
        diagrams=diagrams(rows),
        importance=tuple(columns),
        profiles=tuple(profile(model, rows.X, column) for column in drawn),
        map=region_plot(model, rows.X, drawn[0], drawn[1]) if len(drawn) > 1 else None,
        floors={name: float(floor) for name, floor in zip(rows.names, model.floor_, strict=True)},
        beside_constant=tuple(beside_constant(model)),
    )


def diagrams(rows: ScoredClasses) -> dict[str, list[ReliabilityBin]]:
    """Reliability diagrams by name: of the most probable class, and of every frequent class.

    Of two classes the diagram of the second says all, as the first one's is its mirror image.
    """
    top = rows.probabilities.argmax(axis=1)
    found = {TOP: reliability(rows.probabilities.max(axis=1), (top == rows.y).astype(float))}
    counts = np.bincount(rows.y, minlength=len(rows.classes))
    asked = [1] if len(counts) == 2 else np.argsort(-counts, kind="stable")[:MOST_DIAGRAMS].tolist()
    for c in asked:
        if counts[c] >= LEAST_IN_CLASS:
            found[rows.classes[c]] = reliability(rows.probabilities[:, c], (rows.y == c).astype(float))
    return found


def _of_losses(losses: Floats) -> Interval:
    """The interval of a mean of log losses, which is not below 0."""
    value, low, high = mean_interval(losses)
    return Interval(value, max(low, 0.0) if np.isfinite(low) else low, high)


def class_regions(rows: ScoredClasses) -> tuple[ClassRegion, ...]:
    """For every class that has rows: which expert gives it the largest probability, as mean log loss."""
    losses, found = rows.losses, []
    ours = -np.log(np.maximum(rows.probabilities[np.arange(len(rows.y)), rows.y], np.finfo(float).tiny))
    right = rows.probabilities.argmax(axis=1) == rows.y
    for c, label in enumerate(rows.classes):
        here = np.flatnonzero(rows.y == c)
        if not len(here):
            continue
        order = np.argsort(losses[here].mean(axis=0), kind="stable")
        best, second = int(order[0]), int(order[min(1, len(order) - 1)])
        ahead = losses[here, second] - losses[here, best]
        found.append(
            ClassRegion(
                label=label,
                count=len(here),
                expert=rows.names[best],
                loss=_of_losses(losses[here, best]),
                runner_up=rows.names[second],
                advantage=mean_interval(ahead),
                p_value=min(1.0, 2.0 * positive_p_value(ahead)) if len(here) > 1 else 1.0,
                model_loss=_of_losses(ours[here]),
                recall=float(right[here].mean()),
            )
        )
    adjusted = adjusted_p_values([row.p_value for row in found])
    return tuple(replace(row, p_value=float(p)) for row, p in zip(found, adjusted, strict=True))
