"""Kernels for few tokens: bound by reading the experts' weights, so that each weight should be read once.

Sizes: T tokens of width d, K experts of width h for each; an assignment is t * K + k. Assignments are sorted by
expert, and a program multiplies a block of an expert's weights by all its tokens. LONE is one token: nothing is
sorted, row k is its k-th expert's, and the program that ends last adds the K rows up, in order. EARLY kernels are
launched while the one before them still runs, and wait for it where its results are needed.
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
    x, labels, weights, rows, starts, gate_up, hidden, ended, n_experts, K, d, h,
    BN: tl.constexpr, BT: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr, LONE: tl.constexpr,
    EARLY: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """hidden = silu(gate_e x) * (up_e x) for BN rows of expert e and its tokens, BT at a time: hidden (R, h).

    gate_up comes in blocks (1, BN, BK) of (2M, h, d); rows and starts are those of `rank_kernel`. LONE rows are those
    of the token's labels, times their weights; WIDTH counters of programs that ``ended`` start at zero for the next.
    """
    if EARLY:
        if not LONE:
            tl.extra.cuda.gdc_wait()
        tl.extra.cuda.gdc_launch_dependents()
    n, start, column = tl.program_id(0), tl.program_id(1), tl.arange(0, BK)
    if LONE:
        e = tl.load(labels + start).to(tl.int32)
        count = ((e >= 0) & (e < n_experts)).to(tl.int32)
        if (n == 0) & (start == 0):
            tl.store(ended + tl.arange(0, WIDTH), tl.zeros((WIDTH,), tl.int32))
    else:
        e = tl.program_id(1)
        start = tl.load(starts + e)
        count = tl.load(starts + e + 1) - start
    for first in range(0, count, BT):
        r = first + tl.arange(0, BT)
        inside = r < count
        token = tl.zeros((BT,), tl.int32)
        if not LONE:
            token = tl.load(rows + start + r, mask=inside, other=0) // K
        source = x + token.to(tl.int64)[None, :] * d + column[:, None]  # (BK, BT)
        g, u = tl.zeros((BN, BT), tl.float32), tl.zeros((BN, BT), tl.float32)
        for k in tl.range(0, d, BK, num_stages=STAGES):
            b = tl.load(source + k, mask=inside[None, :] & (column + k < d)[:, None], other=0.0)
            g = tl.dot(gate_up.load([2 * e, n * BN, k]).reshape(BN, BK), b, g)
            u = tl.dot(gate_up.load([2 * e + 1, n * BN, k]).reshape(BN, BK), b, u)
        value = g / (1 + tl.exp(-g)) * u
        if LONE:
            value *= tl.load(weights + start).to(tl.float32)
        line = n * BN + tl.arange(0, BN)
        there = hidden + (start + r).to(tl.int64)[None, :] * h + line[:, None]
        tl.store(there, value.to(hidden.dtype.element_ty), mask=inside[None, :] & (line < h)[:, None])


@jit
def few_down_kernel(
    hidden, labels, starts, down, out, ended, y, n_experts, d, h,
    K: tl.constexpr, BN: tl.constexpr, BT: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr, LONE: tl.constexpr,
    EARLY: tl.constexpr,
):  # fmt: skip
    """out = down_e hidden for BN rows of expert e and its tokens, BT at a time: hidden (R, h) -> out (R, d).

    LONE: the last of the K programs of the same rows of y (1, d) writes the sum of their results there.
    """
    if EARLY:
        tl.extra.cuda.gdc_wait()
        tl.extra.cuda.gdc_launch_dependents()
    n, start, column = tl.program_id(0), tl.program_id(1), tl.arange(0, BK)
    if LONE:
        e = tl.load(labels + start).to(tl.int32)
        count = ((e >= 0) & (e < n_experts)).to(tl.int32)
    else:
        e = tl.program_id(1)
        start = tl.load(starts + e)
        count = tl.load(starts + e + 1) - start
    line = n * BN + tl.arange(0, BN)
    for first in range(0, count, BT):
        r = first + tl.arange(0, BT)
        inside = r < count
        source = hidden + (start + r).to(tl.int64)[None, :] * h + column[:, None]  # (BK, BT)
        total = tl.zeros((BN, BT), tl.float32)
        for k in tl.range(0, h, BK, num_stages=STAGES):
            b = tl.load(source + k, mask=inside[None, :] & (column + k < h)[:, None], other=0.0)
            total = tl.dot(down.load([e, n * BN, k]).reshape(BN, BK), b, total)
        there = out + (start + r).to(tl.int64)[None, :] * d + line[:, None]
        tl.store(there, total.to(out.dtype.element_ty), mask=inside[None, :] & (line < d)[:, None])
    if LONE:
        tl.debug_barrier()  # all threads of this program have stored
        if tl.atomic_add(ended + n, 1, sem="acq_rel") == K - 1:
            whole = tl.zeros((BN,), tl.float32)
            for i in tl.static_range(K):
                label = tl.load(labels + i).to(tl.int32)
                kept = (line < d) & (label >= 0) & (label < n_experts)
                whole += tl.load(out + i * d + line, mask=kept, other=0.0, volatile=True).to(tl.float32)
            tl.store(y + line, whole.to(y.dtype.element_ty), mask=line < d)


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
