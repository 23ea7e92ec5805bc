"""The fused layer as an operator with its gradient.

Forward keeps the gate's and the up projection's rows (2 R h numbers); backward recomputes silu(g) u from them and
spreads the tokens anew. No sum depends on the order in which programs finish: the same input gives the same bits.
"""

from typing import Any

import torch
from torch import Tensor

from gatewise.nn.fused import launch
from gatewise.nn.fused.row_plan import BLOCK, capacity, RowPlan
from gatewise.nn.fused.sorting import counted_plan
from gatewise.nn.fused.tiles import choose

Eight = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]
Four = tuple[Tensor, Tensor, Tensor, Tensor]


def forward(x: Tensor, indices: Tensor, weights: Tensor, gate_up: Tensor, down: Tensor, keep: bool) -> Eight:
    """The layer's output (T, d), what backward needs (empty unless ``keep``) and the fields of the plan."""
    plan, choice = counted_plan(indices, gate_up.shape[0]), choose(down.shape[2])
    rows = x if choice.gather else launch.spread(x, plan)
    hidden, pre = launch.up(rows, gate_up, plan, keep, choice.gather, choice.up)
    out = launch.times(hidden.unsqueeze(0), down.unsqueeze(1), plan, True, choice.down)
    return launch.combine(out, plan, weights), pre, *plan


def backward(
    dy: Tensor, x: Tensor, weights: Tensor, gate_up: Tensor, down: Tensor, pre: Tensor, fields: list[Tensor],
    wanted: list[bool],
) -> Four:  # fmt: skip
    """Gradients of x, weights, gate_up and down; of the last two only where ``wanted``, else an empty tensor."""
    plan, (n_experts, d, h) = RowPlan(*fields), down.shape
    choice, nothing = choose(h), dy.new_empty(0)
    dy_rows = launch.spread(dy.contiguous(), plan)
    dh = launch.times(dy_rows.unsqueeze(0), down.unsqueeze(1), plan, False, choice.back)
    grads, scaled, d_weights = launch.swiglu_grad(dh, pre, weights, plan)
    d_down = launch.outer(dy_rows.unsqueeze(0), scaled, plan, choice.outer).view_as(down) if wanted[1] else nothing
    del dy_rows, dh, scaled
    d_gate_up = nothing.clone()
    if wanted[0]:
        d_gate_up = launch.outer(grads, launch.spread(x, plan), plan, choice.outer).view_as(gate_up)
    d_rows = launch.times(grads, gate_up.view(n_experts, 2, h, d), plan, False, choice.back)
    return launch.combine(d_rows, plan, None), d_weights, d_gate_up, d_down


def _fake(x: Tensor, indices: Tensor, _weights: Tensor, _gate_up: Tensor, down: Tensor, keep: bool) -> Eight:
    n_experts, h = down.shape[0], down.shape[2]
    n = capacity(indices.numel(), n_experts)
    sizes = ((n,), tuple(indices.shape), (n_experts,), (n_experts,), (n // BLOCK,), (1,))
    plan = RowPlan(*(indices.new_empty(size, dtype=torch.int32) for size in sizes))
    return torch.empty_like(x), x.new_empty((2, n, h) if keep else (0,)), *plan


def _fake_backward(
    dy: Tensor, x: Tensor, weights: Tensor, gate_up: Tensor, down: Tensor, _pre: Tensor, _fields: list[Tensor],
    wanted: list[bool],
) -> Four:  # fmt: skip
    experts = (torch.empty_like(t) if w else dy.new_empty(0) for t, w in zip((gate_up, down), wanted, strict=True))
    d_gate_up, d_down = experts
    return torch.empty_like(x), torch.empty_like(weights), d_gate_up, d_down


fused = torch.library.custom_op("gatewise::fused_swiglu", forward, mutates_args=())
fused_backward = torch.library.custom_op("gatewise::fused_swiglu_backward", backward, mutates_args=())
fused.register_fake(_fake)
fused_backward.register_fake(_fake_backward)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Eight) -> None:
    x, _, weights, gate_up, down, _ = inputs
    ctx.save_for_backward(x, weights, gate_up, down, *output[1:])
    ctx.set_materialize_grads(False)  # the gradients of pre and of the plan are nothing, not arrays of zeros


def _backward(ctx: Any, dy: Tensor, *_: Tensor | None) -> tuple[Tensor | None, ...]:
    x, weights, gate_up, down, pre, *fields = ctx.saved_tensors
    wanted = [bool(ctx.needs_input_grad[3]), bool(ctx.needs_input_grad[4])]
    dx, d_weights, d_gate_up, d_down = fused_backward(dy, x, weights, gate_up, down, pre, fields, wanted)
    return dx, None, d_weights, d_gate_up if wanted[0] else None, d_down if wanted[1] else None, None


fused.register_autograd(_backward, setup_context=_save)
