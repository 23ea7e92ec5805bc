"""One function per kernel: allocate, choose tiles, launch. Rows are those of a `Plan`."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from gatewise.nn.fused.backend import blocks_of, next_power_of_two, processors, triton
from gatewise.nn.fused.matmul import outer_kernel, rows_kernel, up_gather_kernel, up_kernel
from gatewise.nn.fused.plan import BLOCK, Plan
from gatewise.nn.fused.rows import combine_kernel, gather_kernel, swiglu_grad_kernel


class Tiles(NamedTuple):
    """How a product is cut: columns and depth of a tile, tiles of rows per group, and what one program is given."""

    columns: int
    depth: int
    group: int
    warps: int
    stages: int
    per_processor: int = 1
    flatten: bool = False

    def options(self, tensor: Tensor) -> dict[str, Any]:
        return {
            "BM": BLOCK,
            "BN": self.columns,
            "BK": self.depth,
            "GROUP": self.group,
            "PROGRAMS": processors(tensor) * self.per_processor,
            "FLATTEN": self.flatten,
            "num_warps": self.warps,
            "num_stages": self.stages,
        }


UP = Tiles(columns=128, depth=64, group=8, warps=8, stages=3, flatten=True)
ROWS = Tiles(columns=256, depth=64, group=8, warps=8, stages=3)
OUTER = Tiles(columns=256, depth=64, group=8, warps=8, stages=3)


def gather(source: Tensor, plan: Plan, lines: int = 4, width: int = 1024, warps: int = 4) -> Tensor:
    """The token of every row, zeros for padding: source (T, d) -> (R, d)."""
    d, k = source.shape[1], plan.positions.shape[1]
    out = source.new_empty(plan.rows.numel(), d)
    width = min(next_power_of_two(d), width)
    grid = (plan.rows.numel() // lines,)
    gather_kernel[grid](source, plan.rows, plan.tiles, out, d, k, BLOCK, lines, width, num_warps=warps)
    return out


def combine(rows: Tensor, plan: Plan, weights: Tensor | None) -> Tensor:
    """Sum of a token's rows, weighted where weights (T, K) are given: rows (R, d) -> (T, d)."""
    (tokens, k), d = plan.positions.shape, rows.shape[1]
    out = rows.new_empty(tokens, d)
    width = min(next_power_of_two(d), 2048)
    combine_kernel[(tokens, triton.cdiv(d, width))](
        rows, plan.positions, weights, out, d, k, weights is not None, width, num_warps=4
    )
    return out


def up(rows: Tensor, gate_up: Tensor, plan: Plan, keep: bool, tiles: Tiles = UP) -> tuple[Tensor, Tensor]:
    """silu(gate x) * (up x) of every row, and where ``keep`` also the two factors: (R, d) -> (R, h), (2, R, h)."""
    n, d = rows.shape
    h = gate_up.shape[1] // 2
    hidden = rows.new_empty(n, h)
    pre = rows.new_empty((2, n, h) if keep else (1, 1, h))
    options = tiles.options(rows)
    bm, bn, bk = options["BM"], options["BN"], options["BK"]
    up_kernel[(options["PROGRAMS"],)](
        blocks_of(rows, [bm, bk]),
        blocks_of(gate_up.view(-1, h, d), [2, bn, bk]),
        blocks_of(hidden, [bm, bn]),
        blocks_of(pre, [1, bm, bn]),
        plan.experts,
        plan.tiles,
        d,
        h,
        KEEP=keep,
        **options,
    )
    return hidden, pre if keep else pre.new_empty(0)


def times(a: Tensor, b: Tensor, plan: Plan, transposed: bool, tiles: Tiles = ROWS) -> Tensor:
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


def swiglu_grad(dh: Tensor, pre: Tensor, weights: Tensor, plan: Plan) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of gate and up (2, R, h), weighted hidden rows (R, h) and the gradient of the weights, from dh (R, h)."""
    n, h = dh.shape
    grads, scaled = torch.empty_like(pre), torch.empty_like(dh)
    of_rows = torch.empty(n, dtype=torch.float32, device=dh.device)
    width = min(next_power_of_two(h), 1024)
    lines = max(1, 2048 // width)
    swiglu_grad_kernel[(n // lines,)](
        dh, pre, weights, plan.rows, plan.tiles, grads, scaled, of_rows, n, h, BLOCK, lines, width, num_warps=4
    )
    d_weights = torch.where(plan.positions < 0, 0.0, of_rows[plan.positions.clamp(min=0)])
    return grads, scaled, d_weights.to(weights.dtype)


def up_gather(x: Tensor, gate_up: Tensor, plan: Plan, keep: bool, tiles: Tiles = UP) -> tuple[Tensor, Tensor]:
    n, d = plan.rows.numel(), x.shape[1]
    h = gate_up.shape[1] // 2
    hidden = x.new_empty(n, h)
    pre = x.new_empty((2, n, h) if keep else (1, 1, h))
    options = tiles.options(x)
    bm, bn, bk = options["BM"], options["BN"], options["BK"]
    up_gather_kernel[(options["PROGRAMS"],)](
        x,
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
        **options,
    )
    return hidden, pre if keep else pre.new_empty(0)


def outer(a: Tensor, b: Tensor, plan: Plan, tiles: Tiles = OUTER) -> Tensor:
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
