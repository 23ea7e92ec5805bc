"""Kernels that move rows: tokens to the sorted buffer, and a token's K rows back into one."""

from __future__ import annotations

from gatewise.nn.fused.backend import jit, tl


@jit
def gather_kernel(source, rows, tiles, out, d, K, BLOCK: tl.constexpr, LINES: tl.constexpr, WIDTH: tl.constexpr):
    """out[r] = source[rows[r] // K], zero for padding: source (T, d) -> out (R, d)."""
    r = tl.program_id(0) * LINES + tl.arange(0, LINES)
    if tl.program_id(0) * LINES < tl.load(tiles) * BLOCK:
        place = tl.load(rows + r)
        token = (place // K).to(tl.int64)
        for start in range(0, d, WIDTH):
            column = start + tl.arange(0, WIDTH)
            inside = (column < d)[None, :]
            value = tl.load(source + token[:, None] * d + column[None, :], mask=inside & (place >= 0)[:, None], other=0.0)
            tl.store(out + r.to(tl.int64)[:, None] * d + column[None, :], value, mask=inside)


@jit
def combine_kernel(rows, positions, weights, out, d, K: tl.constexpr, WEIGHTED: tl.constexpr, WIDTH: tl.constexpr):
    """out[t] = sum_k weights[t, k] rows[positions[t, k]] in float32, k in order: rows (R, d) -> out (T, d)."""
    token = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    total = tl.zeros((WIDTH,), tl.float32)
    for k in tl.static_range(K):
        row = tl.load(positions + token * K + k).to(tl.int64)
        value = tl.load(rows + row * d + column, mask=(column < d) & (row >= 0), other=0.0).to(tl.float32)
        if WEIGHTED:
            value *= tl.load(weights + token * K + k).to(tl.float32)
        total += tl.where(row >= 0, value, 0.0)
    tl.store(out + token * d + column, total.to(out.dtype.element_ty), mask=column < d)


@jit
def swiglu_grad_kernel(
    dh, pre, weights, rows, tiles, grads, scaled, of_rows, n, h,
    BLOCK: tl.constexpr, LINES: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """With a = silu(g) u and w the weight of a row: w dh da/dg, w dh da/du, w a, and the weight's gradient sum_j dh a.

    dh (R, h), pre (2, R, h) -> grads (2, R, h), scaled (R, h), of_rows (R,). Padding has the weight 0.
    """
    if tl.program_id(0) * LINES < tl.load(tiles) * BLOCK:
        r = tl.program_id(0) * LINES + tl.arange(0, LINES)
        place = tl.load(rows + r)
        w = tl.load(weights + place, mask=place >= 0, other=0.0).to(tl.float32)[:, None]
        plane = n.to(tl.int64) * h
        total = tl.zeros((LINES, WIDTH), tl.float32)
        for start in range(0, h, WIDTH):
            column = start + tl.arange(0, WIDTH)[None, :]
            at = r.to(tl.int64)[:, None] * h + column
            inside = (column < h) & (r >= 0)[:, None]
            g = tl.load(pre + at, mask=inside, other=0.0).to(tl.float32)
            u = tl.load(pre + plane + at, mask=inside, other=0.0).to(tl.float32)
            slope = tl.load(dh + at, mask=inside, other=0.0).to(tl.float32)
            s = 1 / (1 + tl.exp(-g))
            silu = g * s
            total += slope * silu * u
            tl.store(scaled + at, (w * silu * u).to(scaled.dtype.element_ty), mask=inside)
            tl.store(grads + plane + at, (w * slope * silu).to(grads.dtype.element_ty), mask=inside)
            slope = w * slope * u * (s + silu * (1 - s))
            tl.store(grads + at, slope.to(grads.dtype.element_ty), mask=inside)
        tl.store(of_rows + r, tl.sum(total, 1))
