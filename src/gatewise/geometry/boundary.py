"""Borders of a partition that is given as a function: distance to them, shrunken regions.

Borders are relative to the input space: its own rim is none, as in the proof of `exa:linear-quadratic-l1-l2`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial import KDTree

from gatewise.arrays import as_count, as_rows, as_vector, Booleans, Floats, Indices
from gatewise.geometry.checked_inputs import as_labels
from gatewise.geometry.regions import RegionMap

# How far random directions lie from the one to the nearest border point so far: at first anywhere, then ever nearer.
WIDTHS = tuple(3.0 * 0.6**i for i in range(15))


@dataclass(frozen=True)
class Domain:
    """A convex input space: the box from low to high, or the convex part of it where ``inside`` holds.

    >>> disk = Domain((-1.0, -1.0), (1.0, 1.0), inside=lambda X: (X**2).sum(axis=1) <= 1.0)
    >>> disk.sample(1000, np.random.default_rng(0)).shape
    (1000, 2)
    """

    low: tuple[float, ...]
    high: tuple[float, ...]
    inside: Callable[[Floats], Any] | None = None

    def __post_init__(self) -> None:
        low, high = as_vector(self.low, "low"), as_vector(self.high, "high")
        if low.shape != high.shape or not (low < high).all():
            raise ValueError(f"low must be below high in every coordinate, not {self.low} and {self.high}")
        object.__setattr__(self, "low", tuple(low.tolist()))
        object.__setattr__(self, "high", tuple(high.tolist()))

    def contains(self, X: Floats) -> Booleans:
        """Whether each row lies in the domain, (n,)."""
        within = np.asarray(((self.low <= X) & (self.high >= X)).all(axis=1))
        if self.inside is not None:
            within[within] = np.asarray(self.inside(X[within]), dtype=np.bool_)
        return within

    def sample(self, n: int, rng: np.random.Generator) -> Floats:
        """n rows from the uniform distribution, (n, d)."""
        kept: list[Floats] = []
        drawn = 0
        while sum(map(len, kept)) < n:
            rows = rng.uniform(self.low, self.high, size=(max(n, 1000), len(self.low)))
            drawn += len(rows)
            kept.append(rows[self.contains(rows)])
            if drawn > 10**4 * (sum(map(len, kept)) + 1):
                raise ValueError("inside must hold on at least a ten-thousandth of the box; give a tighter box")
        return np.concatenate(kept)[:n]

    def volume(self, rng: np.random.Generator, n: int = 200_000) -> float:
        """The Lebesgue measure; exact for a box, else by counting n draws."""
        box = float(np.prod(np.subtract(self.high, self.low)))
        if self.inside is None:
            return box
        return box * float(self.contains(rng.uniform(self.low, self.high, size=(n, len(self.low)))).mean())


def unit_cube(d: int) -> Domain:
    """[0, 1]^d, the input space of `def:boundary-regularity-main`."""
    return Domain((0.0,) * as_count(d, "d"), (1.0,) * d)


def boundary_distance(
    regions: RegionMap,
    X: Any,
    domain: Domain | None = None,
    *,
    n_reference: int = 20_000,
    seed: int | np.random.Generator = 0,
) -> Floats:
    """dist(x, border of the region of x) at every row, (n,); infinite where no other region was found.

    In a convex domain that is the distance to the rest of the domain. The nearest of ``n_reference`` random points
    of another region gives a first border point by bisection; directions around it are then tried for a nearer one.
    So the figure is never too small, and too large only as far as the search fell short. A region thinner than
    the reference points' spacing may be missed. ``domain`` is the unit cube unless given.

    >>> halves = lambda X: (X[:, 0] > 0.5).astype(int)
    >>> boundary_distance(halves, [[0.1, 0.4], [0.75, 0.9]]).round(3)
    array([0.4 , 0.25])
    """
    rows, rng = as_rows(X), np.random.default_rng(seed)
    domain = unit_cube(rows.shape[1]) if domain is None else domain
    if rows.shape[1] != len(domain.low) or not domain.contains(rows).all():
        raise ValueError(f"X must lie in the domain from {domain.low} to {domain.high}")
    reference = domain.sample(as_count(n_reference, "n_reference"), rng)
    labels, others = _labels(regions, rows), _labels(regions, reference)
    target = np.full(rows.shape, np.nan)
    for label in np.unique(labels):
        here, outside = labels == label, reference[others != label]
        if len(outside):
            target[here] = outside[KDTree(outside).query(rows[here])[1]]
    distance = np.full(len(rows), np.inf)
    found = ~np.isnan(target[:, 0])
    if found.any():
        distance[found] = _refined(regions, labels[found], rows[found], target[found], domain, rng)
    return distance


def shrunken(distance: ArrayLike, rho: float) -> Booleans:
    """Whether dist(x, border) >= rho at every row, (n,): x is in the shrunken region (`eq:shrunken-region`).

    >>> shrunken([0.1, 0.3], rho=0.2)
    array([False,  True])
    """
    if not rho >= 0:
        raise ValueError(f"rho must be 0 or above, not {rho!r}")
    return np.asarray(np.asarray(distance, dtype=np.float64) >= rho)


def _labels(regions: RegionMap, rows: Floats) -> Indices:
    return as_labels(regions(rows), "what regions(X) returns", len(rows))


def _refined(
    regions: RegionMap, labels: Indices, rows: Floats, target: Floats, domain: Domain, rng: np.random.Generator
) -> Floats:
    """The distance to the nearest border point that a search around the first one finds."""
    d = rows.shape[1]
    target, distance = _bisect(regions, labels, rows, target)
    for width in WIDTHS:
        for _ in range(4 * d):
            toward = (target - rows) / np.maximum(distance, 1e-300)[:, None]
            toward += width * rng.normal(size=rows.shape) / np.sqrt(d)
            length = np.maximum(np.linalg.norm(toward, axis=1), 1e-300)
            probe = rows + (distance / length)[:, None] * toward
            hit = domain.contains(probe)
            hit[hit] = _labels(regions, probe[hit]) != labels[hit]
            if hit.any():
                target[hit], distance[hit] = _bisect(regions, labels[hit], rows[hit], probe[hit])
    return distance


def _bisect(
    regions: RegionMap, labels: Indices, rows: Floats, target: Floats, n_steps: int = 24
) -> tuple[Floats, Floats]:
    """The change of label that bisection finds between each row and its target, and how far away it is."""
    low, high = np.zeros(len(rows)), np.ones(len(rows))
    for _ in range(n_steps):
        middle = (low + high) / 2
        changed = _labels(regions, rows + middle[:, None] * (target - rows)) != labels
        high, low = np.where(changed, middle, high), np.where(changed, low, middle)
    border = rows + high[:, None] * (target - rows)
    return border, np.linalg.norm(border - rows, axis=1)
