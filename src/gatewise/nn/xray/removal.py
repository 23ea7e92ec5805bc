"""A model without some of its experts: their routers choose among the others, in each model's own way."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, ExitStack
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from gatewise.nn.xray.expert_calls import ExpertCall

CHOICES = (torch.topk, Tensor.topk, torch.sort)  # layers of gatewise.nn sort, which settles ties
MAXIMA = (torch.max, Tensor.max, torch.argmax, Tensor.argmax)  # routers that choose one expert after the other


class _Barred(TorchFunctionMode):
    """Within it, scores of some experts are the least there are: for softmax, for sigmoid and for Top-K.

    ``gone`` (M,) says which; None switches the mode off. The router's product is known by the shape of its matrix,
    (M, d), and Top-K by the M columns of what it chooses from, or by groups of M / G columns.
    """

    def __init__(self) -> None:
        super().__init__()
        self.gone: Tensor | None = None
        self.products = self.chosen = 0

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        gone, kwargs = self.gone, kwargs or {}
        if gone is None:
            return func(*args, **kwargs)
        if func is functional.linear:
            scores = func(*args, **kwargs)
            if args[1].ndim != 2 or len(args[1]) != len(gone):
                return scores
            self.products += 1
            return _least(scores, gone)
        if args and (func in CHOICES or (func in MAXIMA and _along_an_axis(args, kwargs))):
            barred = gone.view(_grouping(args[0], len(gone)))
            if barred.numel() == len(gone) and args[0].shape[-barred.ndim :] == barred.shape:
                self.chosen += int(barred.ndim == 1)
                return func(args[0].masked_fill(barred, float("-inf")), *args[1:], **kwargs)
        return func(*args, **kwargs)


def _along_an_axis(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a maximum is that of a tensor over one of its axes, neither over all of it nor of two tensors."""
    return kwargs.get("dim", args[1] if len(args) > 1 else None).__class__ is int


def _least(scores: Tensor, gone: Tensor) -> Tensor:
    """Half of the least number there is: its softmax and its sigmoid are zero, and adding to it does not overflow."""
    return scores.masked_fill(gone, torch.finfo(scores.dtype).min / 2)


def _grouping(scores: Tensor, n_experts: int) -> tuple[int, ...]:
    """(M,), or (G, M / G) where the last two axes hold the experts by group."""
    if scores.ndim > 2 and scores.shape[-1] != n_experts and scores.shape[-2:].numel() == n_experts:
        return tuple(scores.shape[-2:])
    return (n_experts,)


@contextmanager
def without(removed: Mapping[ExpertCall, Tensor]) -> Iterator[None]:
    """Within the block the routers of some layers do not know some of their experts, (M,) booleans a layer.

    Routers of transformers and those of `gatewise.nn` multiply hidden states by a matrix (M, d) and choose by Top-K,
    or by one maximum after the other; one that does not is refused, as is one whose M is the size d of the hidden
    states.
    """
    mode = _Barred()
    with ExitStack() as stack:
        stack.enter_context(torch.compiler.set_stance("force_eager"))
        for call, gone in removed.items():
            _check(call, gone)
            for handle in _switches(mode, call, gone):
                stack.callback(handle.remove)
        stack.enter_context(mode)
        yield
    if removed and not mode.chosen:
        raise ValueError(
            f"the router of {next(iter(removed)).name} must choose by Top-K or maxima to be asked for the next best"
        )


def _switches(mode: _Barred, call: ExpertCall, gone: Tensor) -> Iterator[Any]:
    """On from the start of the block until its experts are called, and off if the block ends before that."""

    def on(*_ignored: Any) -> None:
        mode.gone = gone.to(next(call.experts.parameters()).device)

    def off(*_ignored: Any) -> None:
        mode.gone = None

    yield call.block.register_forward_pre_hook(on, with_kwargs=True)
    yield call.experts.register_forward_pre_hook(off, prepend=True)
    yield call.block.register_forward_hook(off, always_call=True)


def _check(call: ExpertCall, gone: Tensor) -> None:
    width = next((p.shape[1] for p in call.block.parameters() if p.ndim == 2 and len(p) == call.n_experts), None)
    if width == call.n_experts:
        raise ValueError(
            f"the router of {call.name} cannot be told from other products, as there are as many experts as hidden "
            f"states have numbers, {width}"
        )
    if bool(gone.all()):
        raise ValueError(f"at least one expert of {call.name} must stay")
