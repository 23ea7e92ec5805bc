"""The plan by a counting sort: count per chunk, scan, place. No comparison sort, no wait for the device."""

from __future__ import annotations

import torch
from torch import Tensor

from gatewise.nn.fused.backend import next_power_of_two, triton
from gatewise.nn.fused.kernels.counting_sort import count_kernel, layout_kernel, place_kernel, scan_kernel
from gatewise.nn.fused.row_plan import BLOCK, capacity, RowPlan

CHUNK = 128  # assignments that one program counts and ranks
TILES = 128  # tiles that one program of the layout labels


def counted_plan(indices: Tensor, n_experts: int) -> RowPlan:
    """The plan of indices (T, K) by a stable counting sort on the GPU; indices outside 0..M-1 are dropped."""
    labels, device = indices.contiguous(), indices.device
    n, size = labels.numel(), capacity(labels.numel(), n_experts)
    chunks, slots = triton.cdiv(n, CHUNK), size // BLOCK
    before = torch.zeros((n_experts, chunks), dtype=torch.int32, device=device)  # of an expert in earlier chunks
    rows = torch.full((size,), -1, dtype=torch.int32, device=device)
    positions = torch.empty(indices.shape, dtype=torch.int32, device=device)
    starts, counts, experts, tiles = (rows.new_empty(length) for length in (n_experts, n_experts, slots, 1))
    count_kernel[(chunks,)](labels, before, n, n_experts, chunks, CHUNK)
    scan_kernel[(n_experts,)](before, counts, chunks, next_power_of_two(chunks))
    layout_kernel[(triton.cdiv(slots, TILES),)](
        counts, starts, experts, tiles, n_experts, slots, BLOCK, TILES, next_power_of_two(n_experts)
    )
    place_kernel[(chunks,)](labels, before, starts, rows, positions, n, n_experts, chunks, CHUNK)
    return RowPlan(rows, positions, starts, counts, experts, tiles)
