"""Kernels over the pairs (a, b) of two tables, in float32: the residual of a pair at row t is N / D,

N = na[t, a] + nb[t, b], D = da[t, a] + db[t, b]. Sizes: A and B pairs, n rows. A program holds a tile of pairs in
registers and goes through the rows, so that nothing of size A x B x n is ever written.
"""

# mypy: ignore-errors
# The bodies are Triton's language, which has no types for mypy.

from __future__ import annotations

from gatewise.nn.fused.backend import jit, tl


@jit
def reciprocal(d, FAST: tl.constexpr):
    """1 / d, by the instruction that is accurate to one unit in the last place; the interpreter does not know it."""
    if FAST:
        inverse = tl.inline_asm_elementwise(
            "rcp.approx.ftz.f32 $0, $1;", "=f,f", [d], dtype=tl.float32, is_pure=True, pack=1
        )
    else:
        inverse = 1.0 / d
    return inverse


@jit
def tile_of(program, A, B, BA: tl.constexpr, BB: tl.constexpr, GROUP: tl.constexpr):
    """The pairs of a program: neighbours share their rows of the tables, so that these stay in the cache."""
    rows, columns = tl.cdiv(A, BA), tl.cdiv(B, BB)
    group = program // (GROUP * columns)
    height = tl.minimum(rows - group * GROUP, GROUP)
    inside = program % (GROUP * columns)
    a = (group * GROUP + inside % height) * BA + tl.arange(0, BA)
    b = (inside // height) * BB + tl.arange(0, BB)
    return a, b


@jit
def residual_tile(na, da, nb, db, t, A, B, a, b, FAST: tl.constexpr):
    """N / D of the pairs (a, b) at row t; pairs that are not there have D = 2."""
    top = tl.load(na + t * A + a, mask=a < A, other=0.0)[:, None] + tl.load(nb + t * B + b, mask=b < B, other=0.0)
    low = tl.load(da + t * A + a, mask=a < A, other=1.0)[:, None] + tl.load(db + t * B + b, mask=b < B, other=1.0)
    return top * reciprocal(low, FAST)


@jit
def mean_square_kernel(
    na, da, nb, db, out, n, A, B, BA: tl.constexpr, BB: tl.constexpr, GROUP: tl.constexpr, FAST: tl.constexpr
):
    """out[a, b] = mean over the rows of (N / D)^2."""
    a, b = tile_of(tl.program_id(0), A, B, BA, BB, GROUP)
    total = tl.zeros((BA, BB), tl.float32)
    for t in range(n):
        r = residual_tile(na, da, nb, db, t, A, B, a, b, FAST)
        total += r * r
    at = a.to(tl.int64)[:, None] * B + b[None, :]
    tl.store(out + at, total / n, mask=(a < A)[:, None] & (b < B)[None, :])


@jit
def shape_of(u, NOISE: tl.constexpr, power):
    """What the log2 density of a scaled residual lacks to its peak: Gaussian, double exponential, Student t."""
    if NOISE == 0:
        lack = u * u
    elif NOISE == 1:
        lack = tl.abs(u)
    else:
        lack = power * tl.log2(1.0 + u * u)
    return lack


@jit
def sweep_kernel(
    na, da, nb, db, sigma, prior, rise, sums, n, A, B, slots, scale, power, reference,
    NOISE: tl.constexpr, ONE: tl.constexpr, PRIOR: tl.constexpr,
    BA: tl.constexpr, BB: tl.constexpr, GROUP: tl.constexpr, FAST: tl.constexpr,
):  # fmt: skip
    """sums[slot, 0 | 1, t] += sum of w and of w r over the pairs of a tile, w the weights before row t.

    log2 w rises by log2(reference / sigma) - shape(scale r / sigma) - rise[t] from row t to the next; at t = n
    sums[slot, 1] takes the squares of the weights. sigma (A, B), or one number where ONE; prior (A, B) where PRIOR.
    """
    a, b = tile_of(tl.program_id(0), A, B, BA, BB, GROUP)
    there, at = (a < A)[:, None] & (b < B)[None, :], a.to(tl.int64)[:, None] * B + b[None, :]
    own = tl.load(sigma) if ONE else tl.load(sigma + at, mask=there, other=1.0)
    gain, unit = tl.log2(reference / own), scale / own
    start = tl.load(prior + at, mask=there, other=0.0) if PRIOR else tl.zeros((BA, BB), tl.float32)
    level = tl.where(there, start, float("-inf"))
    slot = sums + (tl.program_id(0) % slots).to(tl.int64) * (2 * (n + 1))
    for t in range(n):
        r = residual_tile(na, da, nb, db, t, A, B, a, b, FAST)
        w = tl.exp2(level)
        tl.atomic_add(slot + t, tl.sum(w).to(tl.float64), sem="relaxed")
        tl.atomic_add(slot + n + 1 + t, tl.sum(w * r).to(tl.float64), sem="relaxed")
        level = level - shape_of(r * unit, NOISE, power) + (gain - tl.load(rise + t))
    w = tl.exp2(level)
    tl.atomic_add(slot + n, tl.sum(w).to(tl.float64), sem="relaxed")
    tl.atomic_add(slot + 2 * n + 1, tl.sum(w * w).to(tl.float64), sem="relaxed")


@jit
def mean_weight_kernel(
    na, da, nb, db, sigma, prior, rise, out, n, A, B, scale, power, reference, first,
    NOISE: tl.constexpr, ONE: tl.constexpr, PRIOR: tl.constexpr,
    BA: tl.constexpr, BB: tl.constexpr, GROUP: tl.constexpr, FAST: tl.constexpr,
):  # fmt: skip
    """out[a, b] = mean over the rows of the weights before them, from 2^first on; the others as in `sweep_kernel`."""
    a, b = tile_of(tl.program_id(0), A, B, BA, BB, GROUP)
    there, at = (a < A)[:, None] & (b < B)[None, :], a.to(tl.int64)[:, None] * B + b[None, :]
    own = tl.load(sigma) if ONE else tl.load(sigma + at, mask=there, other=1.0)
    gain, unit = tl.log2(reference / own), scale / own
    level = tl.zeros((BA, BB), tl.float32) + first
    if PRIOR:
        level += tl.load(prior + at, mask=there, other=0.0)
    total = tl.zeros((BA, BB), tl.float32)
    for t in range(n):
        r = residual_tile(na, da, nb, db, t, A, B, a, b, FAST)
        total += tl.exp2(level)
        level = level - shape_of(r * unit, NOISE, power) + (gain - tl.load(rise + t))
    tl.store(out + at, total / n, mask=there)


@jit
def weighted_kernel(
    na, da, nb, db, weights, out, A, B, Q, POWER: tl.constexpr,
    BQ: tl.constexpr, BB: tl.constexpr, FAST: tl.constexpr,
):  # fmt: skip
    """out[q, b] = sum over a of weights[a, b] (N / D)^POWER, for POWER 0 of weights[a, b] / D; na, da are (A, Q)."""
    blocks = tl.cdiv(Q, BQ)
    q = (tl.program_id(0) % blocks) * BQ + tl.arange(0, BQ)
    b = (tl.program_id(0) // blocks) * BB + tl.arange(0, BB)
    there, at = (q < Q)[:, None] & (b < B)[None, :], q.to(tl.int64)[:, None] * B + b[None, :]
    low = tl.load(db + at, mask=there, other=1.0)
    total = tl.zeros((BQ, BB), tl.float32)
    if POWER > 0:
        top = tl.load(nb + at, mask=there, other=0.0)
    for a in range(A):
        w = tl.load(weights + tl.cast(a, tl.int64) * B + b, mask=b < B, other=0.0)[None, :]
        inverse = reciprocal(tl.load(da + tl.cast(a, tl.int64) * Q + q, mask=q < Q, other=1.0)[:, None] + low, FAST)
        if POWER > 0:
            r = (tl.load(na + tl.cast(a, tl.int64) * Q + q, mask=q < Q, other=0.0)[:, None] + top) * inverse
            total += w * (r * r if POWER == 2 else r)
        else:
            total += w * inverse
    tl.store(out + at, total, mask=there)
