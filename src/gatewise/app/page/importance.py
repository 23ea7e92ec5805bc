"""Permutation importance of the columns for the gate, and the gate's weights along the important ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gatewise.app.models.tables import ColumnKind, Kind
from gatewise.arrays import Floats

SHUFFLED_ROWS = 300  # that importance is computed on
SHOWN = 4  # important columns, at most
LEAST_MOVED = 0.01  # the share of weight that an important column moves
STEPS = 33  # values of a column of numbers
MAP_ROWS = 12  # that the map's other columns are taken from
PROFILE_ROWS = 40  # the same for a profile
LEVELS = 8  # categories of a column of text
TAILS = (0.01, 0.99)  # quantiles that the values of a column of numbers lie between


@dataclass(frozen=True, eq=False)
class ColumnImportance:
    """The permutation importance of a column: the mean share of weight that shuffling it moves between experts."""

    column: ColumnKind
    weight_moved: float


@dataclass(frozen=True, eq=False)
class PlotAxis:
    """Values of a column to look at: numbers in steps, or the most frequent categories."""

    name: str
    kind: Kind
    values: NDArray[Any]


@dataclass(frozen=True, eq=False)
class WeightProfile:
    """Mean weights (g, M) of the gate at the values (g,) of one column, over rows that keep their other columns."""

    axis: PlotAxis
    weights: Floats


@dataclass(frozen=True, eq=False)
class RegionPlot:
    """Mean weights (h, g, M) over the values of two columns, ``x`` (g,) and ``y`` (h,)."""

    x: PlotAxis
    y: PlotAxis
    weights: Floats


def column_importance(model: Any, X: Any, columns: Sequence[ColumnKind], seed: int = 0) -> list[ColumnImportance]:
    """The permutation importance of all columns for a model's gate, the most important first.

    The values of one column are shuffled over the rows. Its importance is the mean over the rows of the total
    variation distance 1/2 sum_m |g_m(x) - g_m(shuffled x)| between the gate's weights before and after.
    """
    rng = np.random.default_rng(seed)
    rows = X.iloc[np.sort(rng.permutation(len(X))[:SHUFFLED_ROWS])].reset_index(drop=True)
    before = model.gate_weights(rows)
    order = rng.permutation(len(rows))
    found = []
    for column in columns:
        shuffled = rows.assign(**{column.name: rows[column.name].to_numpy()[order]})
        moved = 0.5 * np.abs(model.gate_weights(shuffled) - before).sum(axis=1).mean()
        found.append(ColumnImportance(column, float(moved)))
    return sorted(found, key=lambda one: -one.weight_moved)


def important_columns(found: Sequence[ColumnImportance]) -> list[ColumnImportance]:
    """The first few of the columns in the order of importance, as far as they move the weights at all."""
    return [one for one in found[:SHOWN] if one.weight_moved >= LEAST_MOVED]


def axis(X: Any, column: ColumnKind, steps: int = STEPS) -> PlotAxis:
    """Values of a column for a plot: steps between two quantiles, or the most frequent categories."""
    values = X[column.name].dropna()
    if column.kind == "text":
        return PlotAxis(column.name, "text", values.value_counts().index[:LEVELS].to_numpy(dtype=object))
    low, high = np.quantile(values, TAILS)
    seen = np.unique(values)
    few = seen[(seen >= low) & (seen <= high)]
    return PlotAxis(column.name, column.kind, few if len(few) <= steps else np.linspace(low, high, steps))


def profile(model: Any, X: Any, column: ColumnKind, seed: int = 0) -> WeightProfile:
    """The gate's mean weights along one column (partial dependence)."""
    along = axis(X, column)
    rows = _background(X, PROFILE_ROWS, seed)
    return WeightProfile(along, _mean_weights(model, rows, {along.name: along.values}))


def region_plot(model: Any, X: Any, first: ColumnKind, second: ColumnKind, seed: int = 0) -> RegionPlot:
    """The gate's mean weights over the values of two columns (partial dependence)."""
    x, y = axis(X, first), axis(X, second)
    grid_y, grid_x = np.meshgrid(np.arange(len(y.values)), np.arange(len(x.values)), indexing="ij")
    values = {x.name: x.values[grid_x.ravel()], y.name: y.values[grid_y.ravel()]}
    weights = _mean_weights(model, _background(X, MAP_ROWS, seed), values)
    return RegionPlot(x, y, weights.reshape(len(y.values), len(x.values), -1))


def _background(X: Any, count: int, seed: int) -> Any:
    return X.iloc[np.random.default_rng(seed).permutation(len(X))[:count]].reset_index(drop=True)


def _mean_weights(model: Any, rows: Any, values: dict[str, NDArray[Any]]) -> Floats:
    """The gate's weights with these columns set to each of g values, averaged over the rows, (g, M)."""
    g = len(next(iter(values.values())))
    many = rows.loc[np.repeat(np.arange(len(rows)), g)].reset_index(drop=True)
    many = many.assign(**{name: np.tile(column, len(rows)) for name, column in values.items()})
    weights = model.gate_weights(many)
    return np.asarray(weights.reshape(len(rows), g, -1).mean(axis=0))
