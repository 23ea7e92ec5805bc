"""Devices that PyTorch knows, and the way of arrays to them and back."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from gatewise.arrays import Floats


def as_device(device: str) -> torch.device:
    """The device of that name, or an error that names the remedy.

    >>> as_device("cpu")
    device(type='cpu')
    """
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"device must be None, 'cpu', 'cuda' or 'cuda:0', not {device!r}") from error
    if found.type == "cuda" and (found.index or 0) >= torch.cuda.device_count():
        raise ValueError(f"device={device!r} was asked for, but PyTorch sees no such GPU; leave device=None")
    return found


def numbers_of(tensor: Tensor) -> Floats:
    """A copy of a tensor as an array of float64."""
    return np.asarray(tensor.detach().to("cpu", torch.float64).numpy())
