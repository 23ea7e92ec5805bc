"""The fused layer as an operator with its gradient.

Forward keeps the gate's and the up projection's rows (2 T K h numbers); backward recomputes silu(g) u from them and gathers
the tokens anew. No sum depends on the order in which programs finish: the same input gives the same bits.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gatewise.nn.fused import launch
from gatewise.nn.fused.plan import Plan, capacity
from gatewise.nn.fused.sorting import counted_plan


@torch.library.custom_op("gatewise::fused_swiglu", mutates_args=())
def fused(
    x: Tensor, indices: Tensor, weights: Tensor, gate_up: Tensor, down: Tensor, keep: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The layer's output (T, d), what backward needs (empty unless ``keep``) and the fields of the plan."""
    plan = counted_plan(indices, gate_up.shape[0])
    hidden, pre = launch.up(launch.gather(x, plan), gate_up, plan, keep)
    rows = launch.times(hidden.unsqueeze(0), down.unsqueeze(1), plan, transposed=True)
    return launch.combine(rows, plan, weights), pre, *plan


@torch.library.custom_op("gatewise::fused_swiglu_backward", mutates_args=())
def fused_backward(
    dy: Tensor, x: Tensor, weights: Tensor, gate_up: Tensor, down: Tensor, pre: Tensor, fields: list[Tensor]
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of x, weights, gate_up and down."""
    plan, (n_experts, d, h) = Plan(*fields), down.shape
    dy_rows = launch.gather(dy.contiguous(), plan)
    dh = launch.times(dy_rows.unsqueeze(0), down.unsqueeze(1), plan, transposed=False)
    grads, scaled, d_weights = launch.swiglu_grad(dh, pre, weights, plan)
    d_down = launch.outer(dy_rows.unsqueeze(0), scaled, plan)
    del dy_rows, dh, scaled
    d_gate_up = launch.outer(grads, launch.gather(x, plan), plan)
    d_rows = launch.times(grads, gate_up.view(n_experts, 2, h, d), plan, transposed=False)
    return launch.combine(d_rows, plan, None), d_weights, d_gate_up.view_as(gate_up), d_down.view_as(down)


@fused.register_fake
def _(x: Tensor, indices: Tensor, weights: Tensor, gate_up: Tensor, down: Tensor, keep: bool) -> tuple[Tensor, ...]:
    n_experts, h = down.shape[0], down.shape[2]
    n = capacity(indices.numel(), n_experts)
    sizes = ((n,), tuple(indices.shape), (n_experts,), (n_experts,), (n // launch.BLOCK,), (1,))
    plan = tuple(indices.new_empty(size, dtype=torch.int32) for size in sizes)
    return torch.empty_like(x), x.new_empty((2, n, h) if keep else (0,)), *plan


@fused_backward.register_fake
def _(
    dy: Tensor, x: Tensor, weights: Tensor, gate_up: Tensor, down: Tensor, pre: Tensor, fields: list[Tensor]
) -> tuple[Tensor, ...]:
    return tuple(torch.empty_like(tensor) for tensor in (x, weights, gate_up, down))


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    x, _, weights, gate_up, down, _ = inputs
    ctx.save_for_backward(x, weights, gate_up, down, *output[1:])
    ctx.set_materialize_grads(False)  # the gradients of pre and of the plan are nothing, not arrays of zeros


def _backward(ctx: Any, dy: Tensor, *_: Tensor | None) -> tuple[Tensor | None, ...]:
    x, weights, gate_up, down, pre, *fields = ctx.saved_tensors
    dx, d_weights, d_gate_up, d_down = fused_backward(dy, x, weights, gate_up, down, pre, fields)
    return dx, None, d_weights, d_gate_up, d_down, None


fused.register_autograd(_backward, setup_context=_save)
