"""Which row of the padded, sorted buffer belongs to which assignment: the plan that all kernels share."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

BLOCK = 128  # rows of a tile; every expert's rows start at a multiple of it


class Plan(NamedTuple):
    """The assignments (t, k) sorted by expert, each expert's rows padded to whole tiles of `BLOCK` rows.

    ``rows`` (R,) is the assignment t * K + k of a row, -1 for padding; ``positions`` (T, K) its inverse, -1 for a
    dropped assignment; ``starts`` (M,) and ``counts`` (M,) an expert's first row and number of assignments;
    ``experts`` (R / BLOCK,) the expert of a tile; ``tiles`` (1,) the number of tiles in use. All int32. R depends on
    the shapes alone, so nothing waits for the device.
    """

    rows: Tensor
    positions: Tensor
    starts: Tensor
    counts: Tensor
    experts: Tensor
    tiles: Tensor


def capacity(assignments: int, n_experts: int) -> int:
    """Rows that suffice whatever the routing: every expert wastes less than one tile.

    >>> capacity(1000, 8)
    1920
    """
    return (assignments // BLOCK + min(assignments, n_experts)) * BLOCK


def sorted_plan(indices: Tensor, n_experts: int) -> Plan:
    """The plan by torch's stable sort: indices (T, K); an index outside 0..M-1 drops its assignment.

    >>> plan = sorted_plan(torch.tensor([[1, 0], [1, -1]]), 2)
    >>> plan.positions.tolist(), plan.counts.tolist(), plan.starts.tolist(), plan.tiles.item()
    ([[128, 0], [129, -1]], [1, 2], [0, 128], 2)
    """
    labels = torch.where((indices < 0) | (indices > n_experts), n_experts, indices).flatten()
    experts, order = torch.sort(labels, stable=True)
    counts = torch.zeros(n_experts + 1, dtype=torch.int64, device=labels.device)
    counts.scatter_add_(0, labels, torch.ones_like(labels))
    padded = (counts + BLOCK - 1) // BLOCK * BLOCK
    starts = padded.cumsum(0) - padded  # (M + 1,)
    size = capacity(labels.numel(), n_experts)
    place = (
        torch.arange(labels.numel(), device=labels.device) - (counts.cumsum(0) - counts)[experts] + starts[experts]
    )
    place = torch.where(experts < n_experts, place, size)  # the dropped ones go behind the end
    rows = torch.full((size + 1,), -1, dtype=torch.int32, device=labels.device)
    rows[place] = order.to(torch.int32)
    positions = rows.new_empty(labels.numel())
    positions[order] = torch.where(experts < n_experts, place, -1).to(torch.int32)
    ends = (padded.cumsum(0) // BLOCK)[:n_experts]
    tiles = torch.arange(size // BLOCK, device=labels.device)
    owner = torch.searchsorted(ends, tiles, right=True).clamp(max=n_experts - 1)
    return Plan(
        rows[:size],
        positions.view(indices.shape),
        starts[:n_experts].to(torch.int32),
        counts[:n_experts].to(torch.int32),
        owner.to(torch.int32),
        ends[-1:].to(torch.int32),
    )
