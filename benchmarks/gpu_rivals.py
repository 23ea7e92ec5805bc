"""What the fused GPU layer is measured against: plain torch, one expert after the other, and two dense products."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import silu


def plain(x: Tensor, indices: Tensor, weights: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
    """Sort, gather, grouped_mm, SwiGLU, grouped_mm, index_add: plain torch as one would write it."""
    experts, order = torch.sort(indices.flatten(), stable=True)
    token = order // indices.shape[1]
    ends = torch.searchsorted(experts, torch.arange(gate_up.shape[0], device=x.device), right=True).to(torch.int32)
    rows = torch._grouped_mm(x[token], gate_up.transpose(1, 2), offs=ends)
    gate, up = rows.chunk(2, dim=-1)
    rows = torch._grouped_mm(silu(gate) * up, down.transpose(1, 2), offs=ends)
    return torch.zeros_like(x).index_add(0, token, rows * weights.flatten()[order].unsqueeze(1))


def one_by_one(x: Tensor, indices: Tensor, weights: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
    """A loop over the experts, each on the tokens that chose it."""
    y = torch.zeros_like(x)
    for e, (first, second) in enumerate(zip(gate_up.unbind(), down.unbind(), strict=True)):
        token, k = torch.nonzero(indices == e, as_tuple=True)
        gate, up = (x[token] @ first.T).chunk(2, dim=-1)
        y = y.index_add(0, token, (silu(gate) * up) @ second.T * weights[token, k].unsqueeze(1))
    return y


def dense_products(n: int, gate_up: Tensor, down: Tensor) -> Callable[[], tuple[Tensor, Tensor]]:
    """The same multiplications as two products by one expert's matrices: n rows, no routing, no activation."""
    a = torch.randn(n, gate_up.shape[2], dtype=gate_up.dtype, device=gate_up.device)
    b = torch.randn(n, down.shape[2], dtype=down.dtype, device=down.device)
    return lambda: (a @ gate_up[0].T, b @ down[0].T)
