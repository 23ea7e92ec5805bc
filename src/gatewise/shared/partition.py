"""Partitions: which region a row belongs to, given or found."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import is_
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from gatewise.arrays import as_count, as_vector, Floats, Indices

Entry = TypeVar("Entry")
Made = TypeVar("Made")
MOST_REGIONS = 10_000


@dataclass(frozen=True)
class ThresholdSearch:
    """Regions cut by unknown thresholds in one feature, found by profile least squares over a grid.

    ``grid`` is a number of points, placed at equal steps between the 10% and the 90% quantile of the feature, or the
    points themselves. ``coordinates="moving"`` gives every routed basis its region's own local coordinate, as
    t = x / c and (x - c) / (1 - c) on [0, 1]; then every threshold is a refit, shared out over ``n_jobs`` threads.

    >>> ThresholdSearch("income", n_regions=3).n_regions
    3
    """

    feature: int | str = 0
    n_regions: int = 2
    grid: int | tuple[float, ...] = 200
    coordinates: str = "fixed"
    n_jobs: int | None = None

    def __post_init__(self) -> None:
        as_count(self.n_regions, "n_regions", low=2)
        if self.coordinates not in ("fixed", "moving"):
            raise ValueError(f"coordinates must be 'fixed' or 'moving', not {self.coordinates!r}")
        if not isinstance(self.grid, int | np.integer):
            object.__setattr__(self, "grid", tuple(map(float, self.grid)))

    def points(self, x: Floats) -> Floats:
        """The grid for a feature x (n,), increasing; an error if x is constant."""
        if np.ptp(x) == 0:
            raise ValueError(f"feature {self.feature!r} is constant ({x[0]:g}), so it has no threshold; name another")
        if isinstance(self.grid, tuple):
            return np.unique(as_vector(self.grid, "grid"))
        low, high = np.quantile(x, [0.1, 0.9])
        points = np.linspace(low, high, as_count(self.grid, "grid", low=1))
        # Where most rows share one value both quantiles meet it; the values themselves are then the grid.
        return points if low < high else np.unique(x)[:-1][:: max(1, len(np.unique(x)) // len(points))]


def threshold_labels(x: Floats, thresholds: Floats) -> Indices:
    """Region j holds thresholds[j-1] < x <= thresholds[j].

    >>> threshold_labels(np.array([0.2, 0.5, 0.7]), np.array([0.5]))
    array([0, 0, 1])
    """
    return np.searchsorted(thresholds, x, side="left").astype(np.intp)


def given_labels(partition: Any, X: Any) -> Indices:
    """The regions of a given partition: labels from a function or ``predict``, or a gate's leading expert.

    ``partition`` is a function X -> (n,) whole numbers, an object with ``gate_weights(X)`` (a mixture or a fitted
    router), a pair (gate, theta), or an object with ``predict(X)`` (a classifier).

    >>> given_labels(lambda X: X[:, 0] > 0, np.array([[-1.0], [2.0]]))
    array([0, 1])
    """
    labels = np.asarray(_ask(partition)(X))
    n = np.shape(X)[0]
    if labels.shape != (n,):
        raise ValueError(f"partition must give shape ({n},), one region per row, not {labels.shape}")
    whole = np.asarray(labels, dtype=np.intp)
    if not np.array_equal(whole, labels) or (len(whole) and whole.min() < 0):
        raise ValueError(f"partition must give whole numbers from 0 on, not {labels[:5]}")
    if len(whole) and whole.max() >= MOST_REGIONS:
        raise ValueError(
            f"partition must give regions below {MOST_REGIONS}, not {whole.max()}; number them from 0 on"
        )
    return whole


def per_region(
    make: Callable[[int, Entry], Made], entries: Sequence[Entry], same: Callable[[Entry, Entry], bool] = is_
) -> tuple[Made, ...]:
    """make(j, entry) for the entry of every region j, called once for entries that are the same.

    Regions with the same entry get one and the same result, not equal copies of it: what is made of it is then
    computed once, too.

    >>> ramp = [0.0, 1.0]
    >>> made = per_region(lambda j, entry: [*entry, j], [ramp, [5.0], ramp])
    >>> made, made[0] is made[2]
    (([0.0, 1.0, 0], [5.0, 1], [0.0, 1.0, 0]), True)
    """
    made: list[Made] = []
    for j, entry in enumerate(entries):
        first = next(i for i, other in enumerate(entries) if i == j or same(other, entry))
        made.append(make(j, entry) if first == j else made[first])
    return tuple(made)


def region_rows(labels: Indices, n_regions: int, columns: Sequence[int]) -> tuple[Indices, ...]:
    """The rows of each region; an error names a region that is empty or has fewer rows than columns."""
    if len(labels) and labels.max() >= n_regions:
        row = int(labels.argmax())
        raise ValueError(f"partition puts row {row} in region {labels[row]}, but there are only {n_regions} regions")
    rows = tuple(np.flatnonzero(labels == j) for j in range(n_regions))
    for j, (index, p) in enumerate(zip(rows, columns, strict=True)):
        if len(index) == 0:
            raise ValueError(f"region {j} is empty: no row of X falls into it; leave it out or move the partition")
        if len(index) < p:
            raise ValueError(
                f"region {j} has {len(index)} rows, fewer than the {p} columns of its routed basis; "
                "use a smaller basis or larger regions"
            )
    return rows


def _ask(partition: Any) -> Callable[[Any], ArrayLike]:
    if hasattr(partition, "gate_weights"):
        return lambda X: np.argmax(partition.gate_weights(X), axis=1)
    if isinstance(partition, tuple) and len(partition) == 2 and hasattr(partition[0], "active"):
        gate, theta = partition
        return lambda X: gate.active(X, theta)[:, 0]
    if hasattr(partition, "predict"):
        partition = partition.predict
    if callable(partition):
        asked: Callable[[Any], ArrayLike] = partition
        return asked
    raise ValueError(
        "partition must be 'threshold', a ThresholdSearch, a function X -> regions, a gate (with gate_weights, or as "
        f"a pair (gate, theta)) or a classifier, not {partition!r}"
    )
