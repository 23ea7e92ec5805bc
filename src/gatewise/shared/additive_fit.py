"""From bases, rows and a partition to an additive model: thresholds, sizes, coefficients."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gatewise.arrays import Floats, Indices
from gatewise.shared.bases import columns_of, FeatureMap, ready_basis, resized
from gatewise.shared.dynamic import search_thresholds
from gatewise.shared.least_squares import AdditiveFit, AdditiveProblem, factorize, FITS
from gatewise.shared.moving import search_moving
from gatewise.shared.partition import per_region, region_rows, threshold_labels, ThresholdSearch
from gatewise.shared.profile import profile_threshold
from gatewise.shared.sieves import choose_sizes, SieveSearch, Sizes


class Maps(NamedTuple):
    """The bases of the shared and of every routed component, fitted to the rows and ready to transform."""

    shared: FeatureMap
    routed: tuple[FeatureMap, ...]

    def columns(self, X: Floats) -> tuple[Floats, tuple[Floats, ...]]:
        """Shared and routed columns on all rows; regions with one basis get one array."""
        routed = per_region(lambda j, ready: columns_of(ready, X, f"routed[{j}]"), self.routed)
        return columns_of(self.shared, X, "shared"), routed

    def problem(self, X: Floats, y: Floats, labels: Indices) -> AdditiveProblem:
        """The least-squares problem of a partition; each routed basis sees its own rows only."""
        rows = [np.flatnonzero(labels == j) for j in range(len(self.routed))]
        routed = tuple(
            columns_of(ready, X[index], f"routed[{j}]") if len(index) else np.zeros((0, 0))
            for j, (ready, index) in enumerate(zip(self.routed, rows, strict=True))
        )
        region_rows(labels, len(self.routed), [R.shape[1] for R in routed])
        return AdditiveProblem(columns_of(self.shared, X, "shared"), routed, tuple(rows), y)

    def components(self, X: Floats, labels: Indices, fit: AdditiveFit) -> Floats:
        """The shared and the routed part at every row, (n, 2)."""
        parts = np.zeros((len(X), 2))
        parts[:, 0] = columns_of(self.shared, X, "shared") @ fit.shared
        for j, (ready, a) in enumerate(zip(self.routed, fit.routed, strict=True)):
            index = np.flatnonzero(labels == j)
            if len(index):
                parts[index, 1] = columns_of(ready, X[index], f"routed[{j}]") @ a
        return parts


class Search(NamedTuple):
    """What a threshold search found; ``rss`` is the profile over ``grid`` for a single threshold, else None."""

    thresholds: Floats
    grid: Floats
    rss: Floats | None


def ready_maps(X: Floats, shared: Any, routed: Sequence[Any], names: Sequence[str] | None) -> Maps:
    """Fit every basis to all rows X (n, d); a basis that several regions use is fitted once and stays one object."""
    ready = per_region(lambda j, basis: ready_basis(basis, X, names, f"routed[{j}]"), routed)
    return Maps(ready_basis(shared, X, names, "shared"), ready)


def find_thresholds(X: Floats, y: Floats, column: int, spec: ThresholdSearch, maps: Maps, method: str) -> Search:
    """The thresholds with the least residual sum of squares, for the method that the coefficients are fitted with."""
    x = X[:, column]
    grid = spec.points(x)
    if spec.coordinates == "moving":
        return _find_moving(X, y, column, spec, maps, method)
    shared, routed = maps.columns(X)
    shared, target = _profiled(shared, y, method)
    min_rows = [R.shape[1] + 1 for R in routed]
    if spec.n_regions > 2:
        return Search(search_thresholds(x, shared, routed, target, grid, min_rows)[0], grid, None)
    profile = profile_threshold(x, shared, routed, target, grid, min_rows)
    _check_found(profile.rss, min_rows)
    return Search(np.array([profile.threshold]), grid, profile.rss)


def moved_maps(X: Floats, column: int, thresholds: Floats, maps: Maps) -> Maps:
    """The routed bases in the local coordinates of their regions; a transformer is fitted to its region's rows."""
    labels = threshold_labels(X[:, column], thresholds)
    ends: list[float | None] = [None, *thresholds.tolist(), None]
    routed = []
    for j in range(len(thresholds) + 1):
        ready: Any = maps.routed[j]
        if hasattr(ready, "on"):
            low = ready.low if ends[j] is None else ends[j]
            high = ready.high if ends[j + 1] is None else ends[j + 1]
            routed.append(ready.on(low, high, column))
        else:
            routed.append(ready_basis(ready, X[labels == j], label=f"routed[{j}]"))
    return Maps(maps.shared, tuple(routed))


