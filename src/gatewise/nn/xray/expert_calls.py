"""Where a model calls its experts: the modules that are called as experts(hidden, indices, weights)."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager, ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn, Tensor

Rewrite = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
"""From hidden states (N, d), indices and weights (N, K) to the indices and weights that the experts then see."""


@dataclass(frozen=True, eq=False)
class ExpertCall:
    """One layer of a mixture: its experts, the block that holds experts and router, and the number of experts M.

    ``name`` is the path of the experts in the model.
    """

    name: str
    experts: nn.Module
    block: nn.Module
    n_experts: int


def expert_calls(model: nn.Module) -> tuple[ExpertCall, ...]:
    """All layers of a model whose experts are called with hidden states, indices and weights, in order.

    These are the stacked experts of the transformers library and those of `gatewise.nn.MoELayer`; shared experts,
    which see every token, are none of them.

    >>> from gatewise.nn import preset
    >>> [call.n_experts for call in expert_calls(nn.Sequential(preset("mixtral", d=8, hidden=4)))]
    [8]
    """
    found = []
    for name, module in model.named_modules():
        n_experts = _count(module)
        if n_experts is not None and _takes_routing(module):
            found.append(ExpertCall(name, module, model.get_submodule(name.rpartition(".")[0]), n_experts))
    return tuple(found)


def _count(module: nn.Module) -> int | None:
    """The number of experts that a module holds: what it says itself, if its parameters are stacked in such a way."""
    said = next((getattr(module, key) for key in ("n_experts", "num_experts") if hasattr(module, key)), None)
    if not type(module).__name__.endswith("Experts"):
        return None
    sizes = {len(parameter) for parameter in module.parameters(recurse=False) if parameter.ndim == 3}
    if isinstance(said, int):
        return said if not sizes or sizes == {said} else None
    return sizes.pop() if len(sizes) == 1 else None


def _takes_routing(module: nn.Module) -> bool:
    """Whether forward takes three tensors: hidden states, indices and weights."""
    taken = inspect.signature(module.forward).parameters.values()
    return sum(one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD) for one in taken) == 3


@contextmanager
def rewritten(rewrites: dict[ExpertCall, Rewrite]) -> Iterator[dict[ExpertCall, int]]:
    """Within the block, every call of the given experts passes its routing through a function first.

    Compiled models run eagerly meanwhile, as hooks that come after compilation are not seen otherwise. The value is
    the number of calls so far, for each of them.
    """
    counts = dict.fromkeys(rewrites, 0)

    def hook(call: ExpertCall, rewrite: Rewrite) -> Callable[..., Any]:
        def change(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            hidden, indices, weights = _routing(call, args, kwargs)
            counts[call] += 1
            indices, weights = rewrite(hidden.reshape(-1, hidden.shape[-1]), indices, weights)
            return (hidden, indices, weights), {}

        return change

    with ExitStack() as stack:
        stack.enter_context(torch.compiler.set_stance("force_eager"))
        for call, rewrite in rewrites.items():
            handle = call.experts.register_forward_pre_hook(hook(call, rewrite), with_kwargs=True)
            stack.callback(handle.remove)
        yield counts


def _routing(call: ExpertCall, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Tensor, Tensor, Tensor]:
    """Hidden states, indices and weights of a call; an error where they are something else."""
    parts = (*args, *kwargs.values())
    if len(parts) != 3 or not all(isinstance(part, Tensor) for part in parts):
        raise ValueError(f"{call.name} must be called with hidden states, indices and weights")
    hidden, indices, weights = parts
    tokens = hidden.numel() // hidden.shape[-1]
    if indices.is_floating_point() or indices.shape != weights.shape or indices.shape[:-1].numel() != tokens:
        raise ValueError(
            f"{call.name} must get one row of indices and weights for each of its {tokens} tokens, not indices of "
            f"shape {tuple(indices.shape)} and weights of shape {tuple(weights.shape)}: such a router cannot be read"
        )
    k = indices.shape[-1]
    return hidden, indices.reshape(-1, k), weights.reshape(-1, k)
