"""How many experts to ask at a row: active sets of a size that depends on the input, out of a dense gate's weights.

Every rule turns weights (n, M) into a mask (n, M) of the experts that are asked. The leader is always among them, and
the weights on the active set are scaled to sum one.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from gatewise.arrays import as_count, as_non_negative, as_rows, Booleans, Floats, Indices
from gatewise.kernels import top_k


class ActivationRule(Protocol):
    """A rule that says which experts are asked at every row."""

    def active(self, weights: Floats, X: Any) -> Booleans:
        """The mask (n, M) of the experts that are asked, from a gate's weights (n, M) at rows X."""
        ...


@dataclass(frozen=True)
class FixedCount:
    """The k experts of largest weight at every row: Top-K.

    >>> FixedCount(1).active(np.array([[0.2, 0.8]]), None)
    array([[False,  True]])
    """

    k: int

    def active(self, weights: Floats, X: Any) -> Booleans:  # noqa: ARG002 - the same at every row
        return by_count(weights, np.full(len(weights), as_count(self.k, "k", high=weights.shape[1])))


@dataclass(frozen=True)
class AccumulatedWeight:
    """The fewest experts whose weights, largest first, add up to at least ``mass``.

    >>> AccumulatedWeight(0.7).active(np.array([[0.8, 0.1, 0.1], [0.4, 0.35, 0.25]]), None).sum(axis=1)
    array([1, 2])
    """

    mass: float

    def active(self, weights: Floats, X: Any) -> Booleans:  # noqa: ARG002
        ordered = np.sort(weights, axis=1)[:, ::-1]
        before = np.cumsum(ordered, axis=1) - ordered  # the mass of the experts ahead of each
        return by_count(weights, np.maximum(1, (before < self.mass - 1e-12).sum(axis=1)))


@dataclass(frozen=True)
class WithinMargin:
    """All experts whose weight is at least exp(-margin) times the leader's.

    >>> WithinMargin(np.log(2.0)).active(np.array([[0.6, 0.3, 0.1]]), None)
    array([[ True,  True, False]])
    """

    margin: float

    def active(self, weights: Floats, X: Any) -> Booleans:  # noqa: ARG002
        least = np.exp(-as_non_negative(self.margin, "margin")) * weights.max(axis=1, keepdims=True)
        mask = weights >= least * (1.0 - 1e-12)
        return np.asarray(mask) & by_count(weights, np.maximum(1, mask.sum(axis=1)))


@dataclass(frozen=True)
class CountByRegion:
    """The ``counts[r]`` experts of largest weight on region r of a map of the input space, such as a tree's leaves.

    ``regions`` has ``apply(X)``, the number of the region of every row.
    """

    regions: Any
    counts: Indices

    def active(self, weights: Floats, X: Any) -> Booleans:
        return by_count(weights, self.counts[self.regions.apply(as_rows(X))])


def by_count(weights: Floats, counts: Indices) -> Booleans:
    """The mask of the counts[i] largest weights of row i, ties to the smaller index, (n, M)."""
    order = top_k(weights, weights.shape[1])  # (n, M), largest first
    mask = np.zeros(weights.shape, dtype=np.bool_)
    np.put_along_axis(mask, order, np.arange(weights.shape[1]) < np.asarray(counts)[:, None], axis=1)
    return mask


def restricted(weights: Floats, active: Booleans) -> Floats:
    """The weights on the active set, scaled to sum one; equal ones where all active weights are 0.

    >>> restricted(np.array([[0.6, 0.2, 0.2]]), np.array([[True, True, False]]))
    array([[0.75, 0.25, 0.  ]])
    """
    kept = np.where(active, weights, 0.0)
    total = kept.sum(axis=1, keepdims=True)
    equal = active / active.sum(axis=1, keepdims=True)
    return np.where(total > 0.0, kept / np.where(total > 0.0, total, 1.0), equal)
