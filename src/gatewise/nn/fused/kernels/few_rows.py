"""Kernels for few tokens: bound by reading the experts' weights, so that each weight should be read once.

Sizes: T tokens of width d, K experts of width h for each; an assignment is t * K + k. Assignments are sorted by
expert, and a program multiplies a block of an expert's weights by all its tokens. EARLY kernels are launched while
the one before them still runs, and wait for it where its results are needed.
"""

# mypy: ignore-errors
# The bodies are Triton's language, which has no types for mypy.

from __future__ import annotations

from gatewise.nn.fused.backend import jit, tl


@jit
def rank_kernel(
    labels, positions, rows, starts, n, n_experts, LINES: tl.constexpr, WIDTH: tl.constexpr, EARLY: tl.constexpr
):
    """The order by expert, by comparing all n labels with LINES of them, or with LINES experts.

    positions[i] = place of assignment i, -1 if it has no expert; rows is its inverse; starts[e] = assignments of the
    experts before e, for e = 0..M.
    """
    if EARLY:
        tl.extra.cuda.gdc_launch_dependents()
    chunks = tl.cdiv(n, LINES)
    if tl.program_id(0) < chunks:
        i = tl.program_id(0) * LINES + tl.arange(0, LINES)
        mine = tl.load(labels + i, mask=i < n, other=-1).to(tl.int32)
    else:
        i = tl.zeros((LINES,), tl.int32)  # nobody is before the first of an expert
        mine = (tl.program_id(0) - chunks) * LINES + tl.arange(0, LINES)
    rank = tl.zeros((LINES,), tl.int32)
    for start in range(0, n, WIDTH):
        j = start + tl.arange(0, WIDTH)
        other = tl.load(labels + j, mask=j < n, other=-1).to(tl.int32)
        smaller = (other[None, :] < mine[:, None]) | ((other[None, :] == mine[:, None]) & (j[None, :] < i[:, None]))
        rank += tl.sum((smaller & ((other >= 0) & (other < n_experts))[None, :]).to(tl.int32), 1)
    if tl.program_id(0) < chunks:
        kept = (mine >= 0) & (mine < n_experts)
        tl.store(positions + i, tl.where(kept, rank, -1), mask=i < n)
        tl.store(rows + rank, i, mask=kept)
    else:
        tl.store(starts + mine, rank, mask=mine <= n_experts)


@jit
def few_up_kernel(
    x, rows, starts, gate_up, hidden, K, d, h,
    BN: tl.constexpr, BT: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """hidden = silu(gate_e x) * (up_e x) for BN rows of expert e and its tokens, BT at a time: hidden (R, h).

    gate_up comes in blocks (1, BN, BK) of (2M, h, d); rows and starts are those of `rank_kernel`.
    """
    if EARLY:
        tl.extra.cuda.gdc_wait()
        tl.extra.cuda.gdc_launch_dependents()
    n, e, column = tl.program_id(0), tl.program_id(1), tl.arange(0, BK)
    start = tl.load(starts + e)
    count = tl.load(starts + e + 1) - start
    for first in range(0, count, BT):
        r = first + tl.arange(0, BT)
        inside = r < count
        token = tl.load(rows + start + r, mask=inside, other=0) // K
        source = x + token.to(tl.int64)[None, :] * d + column[:, None]  # (BK, BT)
        g, u = tl.zeros((BN, BT), tl.float32), tl.zeros((BN, BT), tl.float32)
        for k in tl.range(0, d, BK, num_stages=STAGES):
            b = tl.load(source + k, mask=inside[None, :] & (column + k < d)[:, None], other=0.0)
            g = tl.dot(gate_up.load([2 * e, n * BN, k]).reshape(BN, BK), b, g)
            u = tl.dot(gate_up.load([2 * e + 1, n * BN, k]).reshape(BN, BK), b, u)
        line = n * BN + tl.arange(0, BN)
        there = hidden + (start + r).to(tl.int64)[None, :] * h + line[:, None]
        value = g / (1 + tl.exp(-g)) * u
        tl.store(there, value.to(hidden.dtype.element_ty), mask=inside[None, :] & (line < h)[:, None])


@jit
def few_down_kernel(
    hidden, starts, down, out, d, h,
    BN: tl.constexpr, BT: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """out = down_e hidden for BN rows of expert e and its tokens, BT at a time: hidden (R, h) -> out (R, d)."""
    n, e, column = tl.program_id(0), tl.program_id(1), tl.arange(0, BK)
    start = tl.load(starts + e)  # there since the kernel ahead has started
    count = tl.load(starts + e + 1) - start
    if EARLY:
        tl.extra.cuda.gdc_wait()
        tl.extra.cuda.gdc_launch_dependents()
    for first in range(0, count, BT):
        r = first + tl.arange(0, BT)
        inside = r < count
        source = hidden + (start + r).to(tl.int64)[None, :] * h + column[:, None]  # (BK, BT)
        total = tl.zeros((BN, BT), tl.float32)
        for k in tl.range(0, h, BK, num_stages=STAGES):
            b = tl.load(source + k, mask=inside[None, :] & (column + k < h)[:, None], other=0.0)
            total = tl.dot(down.load([e, n * BN, k]).reshape(BN, BK), b, total)
        line = n * BN + tl.arange(0, BN)
        there = out + (start + r).to(tl.int64)[None, :] * d + line[:, None]
        tl.store(there, total.to(out.dtype.element_ty), mask=inside[None, :] & (line < d)[:, None])


@jit
def gather_kernel(rows, positions, weights, out, d, K: tl.constexpr, WIDTH: tl.constexpr, EARLY: tl.constexpr):
    """out[t] = sum_k weights[t, k] rows[positions[t, k]] in float32, k in order: rows (T K, d) -> out (T, d)."""
    if EARLY:
        tl.extra.cuda.gdc_wait()
    token = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    total = tl.zeros((WIDTH,), tl.float32)
    for k in tl.static_range(K):
        row = tl.load(positions + token * K + k).to(tl.int64)
        value = tl.load(rows + row * d + column, mask=(column < d) & (row >= 0), other=0.0).to(tl.float32)
        weight = tl.load(weights + token * K + k).to(tl.float32)
        total += tl.where(row >= 0, value * weight, 0.0)
    tl.store(out + token * d + column, total.to(out.dtype.element_ty), mask=column < d)