def with_sizes(maps: Maps, sizes: Sizes, sieve: SieveSearch) -> Maps:
    """The bases at other sieve sizes; components without sizes to choose from stay."""
    shared = resized(maps.shared, sizes[0], "shared") if sieve.shared else maps.shared
    if not sieve.routed:
        return Maps(shared, maps.routed)
    routed = per_region(
        lambda j, entry: resized(*entry, f"routed[{j}]"),
        list(zip(maps.routed, sizes[1:], strict=True)),
        same=lambda one, other: one[0] is other[0] and one[1] == other[1],
    )
    return Maps(shared, routed)


def select_sizes(
    X: Floats, y: Floats, labels: Indices, maps: Maps, sieve: SieveSearch, method: str, ridge: tuple[float, float]
) -> Sizes:
    """The sieve sizes of all components by the criterion of ``sieve``, for a given partition."""
    rows = region_rows(labels, len(maps.routed), [1] * len(maps.routed))

    def score(sizes: Sizes) -> float:
        chosen = with_sizes(maps, sizes, sieve)
        routed = tuple(columns_of(ready, X[index]) for ready, index in zip(chosen.routed, rows, strict=True))
        problem = AdditiveProblem(columns_of(chosen.shared, X), routed, rows, y)
        return sieve.score(problem, lambda part: FITS[method](part, ridge))

    shared = sieve.shared[:1] if method == "pure" else sieve.shared  # unused there, so one size will do
    return choose_sizes(score, shared or (0,), sieve.routed or (0,), len(maps.routed))


def _profiled(shared: Floats, y: Floats, method: str) -> tuple[Floats, Floats]:
    """The shared columns (n, p) and the response (n,) that a threshold is searched with.

    Without a shared component there are no such columns. The plain two-stage rule fits the shared component before
    it looks for a threshold, so the search sees the residuals of that fit and no shared columns either.
    """
    if method == "pure":
        return shared[:, :0], y
    if method == "two-stage-plain":
        return shared[:, :0], y - shared @ factorize(shared).solve(y)
    return shared, y


def _find_moving(X: Floats, y: Floats, column: int, spec: ThresholdSearch, maps: Maps, method: str) -> Search:
    def score(thresholds: Floats) -> float:
        labels = threshold_labels(X[:, column], thresholds)
        if np.bincount(labels, minlength=len(thresholds) + 1).min() < 2:
            return np.inf
        moved = moved_maps(X, column, thresholds, maps)
        try:
            problem = moved.problem(X, y, labels)
        except ValueError:  # a region with fewer rows than columns is not allowed
            return np.inf
        return FITS[method](problem).rss

    grid = spec.points(X[:, column])
    thresholds, best, profile = search_moving(score, grid, spec.n_regions - 1, spec.n_jobs)
    _check_found(np.array([best]), ["columns + 1"] * spec.n_regions)
    return Search(thresholds, grid, profile if spec.n_regions == 2 else None)


def _check_found(rss: Floats, min_rows: Sequence[Any]) -> None:
    if not np.isfinite(rss).any():
        wanted = " and ".join(map(str, min_rows))
        raise ValueError(
            f"no threshold on the grid leaves regions with {wanted} rows or more, as many as their bases need; "
            "use smaller bases, another feature or another grid"
        )
