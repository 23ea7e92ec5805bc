"""From tokens to experts and back: sort assignments by expert, spread the rows, put them back.

An assignment is a pair (token, place) with an expert, or with -1 for none. All T * K assignments stay in one sorted
list, those without an expert last, so that no shape depends on the data.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor


class Dispatch(NamedTuple):
    """Assignments sorted by expert.

    ``order`` (R,) lists the places t * K + k of the R = T * K assignments expert by expert, ``inverse`` (R,) the row
    of every place, ``experts`` (R,) the expert of every row (M for none). Expert m owns the rows from ``ends[m - 1]``
    to ``ends[m]``, ends (M,). ``k`` is K.
    """

    order: Tensor
    inverse: Tensor
    experts: Tensor
    ends: Tensor
    k: int


def dispatch(indices: Tensor, n_experts: int) -> Dispatch:
    """Sort the assignments of indices (T, K) by expert; -1 goes last and belongs to nobody.

    >>> dispatch(torch.tensor([[1, 0], [1, -1]]), 2).ends
    tensor([1, 3], dtype=torch.int32)
    """
    labels = torch.where(indices < 0, n_experts, indices).flatten()
    experts, order = torch.sort(labels, stable=True)
    places = torch.arange(order.numel(), device=order.device)
    inverse = torch.empty_like(order).scatter_(0, order, places)
    counts = torch.zeros(n_experts + 1, dtype=torch.int64, device=order.device)
    counts = counts.scatter_add(0, labels, torch.ones_like(labels))
    return Dispatch(order, inverse, experts, counts[:n_experts].cumsum(0).to(torch.int32), indices.shape[1])


@torch.library.custom_op("gatewise::spread", mutates_args=())
def _spread(x: Tensor, order: Tensor, inverse: Tensor, k: int) -> Tensor:  # noqa: ARG001
    """x[order // k]. Its adjoint sums over a token's places in their order, which index_add does not promise."""
    return x.index_select(0, order // k)


@torch.library.custom_op("gatewise::permute", mutates_args=())
def _permute(rows: Tensor, there: Tensor, back: Tensor) -> Tensor:  # noqa: ARG001
    """rows[there], where ``back`` is the inverse permutation: no scatter in either direction."""
    return rows.index_select(0, there)


def spread(x: Tensor, plan: Dispatch) -> Tensor:
    """The token of every sorted assignment: x (T, d) -> (R, d)."""
    rows: Tensor = _spread(x, plan.order, plan.inverse, plan.k)
    return rows


def combine(rows: Tensor, weights: Tensor, plan: Dispatch) -> Tensor:
    """y_t = sum_k weights[t, k] * the row of assignment (t, k): rows (R, d) -> (T, d)."""
    placed: Tensor = _permute(rows, plan.inverse, plan.order)
    placed = placed.view(-1, plan.k, rows.shape[1])  # (T, K, d)
    return (placed * weights.unsqueeze(-1)).sum(1)


@_spread.register_fake
def _(x: Tensor, order: Tensor, inverse: Tensor, k: int) -> Tensor:  # noqa: ARG001
    return x.new_empty(order.shape[0], x.shape[1])


@_permute.register_fake
def _(rows: Tensor, there: Tensor, back: Tensor) -> Tensor:  # noqa: ARG001
    return torch.empty_like(rows, memory_format=torch.contiguous_format)


def _save_spread(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor, int], output: Tensor) -> None:  # noqa: ARG001
    ctx.save_for_backward(*inputs[1:3])
    ctx.k = inputs[3]


def _spread_backward(ctx: Any, g: Tensor) -> tuple[Tensor, None, None, None]:
    order, inverse = ctx.saved_tensors
    return _permute(g, inverse, order).view(-1, ctx.k, g.shape[1]).sum(1), None, None, None


def _save_permute(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor], output: Tensor) -> None:  # noqa: ARG001
    ctx.save_for_backward(*inputs[1:])


def _permute_backward(ctx: Any, g: Tensor) -> tuple[Tensor, None, None]:
    there, back = ctx.saved_tensors
    return _permute(g, back, there), None, None


_spread.register_autograd(_spread_backward, setup_context=_save_spread)
_permute.register_autograd(_permute_backward, setup_context=_save_permute)
