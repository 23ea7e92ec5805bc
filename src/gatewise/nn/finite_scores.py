"""Scores that are not finite: an error that names the router, at once or, on a GPU, at its next call."""

import sys
from types import FrameType
from typing import Any

import torch
from torch import nn, Tensor

from gatewise.nn.transforms import is_batched


class FiniteWatch:
    """Looks whether scores are finite; ``check`` raises a ValueError that names the router.

    On a CPU it does so at once. A GPU is not waited for: its answer is read when it has arrived, at the router's next
    call, and until then the NaN goes on into the layer's output. In a compiled graph on a CPU the check is an
    assertion within the graph; in one on a GPU, or while a CUDA graph is captured, there is none, since an assertion
    there would end the process.
    """

    def __init__(self) -> None:
        self._pending: tuple[Any, Tensor] | None = None

    def __reduce__(self) -> tuple[type["FiniteWatch"], tuple[()]]:
        return FiniteWatch, ()  # a copy watches its own calls

    def check(self, scores: Tensor, router: nn.Module) -> None:
        on_cpu = scores.device.type == "cpu"
        if torch.compiler.is_compiling():
            if on_cpu:
                torch._assert_async(torch.isfinite(scores).all(), _message("the router"))
        elif on_cpu:
            if not is_batched(scores) and not torch.isfinite(scores).all():
                raise ValueError(_message(place_of(router)))
        elif scores.is_cuda and not torch.cuda.is_current_stream_capturing():
            self._look_back(router)
            self._note(torch.isfinite(scores).all())

    def _look_back(self, router: nn.Module) -> None:
        if self._pending is None or not self._pending[0].query():
            return
        (_, finite), self._pending = self._pending, None
        if not finite:
            raise ValueError(_message(place_of(router)) + "; this was an earlier call")

    def _note(self, finite: Tensor) -> None:
        if self._pending is not None:
            return  # the last answer has not arrived
        host = torch.empty((), dtype=torch.bool, pin_memory=True)
        host.copy_(finite, non_blocking=True)
        arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
        arrived.record()
        self._pending = arrived, host


def place_of(module: nn.Module) -> str:
    """How an error calls a module: its type, and its name within the outermost model that is being called."""
    name = ""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        owner = frame.f_locals.get("self")
        if isinstance(owner, nn.Module):
            name = next((path for path, part in owner.named_modules() if part is module), name)
        frame = frame.f_back
    return f"{type(module).__name__} {name!r}" if name else type(module).__name__


def _message(place: str) -> str:
    return f"scores must be finite, but {place} got a NaN or an infinity: check the hidden states and its weights"
