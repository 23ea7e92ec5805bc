"""What a layer does, as arrays: whom it chose with which weights, and what each expert alone would have cost."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn, Tensor

from gatewise.arrays import as_count, Floats
from gatewise.nn.layer import MoELayer
from gatewise.nn.token_router import Routing


@dataclass
class Recording:
    """The routings of a layer since recording began; n is the number of tokens of all calls together."""

    n_experts: int
    routings: list[Routing] = field(default_factory=list)

    @property
    def indices(self) -> NDArray[np.intp]:
        """The chosen experts, (n, K), best first; -1 for none."""
        return self._joined([routing.indices for routing in self.routings]).astype(np.intp)

    @property
    def weights(self) -> Floats:
        """The weights of all experts, (n, M), as the layer used them: they need not have sum one."""
        return self._joined([routing.dense(self.n_experts) for routing in self.routings]).astype(np.float64)

    @property
    def scores(self) -> Floats:
        """The router's scores, (n, M), and those of null experts after them."""
        return self._joined([routing.scores for routing in self.routings]).astype(np.float64)

    @property
    def chosen(self) -> NDArray[np.bool_]:
        """Who is active where, (n, M)."""
        indices = self.indices
        mask = np.zeros((len(indices), self.n_experts + 1), dtype=np.bool_)
        np.put_along_axis(mask, indices, True, axis=1)  # -1 falls on the last column
        return mask[:, : self.n_experts]

    @property
    def shares(self) -> Floats:
        """The weights scaled to sum one, (n, M); a token without an expert has equal weights."""
        weights = self.weights
        total = weights.sum(axis=1, keepdims=True)
        equal = np.full_like(weights, 1.0 / self.n_experts)
        shares: Floats = np.divide(weights, total, out=equal, where=total > 0)
        return shares

    def _joined(self, parts: list[Tensor]) -> NDArray[Any]:
        if not parts:
            raise ValueError("the recording is empty: call the layer within `with record(layer) as recording`")
        joined: NDArray[Any] = torch.cat(parts).numpy()
        return joined


@contextmanager
def record(layer: MoELayer) -> Iterator[Recording]:
    """Record every call of the layer within the block, wherever in a model it stands, on the CPU.

    A compiled model runs eagerly within the block, as it would not see the recording otherwise.

    >>> from gatewise.nn import preset
    >>> layer = preset("mixtral", d=8, hidden=4)
    >>> with record(layer) as recording:
    ...     y = layer(torch.randn(5, 8))
    >>> recording.weights.shape, recording.chosen.sum()
    ((5, 8), np.int64(10))
    """
    _check_layer(layer)
    recording = Recording(layer.n_experts)

    def keep(_module: nn.Module, _inputs: Any, routing: Routing) -> None:
        parts = routing.by_token(layer.n_experts)
        indices, weights, scores = (part.detach().cpu() for part in (parts.indices, parts.weights, parts.scores))
        recording.routings.append(Routing(indices, weights, {}, scores))

    with _hooked(layer, keep):
        yield recording


@contextmanager
def only_expert(layer: MoELayer, m: int) -> Iterator[None]:
    """Within the block expert m alone serves every token, with the sum of its weights, or one if it had none.

    A compiled model runs eagerly within the block.
    """
    _check_layer(layer)
    as_count(m, "m", low=0, high=layer.n_experts - 1)

    def force(_module: nn.Module, _inputs: Any, routing: Routing) -> Routing:
        routing = routing.by_token(layer.n_experts)
        total = routing.weights.sum(1, keepdim=True)
        total = torch.where((routing.indices >= 0).any(1, keepdim=True), total, 1.0)
        return Routing(torch.full_like(routing.indices[:, :1], m), total, routing.losses, routing.scores)

    with _hooked(layer, force):
        yield


@contextmanager
def _hooked(layer: MoELayer, hook: Callable[..., Any]) -> Iterator[None]:
    """A hook after the router; compiled code, which does not know it, is left aside meanwhile."""
    handle = layer.router.register_forward_hook(hook)
    try:
        with torch.compiler.set_stance("force_eager"):
            yield
    finally:
        handle.remove()


def _check_layer(layer: nn.Module) -> None:
    if not isinstance(layer, MoELayer):
        parts = [name for name, part in layer.named_modules() if isinstance(part, MoELayer)]
        found = ", ".join(parts) or "none"
        raise ValueError(f"layer must be a MoELayer, not a {type(layer).__name__}; within this one are: {found}")


@torch.no_grad()
def expert_losses(layer: MoELayer, losses: Callable[[], Tensor]) -> Floats:
    """The loss of every token if expert m alone served it, (n, M): what `gatewise.geometry` wants.

    ``losses()`` runs the model that holds the layer and returns one loss a token, (n,). It is called once for each
    expert, and must be the same function each time: evaluation mode, no dropout.

    The expert serves all tokens of the call. Where tokens see each other, as in a language model, the losses of a
    token are thus those of another context, too; `xray` has the exact ones of single tokens.
    """
    columns = []
    for m in range(layer.n_experts):
        with only_expert(layer, m):
            columns.append(losses().detach().cpu().double().numpy())
        if columns[-1].ndim != 1:
            raise ValueError(f"losses must return one number a token, shape (n,), not {columns[-1].shape}")
    return np.stack(columns, axis=1)
