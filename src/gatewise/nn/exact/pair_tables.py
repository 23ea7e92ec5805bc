"""A product net as two tables: the factors are parted in two, and a candidate is a pair of their combinations.

With E_m = phi(score_m) / phi(0) the residual of a candidate at row t is sum_m E_m (y - F_m) / sum_m E_m. Both sums
are sums over the experts, so each is one number of the left combination plus one of the right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import NamedTuple

import torch
from torch import Tensor

LARGEST_SCORE = 60.0  # of log phi, relative to the reference: sums of exp of more could leave the range of float32


class PairTables(NamedTuple):
    """The residual of the pair (a, b) at row t is (na[t, a] + nb[t, b]) / (da[t, a] + db[t, b])."""

    na: Tensor
    da: Tensor
    nb: Tensor
    db: Tensor

    @property
    def shape(self) -> tuple[int, int, int]:
        """(n, A, B): rows, and combinations on either side."""
        return len(self.na), self.na.shape[1], self.nb.shape[1]

    def part(self, start: int, stop: int) -> PairTables:
        """The pairs of some combinations of the left."""
        return PairTables(self.na[:, start:stop].contiguous(), self.da[:, start:stop].contiguous(), self.nb, self.db)


class Side(NamedTuple):
    """Values E of each expert of one side at its combinations, (n, combinations), by the number of the expert."""

    values: dict[int, Tensor]

    def sum_of(self, factor: Tensor) -> Tensor:
        """sum_m E_m factor[:, m], (n, combinations)."""
        total: Tensor = sum(e * factor[:, m, None] for m, e in self.values.items())  # type: ignore[assignment]
        return total


def best_cut(sizes: Sequence[int]) -> int:
    """The number of factors on the left for which the two sides have the fewest combinations.

    >>> best_cut([4, 4, 4, 4]), best_cut([100, 3, 3])
    (2, 1)
    """
    return min(range(1, len(sizes)), key=lambda cut: prod(sizes[:cut]) + prod(sizes[cut:]))


def sides(
    features: Tensor, factors: Sequence[Tensor], log_phi: Callable[[Tensor], Tensor] | None
) -> tuple[Side, Side]:
    """Both sides of the net in float64: features (n, p), factors (G_m, p); the reference, E = 1, is on the left."""
    scores = [features @ factor.T for factor in factors]
    logs = scores if log_phi is None else [log_phi(score) for score in scores]
    largest = max(float(values.max()) for values in logs)
    if not largest <= LARGEST_SCORE:
        raise ValueError(
            f"a score of the net is {largest:g}, and on a device scores up to {LARGEST_SCORE:g} are taken; rescale X "
            "or take smaller values, or leave device=None"
        )
    cut = best_cut([len(factor) for factor in factors])
    left, right = _combined(logs[:cut], 0), _combined(logs[cut:], cut)
    left[len(factors)] = torch.ones_like(next(iter(left.values())))
    return Side(left), Side(right)


def _combined(logs: Sequence[Tensor], first: int) -> dict[int, Tensor]:
    """exp of each expert's values at every combination, the last factor running fastest."""
    sizes, n = [values.shape[1] for values in logs], len(logs[0])
    out = {}
    for place, values in enumerate(logs):
        shape = [n] + [size if i == place else 1 for i, size in enumerate(sizes)]
        out[first + place] = values.exp().reshape(shape).expand(n, *sizes).reshape(n, prod(sizes))
    return out


def pair_tables(left: Side, right: Side, y: Tensor, F: Tensor, dtype: torch.dtype) -> PairTables:
    """The tables for responses y (n,) and predictions F (n, M)."""
    miss, ones = y[:, None] - F, torch.ones_like(F)
    tables = (side.sum_of(factor).to(dtype) for side in (left, right) for factor in (miss, ones))
    return PairTables(*tables)
