"""To a safetensors file and back. The file holds tensors only; code builds the layer, and the names must match."""

from os import PathLike

import torch
from safetensors.torch import load_file, save_file
from torch import nn


def save(module: nn.Module, path: str | PathLike[str]) -> None:
    """Write the state of a layer, or of any module, to a safetensors file."""
    state = {name: tensor.detach().contiguous() for name, tensor in module.state_dict().items()}
    save_file(state, path, metadata={"format": "pt"})


def load(module: nn.Module, path: str | PathLike[str]) -> None:
    """Read into a module of the same make; names or shapes that differ are an error that lists them.

    A module on the "meta" device, which has sizes but no memory, takes over the tensors of the file, on the CPU.
    """
    device = next((parameter.device for parameter in module.parameters()), torch.device("cpu"))
    bare = device.type == "meta"
    try:
        state = load_file(path, device="cpu" if bare else str(device))
        module.load_state_dict(state, assign=bare)
    except RuntimeError as error:
        raise ValueError(f"path must hold the state of a {type(module).__name__} of this make: {error}") from error
    if bare:
        materialize(module, torch.device("cpu"))


def materialize(module: nn.Module, device: torch.device) -> None:
    """Give the buffers on the "meta" device that no state holds, such as counts of loads, zeros on a device."""
    for part in module.modules():
        for name, buffer in part.named_buffers(recurse=False):
            if buffer.is_meta:
                part.register_buffer(name, torch.zeros_like(buffer, device=device), persistent=False)
