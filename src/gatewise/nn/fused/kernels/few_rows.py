"""Kernels for few tokens: bound by reading the experts' weights, so that each weight should be read once.

Sizes: T tokens of width d, K experts of width h for each; an assignment is t * K + k. The `lone` kernels serve one
token or two: a program multiplies some rows of one expert's matrix by one vector. The `few` kernels serve up to some
hundred: assignments are sorted by expert, and a program multiplies a block of an expert's weights by all its tokens.
With EARLY a kernel is launched while the one before it still runs, and waits for it where its results are needed.
"""

# mypy: ignore-errors
# The bodies are Triton's language, which has no types for mypy.

from __future__ import annotations

from gatewise.nn.fused.backend import jit, tl


@jit
def lone_up_kernel(
    x, indices, gate_up, hidden, d, h, n_experts,
    K: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """hidden[i, n] = silu(gate_e[n] . x_t) * (up_e[n] . x_t) for BN rows n and one assignment i = t K + k."""
    if EARLY:
        tl.extra.cuda.gdc_launch_dependents()
    i = tl.program_id(1)
    e = tl.load(indices + i).to(tl.int64)
    if (e >= 0) & (e < n_experts):
        n, column = tl.program_id(0) * BN + tl.arange(0, BN), tl.arange(0, BK)
        token = x + (i // K).to(tl.int64) * d
        gate = gate_up + (e * 2 * h + n)[:, None] * d + column[None, :]
        up = gate + h.to(tl.int64) * d
        g, u = tl.zeros((BN, BK), tl.float32), tl.zeros((BN, BK), tl.float32)
        for k in tl.range(0, d, BK, num_stages=STAGES):
            inside = column + k < d
            both = (n < h)[:, None] & inside[None, :]
            value = tl.load(token + k + column, mask=inside, other=0.0).to(tl.float32)[None, :]
            g += tl.load(gate + k, mask=both, other=0.0).to(tl.float32) * value
            u += tl.load(up + k, mask=both, other=0.0).to(tl.float32) * value
        left, right = tl.sum(g, 1), tl.sum(u, 1)
        value = (left / (1 + tl.exp(-left)) * right).to(hidden.dtype.element_ty)
        tl.store(hidden + i.to(tl.int64) * h + n, value, mask=n < h)


@jit
def lone_down_kernel(
    hidden, indices, weights, down, out, d, h, n_experts,
    K: tl.constexpr, WIDTH: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """out[t, n] = sum_k weights[t, k] down_e[n] . hidden[t K + k] for BN rows n and one token t.

    A block holds rows of all K experts, (BN, WIDTH, BK), WIDTH a power of two. The first is read before the rows of
    ``hidden`` are asked for: EARLY says that the kernel before may still be computing them.
    """
    t = tl.program_id(1)
    n, k, column = tl.program_id(0) * BN + tl.arange(0, BN), tl.arange(0, WIDTH), tl.arange(0, BK)
    e = tl.load(indices + t * K + k, mask=k < K, other=-1).to(tl.int64)
    kept = (e >= 0) & (e < n_experts)
    w = tl.load(weights + t * K + k, mask=kept, other=0.0).to(tl.float32)
    matrix = down + (e[None, :] * d + n[:, None])[:, :, None] * h + column[None, None, :]
    values = hidden + (t * K + k).to(tl.int64)[:, None] * h + column[None, :]
    rows = ((n < d)[:, None] & kept[None, :])[:, :, None]
    block = tl.load(matrix, mask=rows & (column < h)[None, None, :], other=0.0)
    if EARLY:
        tl.extra.cuda.gdc_wait()
    total = tl.zeros((BN, WIDTH, BK), tl.float32)
    for j in range(0, h, BK):
        after = tl.load(matrix + j + BK, mask=rows & (column + j + BK < h)[None, None, :], other=0.0)
        value = tl.load(values + j, mask=kept[:, None] & (column + j < h)[None, :], other=0.0).to(tl.float32)
        total += block.to(tl.float32) * (value * w[:, None])[None, :, :]
        block = after
    y = tl.sum(tl.sum(total, 2), 1)
    tl.store(out + t.to(tl.int64) * d + n, y.to(out.dtype.element_ty), mask=n < d)


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
    n, e = tl.program_id(0), tl.program_id(1)
    start = tl.load(starts + e)
    count = tl.load(starts + e + 1) - start
    column = tl.arange(0, BK)
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
        value = (g / (1 + tl.exp(-g)) * u).to(hidden.dtype.element_ty)
        line = n * BN + tl.arange(0, BN)
        there = hidden + (start + r).to(tl.int64)[None, :] * h + line[:, None]
        tl.store(there, value, mask=inside[None, :] & (line < h)[:, None])


@jit
def few_down_kernel(
    hidden, starts, down, out, d, h,
    BN: tl.constexpr, BT: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """out = down_e hidden for BN rows of expert e and its tokens, BT at a time: hidden (R, h) -> out (R, d)."""
    if EARLY:
        tl.extra.cuda.gdc_wait()
        tl.extra.cuda.gdc_launch_dependents()
    n, e = tl.program_id(0), tl.program_id(1)
    start = tl.load(starts + e)
    count = tl.load(starts + e + 1) - start
    column = tl.arange(0, BK)
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
