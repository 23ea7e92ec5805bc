"""What a layer computes, as pure functions of tokens, assignments and stacked expert parameters."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import silu

from gatewise.nn.dispatch import combine, Dispatch, dispatch, spread
from gatewise.nn.grouped import grouped_linear
from gatewise.nn.transforms import is_transformed

Activation = Callable[[Tensor], Tensor]
Affine = tuple[Tensor, Tensor | None]  # a matrix for each expert, and a bias or none


def grouped_swiglu(x: Tensor, indices: Tensor, weights: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
    """y_t = sum_k weights[t, k] down_e (silu(gate_e x_t) * up_e x_t), where e = indices[t, k].

    x (T, d), indices (T, K) of int64, weights (T, K), gate_up (M, 2h, d) with the gate's h rows first, down (M, d, h)
    -> y (T, d) of the dtype of x. An index of -1 calls no expert. Only chosen experts are evaluated, each only on
    its tokens; but all of them within torch.func and in forward mode, which do not know our operators.

    >>> x, indices, weights = torch.ones(1, 1), torch.tensor([[1]]), torch.tensor([[2.0]])
    >>> grouped_swiglu(x, indices, weights, gate_up=torch.ones(2, 2, 1), down=torch.tensor([[[0.0]], [[1.0]]]))
    tensor([[1.4621]])
    """
    if is_transformed():
        return dense_swiglu(x, dense_weights(indices, weights, len(down)), gate_up, down)
    dtype, (x, gate_up, down) = x.dtype, autocast(x, gate_up, down)
    plan = dispatch(indices, gate_up.shape[0])
    gate, up = grouped_linear(spread(x, plan), gate_up, plan.ends).chunk(2, dim=-1)  # both (R, h)
    rows = grouped_linear(silu(gate) * up, down, plan.ends)  # (R, d)
    return combine(rows, masked(weights, indices), plan).to(dtype)


def dense_swiglu(x: Tensor, weights: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
    """y_t = sum_m weights[t, m] down_m (silu(gate_m x_t) * up_m x_t) over all experts: two matrix products.

    Shapes as in `grouped_swiglu`, weights (T, M).
    """
    dtype, (x, gate_up, down) = x.dtype, autocast(x, gate_up, down)
    gate, up = _all_experts(x, gate_up).chunk(2, dim=-1)  # both (T, M, h)
    return _weigh_and_sum(silu(gate) * up, weights, down).to(dtype)


def grouped_mlp(x: Tensor, indices: Tensor, weights: Tensor, up: Affine, down: Affine, phi: Activation) -> Tensor:
    """y_t = sum_k weights[t, k] (D_e phi(U_e x_t + u_e) + v_e), where e = indices[t, k].

    ``up`` is U (M, h, d) and u (M, h), ``down`` is D (M, q, h) and v (M, q); a bias may be None. x (T, d), y (T, q).
    """
    if is_transformed():
        return dense_mlp(x, dense_weights(indices, weights, len(up[0])), up, down, phi)
    dtype, (x, U, D) = x.dtype, autocast(x, up[0], down[0])
    plan = dispatch(indices, U.shape[0])
    rows = phi(_plus(grouped_linear(spread(x, plan), U, plan.ends), up[1], plan))  # (R, h)
    rows = _plus(grouped_linear(rows, D, plan.ends), down[1], plan)  # (R, q)
    return combine(rows, masked(weights, indices), plan).to(dtype)


def dense_mlp(x: Tensor, weights: Tensor, up: Affine, down: Affine, phi: Activation) -> Tensor:
    """y_t = sum_m weights[t, m] (D_m phi(U_m x_t + u_m) + v_m) over all experts; shapes as in `grouped_mlp`."""
    dtype, (x, U, D) = x.dtype, autocast(x, up[0], down[0])
    hidden = _all_experts(x, U)  # (T, M, h)
    hidden = phi(hidden if up[1] is None else hidden + up[1].to(hidden.dtype))
    y = _weigh_and_sum(hidden, weights, D)
    return (y if down[1] is None else y + weights.to(y.dtype) @ down[1].to(y.dtype)).to(dtype)


def _all_experts(x: Tensor, weight: Tensor) -> Tensor:
    """weight_m x_t for all: x (T, d), weight (M, h, d) -> (T, M, h)."""
    return (x @ weight.flatten(0, 1).t()).view(-1, *weight.shape[:2])


def _weigh_and_sum(hidden: Tensor, weights: Tensor, down: Tensor) -> Tensor:
    """sum_m weights[t, m] down_m hidden[t, m]: hidden (T, M, h), down (M, q, h) -> (T, q)."""
    scaled = (hidden * weights.unsqueeze(-1)).to(hidden.dtype)
    return scaled.flatten(1) @ down.transpose(1, 2).flatten(0, 1)


def _plus(rows: Tensor, bias: Tensor | None, plan: Dispatch) -> Tensor:
    """rows (R, h) plus the bias (M, h) of their expert, as a product with ones.

    The gradient is then a product, too; that of an index adds in an order that threads decide.
    """
    if bias is None:
        return rows
    biases: Tensor = grouped_linear(rows.new_ones(len(rows), 1), bias.to(rows.dtype).unsqueeze(-1), plan.ends)
    return rows + biases


def masked(weights: Tensor, indices: Tensor) -> Tensor:
    """The weights with zero where there is no expert."""
    return torch.where(indices < 0, 0.0, weights)


def dense_weights(indices: Tensor, weights: Tensor, n_experts: int) -> Tensor:
    """The weights of all experts, (T, M), from those of the chosen.

    >>> dense_weights(torch.tensor([[2, 0], [1, -1]]), torch.tensor([[0.7, 0.3], [1.0, 0.0]]), 3)
    tensor([[0.3000, 0.0000, 0.7000],
            [0.0000, 1.0000, 0.0000]])
    """
    table = weights.new_zeros(len(indices), n_experts)
    return table.scatter_add(1, indices.clamp(min=0), masked(weights, indices))


def autocast(*tensors: Tensor) -> list[Tensor]:
    """The tensors in autocast's dtype where autocast is on: our own operators are unknown to it."""
    device = tensors[0].device.type
    if not torch.is_autocast_enabled(device):
        return list(tensors)
    return [tensor.to(torch.get_autocast_dtype(device)) for tensor in tensors]


def recomputing() -> bool:
    """Whether a backward pass is under way, in which checkpointing calls modules a second time."""
    return not torch.compiler.is_compiling() and torch._C._current_graph_task_id() != -1
