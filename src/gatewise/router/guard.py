"""Forecasts that cannot be meant: far outside of what held-out rows showed, and far from all other experts."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from gatewise.arrays import Booleans, Floats

FAR = 2.0  # times the largest held-out distance from the other experts: farther is far


@dataclass(frozen=True, eq=False)
class ForecastGuard:
    """Sets forecasts aside for a row, and puts the median of the other experts' forecasts in their place.

    A forecast is set aside if it lies outside of [low - width, high + width], where [low, high] is the range of the
    expert's held-out forecasts, width its length, and if its distance from the median of the other experts exceeds
    ``far``, twice the largest such distance on held-out rows. Held-out forecasts that are off the range of the
    response by more than its length do not count towards these ranges and distances, so an expert that diverges
    is set aside wherever it does.
    """

    low: Floats  # (M,)
    high: Floats  # (M,)
    far: Floats  # (M,)

    @classmethod
    def fit(cls, F: Floats, y: Floats) -> Self:
        """Learn the ranges from held-out forecasts F (n, M) and responses y (n,).

        >>> F = np.array([[0.0, 0.1, 0.2], [1.0, 1.1, 1e9], [2.0, 2.1, 2.2]])
        >>> guard = ForecastGuard.fit(F, np.array([0.0, 1.0, 2.0]))
        >>> guard.apply(F)[0][1]
        array([1.  , 1.1 , 1.05])
        """
        least, most = float(y.min()), float(y.max())
        room = most - least
        plausible = (least - room <= F) & (most + room >= F)
        inside = np.where(plausible, F, np.nan)
        known = plausible.any(axis=0)
        low, high = np.full(F.shape[1], least), np.full(F.shape[1], most)
        low[known], high[known] = np.nanmin(inside[:, known], axis=0), np.nanmax(inside[:, known], axis=0)
        width = np.where(high > low, high - low, room)
        apart = np.abs(inside - _others_median(inside))
        far = FAR * np.nanmax(np.where(np.isnan(apart), 0.0, apart), axis=0)
        return cls(low - width, high + width, far)

    @classmethod
    def open(cls, n_experts: int) -> Self:
        """A guard that lets every forecast pass."""
        wide = np.full(n_experts, np.inf)
        return cls(-wide, wide, wide)

    def doubts(self, m: int, forecasts: Floats) -> Booleans:
        """Which forecasts (n,) of expert m lie outside of its range, (n,): only these may be set aside."""
        return np.asarray((self.low[m] > forecasts) | (self.high[m] < forecasts))

    def apply(self, F: Floats) -> tuple[Floats, Booleans]:
        """Forecasts F (n, M) with those replaced that are set aside, and where that was, (n, M)."""
        aside = (self.low > F) | (self.high < F)
        rows = np.flatnonzero(aside.any(axis=1))
        if not rows.size:
            return F, aside
        part = F[rows]
        others = _others_median(np.where(aside[rows], np.nan, part))
        alone = np.isnan(others)  # no other expert is within its range: the forecast is cut to its own
        aside[rows] &= alone | (np.abs(part - others) > self.far)
        kept = np.where(alone, np.clip(part, self.low, self.high), others)
        out = F.copy()
        out[rows] = np.where(aside[rows], kept, part)
        return out, aside


def _others_median(F: Floats) -> Floats:
    """For every entry of F (n, M) the median of the row's other entries that are not NaN; NaN if there is none."""
    M = F.shape[1]
    out = np.full(F.shape, np.nan)
    for m in range(M):
        others = np.sort(np.delete(F, m, axis=1), axis=1)  # NaN comes last
        count = (~np.isnan(others)).sum(axis=1)
        rows = np.flatnonzero(count)
        below, above = (count[rows] - 1) // 2, count[rows] // 2
        out[rows, m] = 0.5 * (others[rows, below] + others[rows, above])
    return out
