"""Which columns the gate listens to, and what it does along them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gatewise.app.tables import ColumnKind, Kind
from gatewise.arrays import Floats

SAMPLE = 300  # rows that a column is shuffled over
SHOWN = 4  # columns, at most
WORTH = 0.01  # of the weight that a shuffled column must move
STEPS = 33
BACKGROUND = 12  # rows that the others' values of a map are taken from
ALONG = 40  # the same for a profile
LEVELS = 8
TAILS = (0.01, 0.99)


@dataclass(frozen=True, eq=False)
class Telling:
    """A column and the share of weight that moves between experts when its values are shuffled over the rows."""

    column: ColumnKind
    moves: float


@dataclass(frozen=True, eq=False)
class Axis:
    """Values of a column to look at: numbers in steps, or the most frequent categories."""

    name: str
    kind: Kind
    values: NDArray[Any]


@dataclass(frozen=True, eq=False)
class Profile:
    """Mean weights (g, M) of the gate at the values (g,) of one column, over rows that keep their other columns."""

    axis: Axis
    weights: Floats


@dataclass(frozen=True, eq=False)
class RegionPlot:
    """Mean weights (h, g, M) over the values of two columns, ``x`` (g,) and ``y`` (h,)."""

    x: Axis
    y: Axis
    weights: Floats


def telling_columns(model: Any, X: Any, columns: Sequence[ColumnKind], seed: int = 0) -> list[Telling]:
    """All columns, the most telling first: the mean total variation between the gate before and after shuffling."""
    rng = np.random.default_rng(seed)
    rows = X.iloc[np.sort(rng.permutation(len(X))[:SAMPLE])].reset_index(drop=True)
    before = model.gate_weights(rows)
    order = rng.permutation(len(rows))
    found = []
    for column in columns:
        shuffled = rows.assign(**{column.name: rows[column.name].to_numpy()[order]})
        moves = 0.5 * np.abs(model.gate_weights(shuffled) - before).sum(axis=1).mean()
        found.append(Telling(column, float(moves)))
    return sorted(found, key=lambda one: -one.moves)


def shown(found: Sequence[Telling]) -> list[Telling]:
    """Those worth a plot."""
    return [one for one in found[:SHOWN] if one.moves >= WORTH]


def axis(X: Any, column: ColumnKind, steps: int = STEPS) -> Axis:
    """The range of a column between its tails, or its most frequent categories."""
    values = X[column.name].dropna()
    if column.kind == "text":
        return Axis(column.name, "text", values.value_counts().index[:LEVELS].to_numpy(dtype=object))
    low, high = np.quantile(values, TAILS)
    seen = np.unique(values)
    few = seen[(seen >= low) & (seen <= high)]
    return Axis(column.name, column.kind, few if len(few) <= steps else np.linspace(low, high, steps))


def profile(model: Any, X: Any, column: ColumnKind, seed: int = 0) -> Profile:
    """The gate along one column."""
    along = axis(X, column)
    rows = _background(X, ALONG, seed)
    return Profile(along, _mean_weights(model, rows, {along.name: along.values}))


def region_plot(model: Any, X: Any, first: ColumnKind, second: ColumnKind, seed: int = 0) -> RegionPlot:
    """The gate over two columns."""
    x, y = axis(X, first), axis(X, second)
    grid_y, grid_x = np.meshgrid(np.arange(len(y.values)), np.arange(len(x.values)), indexing="ij")
    values = {x.name: x.values[grid_x.ravel()], y.name: y.values[grid_y.ravel()]}
    weights = _mean_weights(model, _background(X, BACKGROUND, seed), values)
    return RegionPlot(x, y, weights.reshape(len(y.values), len(x.values), -1))


def _background(X: Any, count: int, seed: int) -> Any:
    return X.iloc[np.random.default_rng(seed).permutation(len(X))[:count]].reset_index(drop=True)


def _mean_weights(model: Any, rows: Any, values: dict[str, NDArray[Any]]) -> Floats:
    """The mean over the rows with these columns set to each of g values in turn, (g, M)."""
    g = len(next(iter(values.values())))
    many = rows.loc[np.repeat(np.arange(len(rows)), g)].reset_index(drop=True)
    many = many.assign(**{name: np.tile(column, len(rows)) for name, column in values.items()})
    weights = model.gate_weights(many)
    return np.asarray(weights.reshape(len(rows), g, -1).mean(axis=0))
