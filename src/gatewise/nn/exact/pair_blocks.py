"""What `pair_kernels` computes, in plain torch and block by block: for CPUs, and where there is no Triton."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from gatewise.nn.exact.pair_tables import PairTables
from gatewise.nn.exact.weight_law import WeightLaw

NUMBERS = 2**24  # residuals held at a time


def residuals(tables: PairTables) -> Iterator[tuple[slice, Tensor]]:
    """Blocks (combinations of the left, residuals (n, a, B))."""
    n, left, right = tables.shape
    step = max(1, NUMBERS // (n * right))
    for start in range(0, left, step):
        part = slice(start, min(start + step, left))
        top = tables.na[:, part, None] + tables.nb[:, None]
        yield part, top / (tables.da[:, part, None] + tables.db[:, None])


def mean_square(tables: PairTables) -> Tensor:
    """The mean squared residual of every pair, (A, B)."""
    return torch.cat([r.square().mean(dim=0) for _, r in residuals(tables)])


def sweep(tables: PairTables, law: WeightLaw, rise: Tensor) -> Tensor:
    """(2, n + 1): sums of the weights and of weights times residuals before each row; see `sweep_kernel`."""
    n = len(tables.na)
    sums = torch.zeros(2, n + 1, dtype=torch.float64, device=rise.device)
    for part, r in residuals(tables):
        w = torch.exp2(_levels(r, law, part, rise, 0.0))
        sums[0] += w.sum(dim=(1, 2), dtype=torch.float64)
        sums[1, :n] += (w[:n] * r).sum(dim=(1, 2), dtype=torch.float64)
        sums[1, n] += w[n].square().sum(dtype=torch.float64)
    return sums


def mean_weights(tables: PairTables, law: WeightLaw, rise: Tensor, first: float) -> Tensor:
    """The mean over the rows of the weights before them, (A, B)."""
    blocks = residuals(tables)
    return torch.cat([torch.exp2(_levels(r, law, part, rise, first)[:-1]).mean(dim=0) for part, r in blocks])


def weighted(tables: PairTables, weights: Tensor, power: int) -> Tensor:
    """sum_a weights[a, b] (N / D)^power at every row, (Q, B); for power 0, of weights[a, b] / D."""
    total = torch.zeros(tables.nb.shape, dtype=torch.float64, device=weights.device)
    n, left, right = tables.shape
    step = max(1, NUMBERS // (n * right))
    for start in range(0, left, step):
        part = slice(start, min(start + step, left))
        inverse = 1.0 / (tables.da[:, part, None] + tables.db[:, None])
        value = ((tables.na[:, part, None] + tables.nb[:, None]) * inverse) ** power if power else inverse
        total += torch.einsum("ab,qab->qb", weights[part], value)
    return total


def _levels(r: Tensor, law: WeightLaw, part: slice, rise: Tensor, first: float) -> Tensor:
    """log2 of the weights before each row and after the last, (n + 1, a, B)."""
    sigma = law.sigma if law.sigma.numel() == 1 else law.sigma[part]
    steps = torch.log2(law.reference / sigma) - law.shape(r * (law.scale / sigma)) - rise[:, None, None]
    start = torch.full_like(r[:1], first) if law.prior is None else first + law.prior[None, part]
    return torch.cat([start, start + steps.cumsum(dim=0)])
