"""An MoE layer of SwiGLU experts in a few Triton kernels, forward and backward, for one Hopper GPU."""

from __future__ import annotations

import torch
from torch import Tensor

from gatewise.nn.fused.autograd import fused
from gatewise.nn.fused.backend import INTERPRETED, triton
from gatewise.nn.fused.few_tokens import FEW, few_swiglu
from gatewise.nn.transforms import is_transformed

__all__ = ["can_fuse", "fused_swiglu"]


def can_fuse(x: Tensor, gate_up: Tensor) -> bool:
    """Whether `fused_swiglu` takes tokens x (T, d) and experts gate_up (M, 2h, d).

    It wants Triton, a GPU of compute capability 9.0, bfloat16 or float16, and d and h that are multiples of 8: the
    copy engine moves rows of whole 16 bytes. Within torch.func and in forward mode nothing can be fused.

    >>> can_fuse(torch.ones(2, 8), torch.ones(4, 16, 8))
    False
    """
    return (
        triton is not None
        and not is_transformed()
        and x.dtype == gate_up.dtype
        and x.dtype in (torch.bfloat16, torch.float16)
        and x.shape[-1] % 8 == 0
        and gate_up.shape[-2] % 16 == 0
        and (INTERPRETED or (x.is_cuda and torch.cuda.get_device_capability(x.device) == (9, 0)))
    )


def fused_swiglu(x: Tensor, indices: Tensor, weights: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
    """y_t = sum_k weights[t, k] down_e (silu(gate_e x_t) * up_e x_t), where e = indices[t, k].

    x (T, d), indices (T, K) of int64, weights (T, K), gate_up (M, 2h, d) with the gate's h rows first, down (M, d, h)
    -> y (T, d). An index of -1 calls no expert, nor does any other outside 0..M-1. Products accumulate in float32;
    `can_fuse` says where it runs.
    """
    if not can_fuse(x, gate_up) or down.dtype != x.dtype:
        raise ValueError(
            f"x of {tuple(x.shape)} {x.dtype} on {x.device} with gate_up of {tuple(gate_up.shape)} {gate_up.dtype} "
            f"and down of {down.dtype} cannot be fused; can_fuse(x, gate_up) says when it can"
        )
    if indices.numel() == 0:
        return x * 0 + (gate_up.sum() + down.sum() + weights.sum()) * 0  # no rows; the gradients are zeros
    keep = torch.is_grad_enabled() and any(t.requires_grad for t in (x, weights, gate_up, down))
    x, weights, gate_up, down = (t.contiguous() for t in (x, weights, gate_up, down))
    if len(x) <= FEW and not keep:
        few: Tensor = few_swiglu(x, indices.contiguous(), weights, gate_up, down)
        return few
    y: Tensor = fused(x, indices, weights, gate_up, down, keep)[0]
    return y
