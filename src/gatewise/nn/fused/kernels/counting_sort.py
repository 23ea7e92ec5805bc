"""Kernels of the counting sort: count per chunk, scan over chunks, lay the experts out, place."""

# mypy: ignore-errors
# The bodies are Triton's language, which has no types for mypy.

from __future__ import annotations

from gatewise.nn.fused.backend import jit, tl


@jit
def count_kernel(labels, before, n, n_experts, chunks, CHUNK: tl.constexpr):
    """before[e, c] = how often expert e occurs in chunk c."""
    at = tl.program_id(0) * CHUNK + tl.arange(0, CHUNK)
    expert = tl.load(labels + at, mask=at < n, other=-1).to(tl.int32)
    kept = (expert >= 0) & (expert < n_experts)
    tl.atomic_add(before + expert * chunks + tl.program_id(0), 1, mask=kept)


@jit
def scan_kernel(before, counts, chunks, WIDTH: tl.constexpr):
    """before[e, :] becomes its exclusive running sum, and its total goes to counts[e]."""
    at = tl.arange(0, WIDTH)
    row = before + tl.program_id(0) * chunks + at
    found = tl.load(row, mask=at < chunks, other=0)
    tl.store(row, tl.cumsum(found, 0) - found, mask=at < chunks)
    tl.store(counts + tl.program_id(0), tl.sum(found, 0))


@jit
def layout_kernel(
    counts, starts, experts, tiles, n_experts, size,
    BLOCK: tl.constexpr, TILES: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
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
def place_kernel(labels, before, starts, rows, positions, n, n_experts, chunks, CHUNK: tl.constexpr):
    """Row of an assignment = start of its expert + those in earlier chunks + those earlier in this chunk."""
    at = tl.program_id(0) * CHUNK + tl.arange(0, CHUNK)
    expert = tl.load(labels + at, mask=at < n, other=-1).to(tl.int32)
    again = tl.program_id(0) * CHUNK + tl.arange(0, CHUNK)
    other = tl.load(labels + again, mask=again < n, other=-1).to(tl.int32)
    earlier = (other[None, :] == expert[:, None]) & (again[None, :] < at[:, None])
    kept = (expert >= 0) & (expert < n_experts)
    row = tl.load(starts + expert, mask=kept, other=0) + tl.sum(earlier.to(tl.int32), 1)
    row += tl.load(before + expert * chunks + tl.program_id(0), mask=kept, other=0)
    tl.store(positions + at, tl.where(kept, row, -1), mask=at < n)
    tl.store(rows + row, at, mask=kept)
