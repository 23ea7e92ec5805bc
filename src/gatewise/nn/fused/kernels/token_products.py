"""Kernels for one token: two, each a product of matrices and a vector at the speed of reading the matrices.

Sizes: a token of width d, K experts of width h. No weight is used twice, so blocks of them go straight to registers,
many at a time; the matrix units would only take the way round by shared memory. An EARLY second kernel is launched
while the first still runs: its weights do not depend on the first, so it asks for them at once, and then waits.
"""

# mypy: ignore-errors
# The bodies are Triton's language, which has no types for mypy.

from __future__ import annotations

from gatewise.nn.fused.backend import jit, tl


@jit
def token_up_kernel(
    x, labels, weights, gate_up, hidden, n_experts, d, h,
    ROWS: tl.constexpr, WIDTH: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """hidden[k] = weights[k] silu(gate_e x) * (up_e x) with e = labels[k], ROWS at a time.

    Zeros where e is no expert. x (d,), gate_up (M, 2h, d) with the gate's rows first, hidden (K, h); WIDTH columns
    at a time.
    """
    if EARLY:
        tl.extra.cuda.gdc_launch_dependents()
    k, column = tl.program_id(1), tl.arange(0, WIDTH)
    line = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    e = tl.load(labels + k).to(tl.int64)
    kept = (line < h) & (e >= 0) & (e < n_experts)
    gate = gate_up + e * 2 * h * d + line[:, None] * d + column[None, :]
    up = gate + h * d
    g, u = tl.zeros((ROWS,), tl.float32), tl.zeros((ROWS,), tl.float32)
    for start in range(0, d, WIDTH):
        inside = column < d - start
        mask = kept[:, None] & inside[None, :]
        a = tl.load(gate + start, mask=mask, other=0.0, eviction_policy="evict_first")
        b = tl.load(up + start, mask=mask, other=0.0, eviction_policy="evict_first")
        v = tl.load(x + start + column, mask=inside, other=0.0).to(tl.float32)
        g += tl.sum(a.to(tl.float32) * v[None, :], 1)
        u += tl.sum(b.to(tl.float32) * v[None, :], 1)
    value = tl.where(kept, g / (1 + tl.exp(-g)) * u * tl.load(weights + k).to(tl.float32), 0.0)
    tl.store(hidden + k * h + line, value.to(hidden.dtype.element_ty), mask=line < h)


@jit
def token_down_kernel(
    hidden, labels, down, y, n_experts, d, h,
    K: tl.constexpr, HELD: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """y = sum_k down_e hidden[k] with e = labels[k], ROWS at a time: hidden (K, h), down (M, d, h) -> y (d,).

    The first HELD blocks (ROWS, WIDTH) of every expert are in registers before the kernel ahead has ended.
    """
    line, column = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, WIDTH)
    block = down + line.to(tl.int64)[:, None] * h + column[None, :]
    source = hidden + tl.zeros((ROWS,), tl.int32)[:, None] + column[None, :]  # the rows alike: as the blocks lie
    held = ()
    for k in tl.static_range(K):
        e = tl.load(labels + k).to(tl.int64)
        kept = (line < d) & (e >= 0) & (e < n_experts)
        for i in tl.static_range(HELD):
            mask = kept[:, None] & (column < h - i * WIDTH)[None, :]
            place = block + e * d * h + i * WIDTH
            held = held + (tl.load(place, mask=mask, other=0.0, eviction_policy="evict_first"),)  # noqa: RUF005
    if EARLY:
        tl.extra.cuda.gdc_wait()
    total = tl.zeros((ROWS, WIDTH), tl.float32)
    for k in tl.static_range(K):
        for i in tl.static_range(HELD):
            b = tl.load(source + k * h + i * WIDTH, mask=(column < h - i * WIDTH)[None, :], other=0.0)
            total += held[k * HELD + i].to(tl.float32) * b.to(tl.float32)
    for start in range(HELD * WIDTH, h, WIDTH):
        inside = (column < h - start)[None, :]
        for k in tl.static_range(K):
            e = tl.load(labels + k).to(tl.int64)
            mask = ((line < d) & (e >= 0) & (e < n_experts))[:, None] & inside
            a = tl.load(block + e * d * h + start, mask=mask, other=0.0, eviction_policy="evict_first")
            total += a.to(tl.float32) * tl.load(source + k * h + start, mask=inside, other=0.0).to(tl.float32)
    tl.store(y + line, tl.sum(total, 1).to(y.dtype.element_ty), mask=line < d)
