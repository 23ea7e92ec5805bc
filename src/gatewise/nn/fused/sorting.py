"""The plan by a counting sort: count per chunk, scan, place. No comparison sort, no wait for the device."""

# ruff: noqa: PLR0914
from __future__ import annotations

import torch
from torch import Tensor

from gatewise.nn.fused.backend import jit, next_power_of_two, tl, triton
from gatewise.nn.fused.plan import BLOCK, Plan, capacity

CHUNK = 256  # assignments that one program counts and ranks
TILES = 128  # tiles that one program of the layout labels


def counted_plan(indices: Tensor, n_experts: int) -> Plan:
    """The same plan as `sorted_plan`, row for row, by a stable counting sort on the GPU."""
    labels, device = indices.contiguous(), indices.device
    n, size = labels.numel(), capacity(labels.numel(), n_experts)
    chunks = triton.cdiv(n, CHUNK)
    before = torch.zeros((n_experts, chunks), dtype=torch.int32, device=device)  # assignments in earlier chunks
    sizes = (n_experts, n_experts, size // BLOCK, 1)
    starts, counts, experts, tiles = (torch.empty(s, dtype=torch.int32, device=device) for s in sizes)
    rows = torch.full((size,), -1, dtype=torch.int32, device=device)
    positions = torch.empty(indices.shape, dtype=torch.int32, device=device)
    count_kernel[(chunks,)](labels, before, n, chunks, CHUNK)
    scan_kernel[(n_experts,)](before, counts, chunks, next_power_of_two(chunks))
    width = next_power_of_two(n_experts)
    layout_kernel[(triton.cdiv(size // BLOCK, TILES),)](
        counts, starts, experts, tiles, n_experts, size // BLOCK, BLOCK, TILES, width
    )
    place_kernel[(chunks,)](labels, before, starts, rows, positions, n, chunks, CHUNK)
    return Plan(rows, positions, starts, counts, experts, tiles)


@jit
def count_kernel(labels, before, n, chunks, CHUNK: tl.constexpr):
    """before[e, c] = how often expert e occurs in chunk c."""
    at = tl.program_id(0) * CHUNK + tl.arange(0, CHUNK)
    expert = tl.load(labels + at, mask=at < n, other=-1).to(tl.int32)
    tl.atomic_add(before + expert * chunks + tl.program_id(0), 1, mask=expert >= 0)


@jit
def scan_kernel(before, counts, chunks, WIDTH: tl.constexpr):
    """before[e, :] becomes its exclusive running sum, and its total goes to counts[e]."""
    at = tl.arange(0, WIDTH)
    row = before + tl.program_id(0) * chunks + at
    found = tl.load(row, mask=at < chunks, other=0)
    tl.store(row, tl.cumsum(found, 0) - found, mask=at < chunks)
    tl.store(counts + tl.program_id(0), tl.sum(found, 0))


@jit
def layout_kernel(counts, starts, experts, tiles, n_experts, size, BLOCK: tl.constexpr, TILES: tl.constexpr, WIDTH: tl.constexpr):
    """First row of every expert, expert of every tile, number of tiles; each program labels TILES tiles."""
    e = tl.arange(0, WIDTH)
    used = (tl.load(counts + e, mask=e < n_experts, other=0) + BLOCK - 1) // BLOCK
    ends = tl.cumsum(used, 0)
    if tl.program_id(0) == 0:
        tl.store(starts + e, (ends - used) * BLOCK, mask=e < n_experts)
        tl.store(tiles, tl.sum(used, 0))
    tile = tl.program_id(0) * TILES + tl.arange(0, TILES)
    passed = (ends[None, :] <= tile[:, None]) & (e < n_experts)[None, :]
    owner = tl.minimum(tl.sum(passed.to(tl.int32), 1), n_experts - 1)
    tl.store(experts + tile, owner, mask=tile < size)


@jit
def place_kernel(labels, before, starts, rows, positions, n, chunks, CHUNK: tl.constexpr):
    """Row of an assignment = start of its expert + those in earlier chunks + those earlier in this chunk."""
    at = tl.program_id(0) * CHUNK + tl.arange(0, CHUNK)
    expert = tl.load(labels + at, mask=at < n, other=-1).to(tl.int32)
    again = tl.program_id(0) * CHUNK + tl.arange(0, CHUNK)
    other = tl.load(labels + again, mask=again < n, other=-1).to(tl.int32)
    earlier = (other[None, :] == expert[:, None]) & (again[None, :] < at[:, None])
    kept = expert >= 0
    row = tl.load(starts + expert, mask=kept, other=0) + tl.sum(earlier.to(tl.int32), 1)
    row += tl.load(before + expert * chunks + tl.program_id(0), mask=kept, other=0)
    tl.store(positions + at, tl.where(kept, row, -1), mask=at < n)
    tl.store(rows + row, at, mask=kept)
