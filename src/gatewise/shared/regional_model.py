"""A shared component plus one component per region, fitted: bases by least squares, or regressors by backfitting."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gatewise.arrays import Floats, Indices
from gatewise.shared.additive_fit import (
    find_thresholds,
    Maps,
    moved_maps,
    ready_maps,
    Search,
    select_sizes,
    with_sizes,
)
from gatewise.shared.backfitting import backfit, Backfitting, Convergence
from gatewise.shared.bases import column_index, ConstantBasis, PolynomialBasis
from gatewise.shared.least_squares import AdditiveFit, FITS
from gatewise.shared.partition import given_labels, threshold_labels, ThresholdSearch
from gatewise.shared.sieves import choose_ridge, SieveSearch, Sizes


class RegionalData(NamedTuple):
    """What a model is fitted to: X as it was handed in, its numbers (n, d), responses (n,) and names of columns."""

    X: Any
    rows: Floats
    y: Floats
    names: Sequence[str] | None


class RegionalSpec(NamedTuple):
    """What a user asked for: the two components and the partition. ``routed`` is one entry, or one per region."""

    shared: Any
    routed: Any
    partition: Any


@dataclass(frozen=True, eq=False)
class Regions:
    """The regions of a fitted model: those of a given partition, or thresholds found in one column.

    ``found`` is None for a given partition; otherwise ``column`` is the number of the column that was cut.
    """

    partition: Any
    n_regions: int
    column: int = 0
    found: Search | None = None

    def labels(self, X: Any, rows: Floats) -> Indices:
        """The region of every row, (n,), for X as it was handed in and its numbers (n, d)."""
        if self.found is not None:
            return threshold_labels(rows[:, self.column], self.found.thresholds)
        labels = given_labels(self.partition, X if hasattr(X, "columns") else rows)
        if len(labels) and labels.max() >= self.n_regions:
            row = int(labels.argmax())
            raise ValueError(
                f"partition puts row {row} in region {labels[row]}, but fit saw {self.n_regions} regions"
            )
        return labels


@dataclass(frozen=True, eq=False)
class BasisModel:
    """Bases with least-squares coefficients. ``sizes`` are those that a sieve search chose, None without one."""

    regions: Regions
    maps: Maps
    fit: AdditiveFit
    ridge: tuple[float, float]
    sizes: Sizes | None

    def components(self, X: Any, rows: Floats) -> Floats:
        """The shared and the routed part at every row, (n, 2)."""
        return self.maps.components(rows, self.regions.labels(X, rows), self.fit)


@dataclass(frozen=True, eq=False)
class LearnerModel:
    """Regressors fitted by backfitting, a shared one and one per region."""

    regions: Regions
    shared: Any
    routed: tuple[Any, ...]
    convergence: Convergence

    def components(self, X: Any, rows: Floats) -> Floats:
        """The shared and the routed part at every row, (n, 2)."""
        labels = self.regions.labels(X, rows)
        parts = np.zeros((len(rows), 2))
        parts[:, 0] = self.shared.predict(rows)
        for j, learner in enumerate(self.routed):
            if (labels == j).any():
                parts[labels == j, 1] = learner.predict(rows[labels == j])
        return parts


def fit_bases(
    data: RegionalData, spec: RegionalSpec, method: str, ridge: tuple[float, float], sieve: SieveSearch | None
) -> BasisModel:
    """Find the partition if it is unknown, choose sizes if there is a sieve, and fit the coefficients.

    With a sieve an unknown partition is found twice: with the bases as given, to choose the sizes there, and again
    with the bases of these sizes.
    """
    shared = PolynomialBasis(1, intercept=False) if spec.shared is None else spec.shared
    given = ready_maps(data.rows, shared, _entry_per_region(data, spec, default=ConstantBasis()), data.names)
    regions, maps = _with_regions(data, spec.partition, given, method)
    sizes = None
    if sieve is not None:
        labels = regions.labels(data.X, data.rows)
        sizes = select_sizes(data.rows, data.y, labels, maps, sieve, method, ridge)
        regions, maps = _with_regions(data, spec.partition, with_sizes(given, sizes, sieve), method)
    problem = maps.problem(data.rows, data.y, regions.labels(data.X, data.rows))
    if sieve is not None:
        ridge = choose_ridge(problem, FITS[method], sieve, ridge)
    return BasisModel(regions, maps, FITS[method](problem, ridge), ridge, sizes)


def fit_learners(data: RegionalData, spec: RegionalSpec, backfitting: Backfitting) -> LearnerModel:
    """Fit regressors, a shared one and one for each region of a given partition, in turns."""
    if isinstance(spec.partition, ThresholdSearch):
        raise ValueError(
            "method 'backfit' needs a given partition; find a threshold with bases first and pass its `regions`"
        )
    routed = _entry_per_region(data, spec, default=None)
    for name, learner in [("shared", spec.shared), *((f"routed[{j}]", m) for j, m in enumerate(routed))]:
        if not (hasattr(learner, "fit") and hasattr(learner, "predict")):
            raise TypeError(f"{name} must be a regressor with fit and predict under 'backfit', not {learner!r}")
    regions = Regions(spec.partition, len(routed))
    labels = regions.labels(data.X, data.rows)
    shared, learners, convergence = backfit(data.rows, data.y, labels, spec.shared, routed, backfitting)
    return LearnerModel(regions, shared, learners, convergence)


def _with_regions(data: RegionalData, partition: Any, maps: Maps, method: str) -> tuple[Regions, Maps]:
    """The regions, searched for if they are unknown, and the bases in the coordinates of their regions."""
    if not isinstance(partition, ThresholdSearch):
        return Regions(partition, len(maps.routed)), maps
    column = column_index(partition.feature, data.rows.shape[1], data.names)
    found = find_thresholds(data.rows, data.y, column, partition, maps, method)
    if partition.coordinates == "moving":
        maps = moved_maps(data.rows, column, found.thresholds, maps)
    return Regions(partition, len(maps.routed), column, found), maps


def _entry_per_region(data: RegionalData, spec: RegionalSpec, default: Any) -> list[Any]:
    """One entry of ``routed`` per region; ``default`` where none was given."""
    listed = isinstance(spec.routed, list | tuple)
    if isinstance(spec.partition, ThresholdSearch):
        n_regions = spec.partition.n_regions
    elif listed:
        n_regions = len(spec.routed)
    else:
        n_regions = int(given_labels(spec.partition, data.X if hasattr(data.X, "columns") else data.rows).max()) + 1
    if listed and len(spec.routed) != n_regions:
        raise ValueError(f"routed must hold one basis for each of {n_regions} regions, not {len(spec.routed)}")
    return list(spec.routed) if listed else [default if spec.routed is None else spec.routed] * n_regions
