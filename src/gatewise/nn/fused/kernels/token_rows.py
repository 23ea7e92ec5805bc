"""Kernels that go row by row: tokens to the sorted buffer, a token's K rows back into one, SwiGLU's gradient."""

# mypy: ignore-errors
# The bodies are Triton's language, which has no types for mypy.

from __future__ import annotations

from gatewise.nn.fused.backend import jit, tl


@jit
def spread_kernel(
    source, positions, starts, counts, out, tokens, d,
    K: tl.constexpr, BLOCK: tl.constexpr, LINES: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """out[positions[t, k]] = source[t], zeros in the padding: source (T, d) -> out (R, d).

    One program per token, which is thus read once however many experts it has; the others clear LINES rows each.
    """
    i = tl.program_id(0)
    column = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    inside = column < d
    if i < tokens:
        value = tl.load(source + i.to(tl.int64) * d + column, mask=inside)
        for k in tl.static_range(K):
            row = tl.load(positions + i * K + k).to(tl.int64)
            tl.store(out + row * d + column, value, mask=inside & (row >= 0))
    else:
        parts = BLOCK // LINES
        e = (i - tokens) // parts
        count = tl.load(counts + e)
        last = tl.cdiv(count, BLOCK) * BLOCK - BLOCK + ((i - tokens) % parts) * LINES + tl.arange(0, LINES)
        padding = (tl.load(starts + e) + last).to(tl.int64)[:, None]
        nothing = tl.zeros((LINES, WIDTH), out.dtype.element_ty)
        tl.store(out + padding * d + column[None, :], nothing, mask=inside[None, :] & (last >= count)[:, None])


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
    """With a = silu(g) u and w a row's weight: w dh da/dg, w dh da/du, w a, and the weight's gradient sum_j dh a.

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
