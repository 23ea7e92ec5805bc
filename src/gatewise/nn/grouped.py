"""One matrix product per expert over sorted rows: torch's grouped_mm on a GPU, a loop over groups elsewhere.

Both products are operators of their own, because the loop reads where the groups end: torch.compile then takes each
as one node and the graph does not break. Rows beyond the last group belong to nobody; they come out as zeros.
"""

from typing import Any

import torch
from torch import Tensor


@torch.library.custom_op("gatewise::grouped_linear", mutates_args=())
def grouped_linear(x: Tensor, weight: Tensor, ends: Tensor) -> Tensor:
    """Row r of expert m becomes weight_m x_r: x (R, p), weight (M, q, p), ends (M,) -> (R, q).

    >>> x, weight = torch.ones(3, 1), torch.tensor([[[1.0]], [[2.0]]])
    >>> grouped_linear(x, weight, torch.tensor([1, 2], dtype=torch.int32)).T
    tensor([[1., 2., 0.]])
    """
    if _has_fast_path(x, weight):
        rows = torch.nn.functional.grouped_mm(x, weight.transpose(1, 2), offs=ends)
        return rows.masked_fill_(_beyond(x, ends), 0.0)
    out = x.new_zeros(x.shape[0], weight.shape[1])
    for m, start, end in _groups(ends):
        torch.mm(x[start:end], weight[m].t(), out=out[start:end])
    return out


@torch.library.custom_op("gatewise::grouped_outer", mutates_args=())
def grouped_outer(g: Tensor, x: Tensor, ends: Tensor) -> Tensor:
    """sum over the rows of expert m of g_r x_r': g (R, q), x (R, p) -> (M, q, p)."""
    if _has_fast_path(x, g):
        out = torch.nn.functional.grouped_mm(g.t(), x, offs=ends)
        return out.masked_fill_(_idle(ends), 0.0)
    out = x.new_zeros(ends.numel(), g.shape[1], x.shape[1])
    for m, start, end in _groups(ends):
        torch.mm(g[start:end].t(), x[start:end], out=out[m])
    return out


def _has_fast_path(x: Tensor, other: Tensor) -> bool:
    """grouped_mm on a GPU wants bfloat16 and rows of whole 16 bytes; on some processors its bfloat16 crashes."""
    sizes = (x.shape[-1], *(other.shape[1:]))
    return (
        hasattr(torch.nn.functional, "grouped_mm")
        and x.is_cuda
        and x.dtype == other.dtype == torch.bfloat16
        and all(size % 8 == 0 for size in sizes)
        and x.shape[0] > 0
    )


def _beyond(x: Tensor, ends: Tensor) -> Tensor:
    """Which rows belong to nobody, (R, 1)."""
    return (torch.arange(x.shape[0], device=x.device) >= ends[-1]).unsqueeze(1)


def _idle(ends: Tensor) -> Tensor:
    """Which experts have no rows, (M, 1, 1)."""
    return (ends == torch.cat([ends.new_zeros(1), ends[:-1]])).view(-1, 1, 1)


def _groups(ends: Tensor) -> list[tuple[int, int, int]]:
    """The experts that have rows, each with its first row and the one after its last."""
    stops = ends.tolist()
    starts = [0, *stops[:-1]]
    return [(m, *rows) for m, rows in enumerate(zip(starts, stops, strict=True)) if rows[0] < rows[1]]


@grouped_linear.register_fake
def _(x: Tensor, weight: Tensor, ends: Tensor) -> Tensor:  # noqa: ARG001
    return x.new_empty(x.shape[0], weight.shape[1])


@grouped_outer.register_fake
def _(g: Tensor, x: Tensor, ends: Tensor) -> Tensor:
    return x.new_empty(ends.numel(), g.shape[1], x.shape[1])


def _save(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor], output: Tensor) -> None:  # noqa: ARG001
    ctx.save_for_backward(*inputs)


def _linear_backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
    x, weight, ends = ctx.saved_tensors
    wants_x, wants_weight, _ = ctx.needs_input_grad
    g = g.contiguous()
    to_x = grouped_linear(g, weight.transpose(1, 2), ends) if wants_x else None
    return to_x, grouped_outer(g, x, ends) if wants_weight else None, None


def _outer_backward(ctx: Any, big: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
    g, x, ends = ctx.saved_tensors
    wants_g, wants_x, _ = ctx.needs_input_grad
    to_g = grouped_linear(x, big, ends) if wants_g else None
    return to_g, grouped_linear(g, big.transpose(1, 2), ends) if wants_x else None, None


grouped_linear.register_autograd(_linear_backward, setup_context=_save)
grouped_outer.register_autograd(_outer_backward, setup_context=_save)
