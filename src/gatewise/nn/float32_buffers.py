"""A module whose buffers stay in the dtype that they have: small steps are lost in half precision."""

from collections.abc import Callable
from typing import Any, Self

from torch import nn, Tensor


class Float32Buffers(nn.Module):
    """Converting the model to another dtype, or loading a state of another one, leaves the buffers in float32."""

    def __init__(self) -> None:
        super().__init__()
        self.register_load_state_dict_post_hook(_in_float32)  # type: ignore[no-untyped-call]

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        before = dict(self._buffers)
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, tensor in self._buffers.items():
            kept = before[name]
            if kept is not None and tensor is not None and tensor.dtype != kept.dtype:
                self._buffers[name] = kept.to(tensor.device)  # moved, not rounded
        return self


def _in_float32(module: nn.Module, _keys: Any) -> None:
    """A state that was loaded by assignment may have brought another dtype."""
    for name, tensor in module._buffers.items():
        if tensor is not None and tensor.is_floating_point():
            module._buffers[name] = tensor.float()
