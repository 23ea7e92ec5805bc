"""The layer: route, ask the chosen experts, add the shared ones."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn, Tensor

from gatewise.nn.finite_scores import place_of
from gatewise.nn.functional import recomputing
from gatewise.nn.stacked_experts import Experts, ModuleExperts
from gatewise.nn.token_router import AbstractRouter, Routing


class MoELayer(nn.Module):
    """y = sum_l shared_l(x) + sum_m g_m(x) routed_m(x) (`eq:formulation_MoE_shared`).

    ``experts`` are an `Experts` module or any iterable of modules (n, d) -> (n, q); ``router`` is a `Router` or a
    `HierarchicalRouter`. Leading axes of x are tokens: (..., d) -> (..., q); ``mask`` (...) is False at padding,
    which no routed expert sees and no loss counts. After a call in training mode ``losses`` holds the router's
    auxiliary losses by name; `auxiliary_loss` sums those of a whole model.

    >>> from gatewise.nn import LinearScores, Router, SwiGLUExperts, TopK
    >>> layer = MoELayer(SwiGLUExperts(4, d=8, hidden=16), Router(LinearScores(8, 4), TopK(2)))
    >>> layer(torch.zeros(2, 5, 8)).shape
    torch.Size([2, 5, 8])
    """

    def __init__(
        self, experts: Experts | Iterable[nn.Module], router: AbstractRouter, shared: Iterable[nn.Module] = ()
    ) -> None:
        super().__init__()
        self.experts = experts if isinstance(experts, Experts) else ModuleExperts(experts)
        self.router = router
        self.shared = nn.ModuleList(shared)
        self.losses: dict[str, Tensor] = {}
        if router.n_experts != self.experts.n_experts:
            raise ValueError(
                f"router must weigh as many experts as there are, {self.experts.n_experts}, not {router.n_experts}"
            )
        if self.experts.d not in (None, router.d):
            raise ValueError(
                f"router must take hidden states of size {self.experts.d}, as experts do, not {router.d}"
            )

    @property
    def d(self) -> int:
        """The size of the hidden states."""
        return self.router.d

    @property
    def n_experts(self) -> int:
        """How many routed experts there are, M."""
        return self.experts.n_experts

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        self._check(x)
        routing: Routing = self.router(x, mask)
        self._keep(routing.losses)
        tokens = x.reshape(-1, self.d)
        y = self._routed(tokens, routing)
        for expert in self.shared:
            y = y + expert(tokens)
        return y.reshape(*x.shape[:-1], y.shape[-1])

    def _routed(self, tokens: Tensor, routing: Routing) -> Tensor:
        """The weighted sum of the routed experts, (T, q)."""
        rows = tokens if routing.tokens is None else tokens.index_select(0, routing.tokens)
        y: Tensor = self.experts(rows, routing.indices, routing.weights)
        return y if routing.tokens is None else y.new_zeros(len(tokens), y.shape[1]).index_add(0, routing.tokens, y)

    def _keep(self, losses: dict[str, Tensor]) -> None:
        """Remember the losses of a forward pass; what checkpointing computes anew in backward is not one."""
        if not recomputing():
            self.losses = losses
        elif any(loss.requires_grad and not self.losses[name].requires_grad for name, loss in losses.items()):
            raise RuntimeError(
                f"the auxiliary losses of {place_of(self)} have no gradient under reentrant checkpointing, whose "
                "first forward pass keeps no graph: checkpoint with use_reentrant=False"
            )

    def _check(self, x: Tensor) -> None:
        if x.shape[-1] != self.d:
            raise ValueError(f"x must have hidden size {self.d} on its last axis, but its shape is {tuple(x.shape)}")
        wanted = self.experts.dtype
        if wanted not in (None, x.dtype) and not torch.is_autocast_enabled(x.device.type):
            raise ValueError(
                f"x must have the dtype of the experts of {place_of(self)}, {wanted}, not {x.dtype}: convert one of "
                "them, or call the layer within torch.autocast"
            )

    def __getstate__(self) -> dict[str, Any]:
        # The losses belong to one call; tensors within a graph can be neither copied nor pickled.
        return {**self.__dict__, "losses": {}}


def auxiliary_loss(model: nn.Module) -> Tensor:
    """The sum of the auxiliary losses of all layers of a model at their last call in training mode, zero if none."""
    losses = [loss for module in model.modules() if isinstance(module, MoELayer) for loss in module.losses.values()]
    return torch.stack(losses).sum() if losses else torch.zeros(())
