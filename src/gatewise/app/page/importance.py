"""Permutation importance of the columns for the gate, and the gate's weights along the important ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gatewise.app.models.tables import ColumnKind, Kind
from gatewise.arrays import Floats

SHUFFLED_ROWS = 300  # rows that importance is computed on
SHOWN = 4  # important columns that are plotted, at most
LEAST_MOVED = 0.01  # a column is important if shuffling it moves at least this fraction of the weight
STEPS = 33  # values at which a column of numbers is plotted
MAP_ROWS = 12  # rows that a map averages over, for the values of the other columns
PROFILE_ROWS = 40  # the same for a profile
LEVELS = 8  # categories at which a column of text is plotted
TAILS = (0.01, 0.99)  # the values of a column of numbers lie between these quantiles


@dataclass(frozen=True, eq=False)
class ColumnImportance:
    """The permutation importance of a column: the mean fraction of weight that shuffling it moves between experts."""

    column: ColumnKind
    weight_moved: float


@dataclass(frozen=True, eq=False)
class PlotAxis:
    """The values of a column at which a plot shows the gate: numbers in steps, or the most frequent categories."""

    name: str
    kind: Kind
    values: NDArray[Any]


@dataclass(frozen=True, eq=False)
class WeightProfile:
    """Partial dependence: mean weights (g, M) of the gate when one column is set to each of g values in all rows."""

    axis: PlotAxis
    weights: Floats


@dataclass(frozen=True, eq=False)
class RegionPlot:
    """Partial dependence on two columns: mean weights (h, g, M) at the values of ``x`` (g,) and ``y`` (h,)."""

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


def fitted_leaders(model: Any, X: Any, names: Sequence[str]) -> dict[str, float]:
    """The fraction of the rows where the fitted model gives each expert its largest weight, by name."""
    leader = model.gate_weights(X).argmax(axis=1)
    return {name: float((leader == m).mean()) for m, name in enumerate(names)}


def important_columns(found: Sequence[ColumnImportance]) -> list[ColumnImportance]:
    """The SHOWN most important columns, without those that move less than LEAST_MOVED of the weight."""
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
