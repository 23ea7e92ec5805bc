"""Grouped matrix products over the padded, sorted rows: persistent programs, blocks through the copy engine.

Sizes: R rows in tiles of BM, M experts; d the width of a token, h the width of an expert. The descriptors carry the
exact shapes, so a block that reaches over an edge reads zeros and stores nothing there.
"""

# mypy: ignore-errors
# The bodies are Triton's language, which has no types for mypy.

from __future__ import annotations

from gatewise.nn.fused.backend import jit, tl


@jit
def tile_at(i, tiles_m, tiles_n, GROUP: tl.constexpr):
    """The i-th tile when GROUP tiles of rows share each tile of columns, so that weights stay in the L2 cache."""
    width = GROUP * tiles_n
    first = (i // width) * GROUP
    size = tl.minimum(tiles_m - first, GROUP)
    return first + (i % width) % size, (i % width) // size


@jit
def halves(tile, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """The left and the right half of a tile's columns; a thread holds both, so nothing moves."""
    return tile.reshape(ROWS, 2, COLUMNS // 2).permute(0, 2, 1).split()


@jit
def up_kernel(
    x, rows, gate_up, hidden, pre, experts, tiles, K, d, h,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, PROGRAMS: tl.constexpr,
    KEEP: tl.constexpr, GATHER: tl.constexpr, FLATTEN: tl.constexpr,
):  # fmt: skip
    """hidden = silu(g) * u with g, u = x gate', x up'; KEEP also stores g and u.

    x is (R, d), or the tokens (T, d) themselves, read through rows (R,), where GATHER. gate_up (2M, h, d) comes in
    blocks of both halves, so that one product gives g and u; hidden (R, h), pre (2, R, h).
    """
    tiles_m, tiles_n = tl.load(tiles), tl.cdiv(h, BN)
    for i in tl.range(tl.program_id(0), tiles_m * tiles_n, PROGRAMS, flatten=FLATTEN):
        m, n = tile_at(i, tiles_m, tiles_n, GROUP)
        e = tl.load(experts + m)
        if GATHER:
            place, column = tl.load(rows + m * BM + tl.arange(0, BM)), tl.arange(0, BK)
            source = x + (place // K).to(tl.int64)[:, None] * d + column[None, :]
        both = tl.zeros((BM, 2 * BN), tl.float32)
        for k in range(tl.cdiv(d, BK)):
            if GATHER:
                a = tl.load(source + k * BK, mask=(place >= 0)[:, None] & (column + k * BK < d)[None, :], other=0.0)
            else:
                a = x.load([m * BM, k * BK])
            b = gate_up.load([2 * e, n * BN, k * BK]).reshape(2 * BN, BK)
            both = tl.dot(a, b.T, both)
        g, u = halves(both, BM, 2 * BN)
        if KEEP:
            pre.store([0, m * BM, n * BN], g.to(hidden.dtype).reshape(1, BM, BN))
            pre.store([1, m * BM, n * BN], u.to(hidden.dtype).reshape(1, BM, BN))
        hidden.store([m * BM, n * BN], (g / (1 + tl.exp(-g)) * u).to(hidden.dtype))


@jit
def rows_kernel(
    a, b, out, experts, tiles, inner, outer,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, PROGRAMS: tl.constexpr,
    PLANES: tl.constexpr, TRANSPOSED: tl.constexpr, FLATTEN: tl.constexpr,
):  # fmt: skip
    """out_r = sum over planes p of a[p, r] b[e, p], or b' where TRANSPOSED: a (P, R, inner) -> out (R, outer).

    b is (M P, inner, outer), or (M P, outer, inner) where TRANSPOSED.
    """
    tiles_m, tiles_n, steps = tl.load(tiles), tl.cdiv(outer, BN), tl.cdiv(inner, BK)
    for i in tl.range(tl.program_id(0), tiles_m * tiles_n, PROGRAMS, flatten=FLATTEN):
        m, n = tile_at(i, tiles_m, tiles_n, GROUP)
        e = tl.load(experts + m)
        total = tl.zeros((BM, BN), tl.float32)
        for j in range(PLANES * steps):
            p, k = j // steps, (j % steps) * BK
            left = a.load([p, m * BM, k]).reshape(BM, BK)
            if TRANSPOSED:
                right = b.load([PLANES * e + p, n * BN, k]).reshape(BN, BK).T
            else:
                right = b.load([PLANES * e + p, k, n * BN]).reshape(BK, BN)
            total = tl.dot(left, right, total)
        left, right = halves(total.to(out.dtype), BM, BN)  # half the tile at a time needs half the staging memory
        out.store([m * BM, n * BN], left)
        out.store([m * BM, n * BN + BN // 2], right)


@jit
def outer_kernel(
    a, b, out, starts, counts, n_experts, p_size, q_size,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, PROGRAMS: tl.constexpr,
    PLANES: tl.constexpr, FLATTEN: tl.constexpr,
):  # fmt: skip
    """out[e, plane] = sum over the rows of expert e of a[plane, r] b_r': a (P, R, p), b (R, q) -> out (M P, p, q)."""
    tiles_m, tiles_n = tl.cdiv(p_size, BM), tl.cdiv(q_size, BN)
    each = tiles_m * tiles_n
    for i in tl.range(tl.program_id(0), n_experts * PLANES * each, PROGRAMS, flatten=FLATTEN):
        m, n = tile_at(i % each, tiles_m, tiles_n, GROUP)
        matrix = i // each
        start, count = tl.load(starts + matrix // PLANES), tl.load(counts + matrix // PLANES)
        total = tl.zeros((BM, BN), tl.float32)
        for k in range(tl.cdiv(count, BK)):
            left = a.load([matrix % PLANES, start + k * BK, m * BM]).reshape(BK, BM)
            total = tl.dot(left.T, b.load([start + k * BK, n * BN]), total)
        left, right = halves(total.to(out.dtype), BM, BN)
        out.store([matrix, m * BM, n * BN], left.reshape(1, BM, BN // 2))
        out.store([matrix, m * BM, n * BN + BN // 2], right.reshape(1, BM, BN // 2))
