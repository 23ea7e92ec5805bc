"""What the learned list sees of a row whose response is a class, and how zero probabilities are avoided."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from gatewise.arrays import Floats, Indices

LARGEST_FLOOR = 0.02  # more would blur an expert that is right in its region only
LEAST_FLOOR = 1e-6
BISECTIONS = 30
FIRST_FLOOR = 0.01  # where there is no row to learn from


@dataclass(frozen=True, eq=False)
class ClassRows:
    """The experts' probabilities (n, M, C) of every class, and the number of the class of every row, (n,).

    Rows that are predicted have no known class; ``outcome`` is then of length 0.
    """

    probabilities: Floats
    outcome: Indices

    def part(self, entries: Indices) -> "ClassRows":
        """Some of the rows."""
        return ClassRows(self.probabilities[entries], self.outcome[entries] if len(self.outcome) else self.outcome)

    def of_experts(self, distinct: Indices) -> "ClassRows":
        """The rows with some of the experts, by ascending number."""
        if len(distinct) == self.probabilities.shape[1]:
            return self
        return ClassRows(self.probabilities[:, distinct], self.outcome)

    @property
    def observed(self) -> Floats:
        """The probabilities that the experts gave to the class of the row, (n, M)."""
        return np.asarray(self.probabilities[np.arange(len(self.outcome)), :, self.outcome])

    @property
    def confidence(self) -> Floats:
        """What a gate that looks at forecasts sees, (n, M): one probability of every expert.

        Of two classes it is that of the second; of more, that of the class with the largest mean over the experts.
        """
        return confidence(self.probabilities)


def confidence(probabilities: Floats) -> Floats:
    """One probability (n, M) of every expert, from probabilities (n, M, C); see `ClassRows.confidence`.

    >>> confidence(np.array([[[0.2, 0.8], [0.4, 0.6]]]))
    array([[0.8, 0.6]])
    """
    n, _, C = probabilities.shape
    if C == 2:
        return np.asarray(probabilities[:, :, 1])
    leading = probabilities.mean(axis=1).argmax(axis=1)
    return np.asarray(probabilities[np.arange(n), :, leading])


@dataclass(frozen=True, eq=False)
class ProbabilityFloor:
    """Bounds probabilities away from 0: expert m's become (1 - floor_m) p + floor_m q, with the class frequencies q.

    ``floor`` (M,) maximises the likelihood of held-out rows and of one row more that the expert held for impossible,
    but is at most LARGEST_FLOOR. So it is above about 1 / n, and an expert that was wrong where it was certain gets a
    larger one: one wrong zero never ends it for good.
    """

    floor: Floats  # (M,)
    frequencies: Floats  # (C,)

    @classmethod
    def fit(cls, rows: ClassRows, sample_weight: Floats) -> Self:
        """Learn the floors from held-out rows.

        >>> certain = np.tile([[[1.0, 0.0]]], (100, 1, 1))
        >>> rows = ClassRows(certain, np.repeat([0, 1], [90, 10]))
        >>> ProbabilityFloor.fit(rows, np.ones(100)).floor  # 10 of 100 rows are not of the certain class
        array([0.02])
        """
        (_, M, C), total = rows.probabilities.shape, float(sample_weight.sum())
        if total == 0.0:  # as in the first of several splits in time
            return cls(np.full(M, FIRST_FLOOR), np.full(C, 1.0 / C))
        frequencies = (np.bincount(rows.outcome, sample_weight, C) + 0.5) / (total + 0.5 * C)
        p, q = rows.observed, frequencies[rows.outcome][:, None]
        low, high = np.full(M, np.log(LEAST_FLOOR)), np.full(M, np.log(LARGEST_FLOOR))
        for _ in range(BISECTIONS):
            middle = 0.5 * (low + high)
            floor = np.exp(middle)
            rising = sample_weight @ ((q - p) / ((1.0 - floor) * p + floor * q)) + 1.0 / floor > 0.0
            low, high = np.where(rising, middle, low), np.where(rising, high, middle)
        return cls(np.exp(high), frequencies)

    def apply(self, probabilities: Floats) -> Floats:
        """Probabilities (n, M, C) of all experts with their floors."""
        return np.asarray(
            (1.0 - self.floor)[:, None] * probabilities + self.floor[:, None] * self.frequencies, dtype=np.float64
        )

    def apply_one(self, m: int, probabilities: Floats) -> Floats:
        """Probabilities (n, C) of expert m with its floor."""
        return np.asarray((1.0 - self.floor[m]) * probabilities + self.floor[m] * self.frequencies)


def cross_fitted_floors(
    rows: ClassRows, sample_weight: Floats, learners: Iterable[tuple[Indices, Indices]]
) -> Floats:
    """The probabilities (N, M, C) of held-out rows, with floors that were learned from rows that were not held out.

    ``learners`` are pairs of entries, those to learn from and those to apply the floors to.
    """
    out = np.empty(rows.probabilities.shape)
    for known, here in learners:
        floor = ProbabilityFloor.fit(rows.part(known), sample_weight[known])
        out[here] = floor.apply(rows.probabilities[here])
    return out


@dataclass(frozen=True, eq=False)
class ClassOutOfFold:
    """Out-of-fold probabilities of a fit: N entries, one for each time that a row was held out.

    ``rows`` (N,) are the numbers of the rows, ``y`` (N,) their labels, ``outcome`` (N,) the numbers of these labels,
    ``experts`` (N, M, C) the experts' probabilities, ``weights`` (N, M) the gate's weights, ``probabilities`` (N, C)
    those of the model, and ``stack`` (N, C) those of the convex stack. No expert, gate or share behind an entry was
    fitted on its row.
    """

    rows: Indices
    y: NDArray[Any]
    outcome: Indices
    experts: Floats
    weights: Floats
    probabilities: Floats
    stack: Floats
