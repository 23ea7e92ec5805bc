"""Triton where it is installed; where it is not, the modules of kernels still import and only a launch fails."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

try:
    triton: Any = import_module("triton")
    tl: Any = import_module("triton.language")
    TensorDescriptor: Any = import_module("triton.tools.tensor_descriptor").TensorDescriptor
except ModuleNotFoundError:
    triton = tl = TensorDescriptor = None

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
EARLY = not INTERPRETED  # kernels of one call overlap: each starts while the one before it ends


def jit(function: Callable[..., None]) -> Any:
    """``triton.jit``, or the function itself where there is no Triton."""
    return function if triton is None else triton.jit(function)


def blocks_of(tensor: Tensor, shape: list[int]) -> Any:
    """A descriptor of the tensor by blocks of ``shape``: the copy engine reads zeros and writes nothing outside."""
    return TensorDescriptor.from_tensor(tensor, shape)


def early(is_early: bool) -> dict[str, bool]:
    """The keyword that lets a kernel start before the one ahead of it has ended; the interpreter does not know it."""
    return {"launch_pdl": True} if is_early and not INTERPRETED else {}


def processors(tensor: Tensor) -> int:
    """The number of multiprocessors of the tensor's device; two where the kernels are interpreted."""
    return torch.cuda.get_device_properties(tensor.device).multi_processor_count if tensor.is_cuda else 2


def next_power_of_two(n: int) -> int:
    """The smallest power of two that is at least n.

    >>> next_power_of_two(5)
    8
    """
    return 1 << max(n - 1, 0).bit_length()
