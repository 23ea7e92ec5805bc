"""What a layer computes, as pure functions of tokens, assignments and stacked expert parameters."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import silu

from gatewise.nn.dispatch import combine, dispatch, spread
from gatewise.nn.grouped import grouped_linear

Activation = Callable[[Tensor], Tensor]


def grouped_swiglu(x: Tensor, indices: Tensor, weights: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
    """y_t = sum_k weights[t, k] down_e (silu(gate_e x_t) * up_e x_t), where e = indices[t, k].

    x (T, d), indices (T, K) of int64, weights (T, K), gate_up (M, 2h, d) with the gate's h rows first, down (M, d, h)
    -> y (T, d) of the dtype of x. An index of -1 calls no expert. Only chosen experts are evaluated, each only on
    its tokens.
    """
    dtype, (x, gate_up, down) = x.dtype, autocast(x, gate_up, down)
    plan = dispatch(indices, gate_up.shape[0])
    rows = grouped_linear(spread(x, plan), gate_up, plan.ends)  # (R, 2h)
    gate, up = rows.chunk(2, dim=-1)
    rows = grouped_linear(silu(gate) * up, down, plan.ends)  # (R, d)
    return combine(rows, _masked(weights, indices), plan).to(dtype)


def dense_swiglu(x: Tensor, weights: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
    """y_t = sum_m weights[t, m] down_m (silu(gate_m x_t) * up_m x_t) over all experts: two matrix products.

    Shapes as in `grouped_swiglu`, weights (T, M).
    """
    dtype, (x, gate_up, down) = x.dtype, autocast(x, gate_up, down)
    gate, up = (x @ gate_up.flatten(0, 1).t()).unflatten(1, (gate_up.shape[0], -1)).chunk(2, dim=-1)  # (T, M, h)
    return _weigh_and_sum(silu(gate) * up, weights, down).to(dtype)


def _weigh_and_sum(hidden: Tensor, weights: Tensor, down: Tensor) -> Tensor:
    """sum_m weights[t, m] down_m hidden[t, m]: hidden (T, M, h), down (M, d, h) -> (T, d)."""
    scaled = (hidden * weights.unsqueeze(-1)).to(hidden.dtype)
    return scaled.flatten(1) @ down.transpose(1, 2).flatten(0, 1)


def _masked(weights: Tensor, indices: Tensor) -> Tensor:
    return torch.where(indices < 0, 0.0, weights)


def autocast(*tensors: Tensor) -> list[Tensor]:
    """The tensors in autocast's dtype where autocast is on: our own operators are unknown to it."""
    device = tensors[0].device.type
    if not torch.is_autocast_enabled(device):
        return list(tensors)
    return [tensor.to(torch.get_autocast_dtype(device)) for tensor in tensors]
