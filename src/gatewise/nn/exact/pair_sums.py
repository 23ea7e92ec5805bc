"""Sums over all pairs of two tables: by Triton's kernels in float32 on a GPU, else in plain torch."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gatewise.nn.exact import pair_blocks
from gatewise.nn.exact.pair_kernels import mean_square_kernel, mean_weight_kernel, sweep_kernel, weighted_kernel
from gatewise.nn.exact.pair_tables import PairTables
from gatewise.nn.exact.weight_law import WeightLaw
from gatewise.nn.fused.backend import INTERPRETED, triton

SLOTS = 4096  # places in which programs that run at the same time add up their sums
CHUNK = 4096  # combinations of the left whose terms are added in float32; the rest of a sum is taken in float64
SQUARES: dict[str, Any] = {"BA": 16, "BB": 64, "GROUP": 256, "num_warps": 1}  # the tiles are the fastest of those
SWEEP: dict[str, Any] = {"BA": 4, "BB": 128, "GROUP": 256, "num_warps": 1}  # tried on an H200; in one warp a sum over
MEANS: dict[str, Any] = {"BA": 32, "BB": 64, "GROUP": 256, "num_warps": 4}  # a tile needs no barrier
SUMS: dict[str, Any] = {"BQ": 32, "BB": 64, "num_warps": 4}


def mean_square(tables: PairTables) -> Tensor:
    """The mean squared residual of every pair, (A, B)."""
    if not _by_kernels(tables):
        return pair_blocks.mean_square(tables)
    n, left, right = tables.shape
    out = tables.na.new_empty(left, right)
    mean_square_kernel[_grid(tables, SQUARES)](*tables, out, n, left, right, FAST=not INTERPRETED, **SQUARES)
    return out


def sweep(tables: PairTables, law: WeightLaw, rise: Tensor) -> Tensor:
    """(2, n + 1): sums of the weights and of weights times residuals before each row; see `sweep_kernel`.

    rise (n,): what the log2 of all weights is lowered by at each row. The last sum is that of the squared weights.
    """
    if not _by_kernels(tables):
        return pair_blocks.sweep(tables, law, rise)
    n, left, right = tables.shape
    sums = torch.zeros(SLOTS, 2, n + 1, dtype=torch.float64, device=rise.device)
    sweep_kernel[_grid(tables, SWEEP)](
        *tables, law.sigma, _prior(law), rise, sums, n, left, right, SLOTS, *_numbers(law), **_kinds(law), **SWEEP
    )
    return sums.sum(dim=0)


def mean_weights(tables: PairTables, law: WeightLaw, rise: Tensor, first: float) -> Tensor:
    """The mean over the rows of the weights before them, (A, B), when the flat prior is 2^first."""
    if not _by_kernels(tables):
        return pair_blocks.mean_weights(tables, law, rise, first)
    n, left, right = tables.shape
    out = tables.na.new_empty(left, right)
    mean_weight_kernel[_grid(tables, MEANS)](
        *tables, law.sigma, _prior(law), rise, out, n, left, right, *_numbers(law), first, **_kinds(law), **MEANS
    )
    return out


def weighted(tables: PairTables, weights: Tensor, power: int = 0) -> Tensor:
    """sum_a weights[a, b] (N / D)^power at every row, (Q, B) in float64; for power 0, of weights[a, b] / D."""
    if not _by_kernels(tables):
        return pair_blocks.weighted(tables, weights, power)
    n, left, right = tables.shape
    total = torch.zeros(n, right, dtype=torch.float64, device=weights.device)
    grid = (triton.cdiv(n, SUMS["BQ"]) * triton.cdiv(right, SUMS["BB"]),)
    for start in range(0, left, CHUNK):
        part, out = slice(start, min(start + CHUNK, left)), weights.new_empty(n, right)
        na, da = (side[:, part].T.contiguous() for side in (tables.na, tables.da))
        weighted_kernel[grid](
            na, da, tables.nb, tables.db, weights[part], out, len(na), right, n, power, FAST=not INTERPRETED, **SUMS
        )
        total += out
    return total


def _by_kernels(tables: PairTables) -> bool:
    on_gpu = tables.na.is_cuda or INTERPRETED
    return triton is not None and on_gpu and tables.na.dtype == torch.float32


def _grid(tables: PairTables, tile: dict[str, Any]) -> tuple[int]:
    _, left, right = tables.shape
    return (triton.cdiv(left, tile["BA"]) * triton.cdiv(right, tile["BB"]),)


def _prior(law: WeightLaw) -> Tensor:
    return law.sigma if law.prior is None else law.prior


def _numbers(law: WeightLaw) -> tuple[float, float, float]:
    return law.scale, law.power, law.reference


def _kinds(law: WeightLaw) -> dict[str, Any]:
    return {
        "NOISE": law.noise,
        "ONE": law.sigma.numel() == 1,
        "PRIOR": law.prior is not None,
        "FAST": not INTERPRETED,
    }
