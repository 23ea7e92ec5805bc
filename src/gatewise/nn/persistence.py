"""To a safetensors file and back. The file holds tensors only; code builds the layer, and the names must match."""

from os import PathLike

from safetensors.torch import load_file, save_file
from torch import nn


def save(module: nn.Module, path: str | PathLike[str]) -> None:
    """Write the state of a layer, or of any module, to a safetensors file."""
    state = {name: tensor.detach().contiguous() for name, tensor in module.state_dict().items()}
    save_file(state, path, metadata={"format": "pt"})


def load(module: nn.Module, path: str | PathLike[str]) -> None:
    """Read into a module of the same make; names or shapes that differ are an error that lists them."""
    device = next((str(parameter.device) for parameter in module.parameters()), "cpu")
    try:
        module.load_state_dict(load_file(path, device=device))
    except RuntimeError as error:
        raise ValueError(f"path must hold the state of a {type(module).__name__} of this make: {error}") from error
