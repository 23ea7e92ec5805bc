"""One function per kernel: allocate and launch. Rows are those of a `RowPlan`."""

from __future__ import annotations

import torch
from torch import Tensor

from gatewise.nn.fused.backend import blocks_of, next_power_of_two, triton
from gatewise.nn.fused.kernels.matmul import outer_kernel, rows_kernel, up_kernel
from gatewise.nn.fused.kernels.token_rows import combine_kernel, spread_kernel, swiglu_grad_kernel
from gatewise.nn.fused.row_plan import BLOCK, RowPlan
from gatewise.nn.fused.tiles import Tiles


def spread(source: Tensor, plan: RowPlan) -> Tensor:
    """The token of every row, zeros for padding: source (T, d) -> (R, d)."""
    (tokens, d), k, lines = source.shape, plan.positions.shape[1], 8
    out = source.new_empty(plan.rows.numel(), d)
    width = min(next_power_of_two(d), 2048)
    grid = (tokens + plan.counts.numel() * (BLOCK // lines), triton.cdiv(d, width))
    spread_kernel[grid](source, plan.positions, plan.starts, plan.counts, out, tokens, d, k, BLOCK, lines, width)
    return out


def combine(rows: Tensor, plan: RowPlan, weights: Tensor | None) -> Tensor:
    """Sum of a token's rows, weighted where weights (T, K) are given: rows (R, d) -> (T, d)."""
    (tokens, k), d = plan.positions.shape, rows.shape[1]
    out = rows.new_empty(tokens, d)
    width = min(next_power_of_two(d), 2048)
    combine_kernel[(tokens, triton.cdiv(d, width))](
        rows, plan.positions, weights, out, d, k, weights is not None, width
    )
    return out


def up(x: Tensor, gate_up: Tensor, plan: RowPlan, keep: bool, gather: bool, tiles: Tiles) -> tuple[Tensor, Tensor]:
    """silu(gate x) * (up x) of every row (R, h), and where ``keep`` the two factors (2, R, h).

    x is (R, d), or (T, d) where ``gather``.
    """
    n, d, h = plan.rows.numel(), x.shape[1], gate_up.shape[1] // 2
    hidden, pre = x.new_empty(n, h), x.new_empty((2, n, h) if keep else (1, 1, h))
    options = tiles.options(x)
    if keep:
        options["num_stages"] = 3  # the two extra stores take the fourth stage's memory
    bm, bn, bk = options["BM"], options["BN"], options["BK"]
    up_kernel[(options["PROGRAMS"],)](
        x if gather else blocks_of(x, [bm, bk]),
        plan.rows,
        blocks_of(gate_up.view(-1, h, d), [2, bn, bk]),
        blocks_of(hidden, [bm, bn]),
        blocks_of(pre, [1, bm, bn]),
        plan.experts,
        plan.tiles,
        plan.positions.shape[1],
        d,
        h,
        KEEP=keep,
        GATHER=gather,
        **options,
    )
    return hidden, pre if keep else pre.new_empty(0)


def times(a: Tensor, b: Tensor, plan: RowPlan, transposed: bool, tiles: Tiles) -> Tensor:
    """sum_p a[p, r] b[e, p] (b' where ``transposed``): a (P, R, inner), b (M, P, inner, outer) -> (R, outer)."""
    planes, n, inner = a.shape
    outer = b.shape[2] if transposed else b.shape[3]
    out = a.new_empty(n, outer)
    options = tiles.options(a)
    bm, bn, bk = options["BM"], options["BN"], options["BK"]
    rows_kernel[(options["PROGRAMS"],)](
        blocks_of(a, [1, bm, bk]),
        blocks_of(b.flatten(0, 1), [1, bn, bk] if transposed else [1, bk, bn]),
        blocks_of(out, [bm, bn // 2]),
        plan.experts,
        plan.tiles,
        inner,
        outer,
        PLANES=planes,
        TRANSPOSED=transposed,
        **options,
    )
    return out


def swiglu_grad(dh: Tensor, pre: Tensor, weights: Tensor, plan: RowPlan) -> tuple[Tensor, Tensor, Tensor]:
    """From dh (R, h): gradients of gate and up (2, R, h), weighted hidden rows (R, h), weights' gradient (T, K)."""
    n, h = dh.shape
    grads, scaled = torch.empty_like(pre), torch.empty_like(dh)
    of_rows = torch.empty(n, dtype=torch.float32, device=dh.device)
    width = min(next_power_of_two(h), 1024)
    lines = min(2048 // width, BLOCK)
    swiglu_grad_kernel[(n // lines,)](
        dh, pre, weights, plan.rows, plan.tiles, grads, scaled, of_rows, n, h, BLOCK, lines, width
    )
    d_weights = torch.where(plan.positions < 0, 0.0, of_rows[plan.positions.clamp(min=0)])
    return grads, scaled, d_weights.to(weights.dtype)


def outer(a: Tensor, b: Tensor, plan: RowPlan, tiles: Tiles) -> Tensor:
    """sum over an expert's rows of a[p, r] b[r]': a (P, R, p), b (R, q) -> (M, P, p, q); zeros for an idle expert."""
    (planes, _, p), q, n_experts = a.shape, b.shape[1], plan.counts.numel()
    out = a.new_empty(n_experts, planes, p, q)
    options = tiles.options(a)
    bm, bn, bk = options["BM"], options["BN"], options["BK"]
    outer_kernel[(options["PROGRAMS"],)](
        blocks_of(a, [1, bk, bm]),
        blocks_of(b, [bk, bn]),
        blocks_of(out.flatten(0, 1), [1, bm, bn // 2]),
        plan.starts,
        plan.counts,
        n_experts,
        p,
        q,
        PLANES=planes,
        **options,
    )
    return out
