"""Two levels of routers: first a group of experts, then experts within it."""

from collections.abc import Sequence

import torch
from torch import Tensor

from gatewise.nn.balancing import AuxiliaryLoss, Choice
from gatewise.nn.token_router import AbstractRouter, as_batch, Batch, Router, Routing


class HierarchicalRouter(AbstractRouter):
    """g_(a, b)(x) = outer_a(x) * inner_b|a(x): M = G * P experts in G groups of P, expert a * P + b.

    ``outer`` routes to the G groups; ``inner`` has G * P scores, and its parts act on the P scores of one group at a
    time. A token has K = K_outer * K_inner places. ``losses`` see all M experts with the product of two softmaxes as
    their probability; the outer router's own losses are called ``outer_...`` (Jordan and Jacobs, 1994).
    """

    def __init__(self, outer: Router, inner: Router, losses: Sequence[AuxiliaryLoss] = ()) -> None:
        super().__init__()
        self.outer, self.inner, self.losses = outer, inner, tuple(losses)
        self.n_experts, self.d = inner.scores.n_scores, outer.d
        if self.n_experts % outer.n_experts:
            raise ValueError(
                f"inner must have a multiple of the outer router's {outer.n_experts} scores, not {self.n_experts}"
            )
        if inner.d != outer.d:
            raise ValueError(f"inner must take hidden states of size {outer.d}, as outer does, not {inner.d}")
        if inner.losses or inner.bias or inner.capacity or inner.selection.n_null:
            raise ValueError("inner must have no losses, bias, capacity or null experts: it sees one group at a time")
        self.group_size = self.n_experts // outer.n_experts
        inner.n_active = inner.selection.n_active(self.group_size)
        inner.n_experts = self.group_size

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Routing:
        first: Routing = self.outer(x, mask)
        batch = as_batch(x, mask)
        scores = self.inner.scores(batch.tokens).view(-1, self.outer.n_experts, self.group_size)  # (T, G, P)
        if batch.mask is not None:
            scores = scores.masked_fill(~batch.mask.view(-1, 1, 1), 0.0)
        groups = first.indices.clamp(min=0)  # (T, K_outer)
        inside = scores.gather(1, groups.unsqueeze(-1).expand(-1, -1, self.group_size))
        second = self.inner.assign(inside.flatten(0, 1))  # one row per token and group
        places = second.indices.view(*groups.shape, self.inner.n_active)  # (T, K_outer, K_inner)
        nobody = (first.indices.unsqueeze(-1) < 0) | (places < 0)
        indices = torch.where(nobody, -1, groups.unsqueeze(-1) * self.group_size + places).flatten(1)
        weights = (first.weights.unsqueeze(-1) * second.weights.view_as(places)).flatten(1)
        logarithms = (first.scores.log_softmax(-1).unsqueeze(-1) + scores.log_softmax(-1)).flatten(1)
        routing = Routing(indices, weights, {}, logarithms)
        return routing._replace(losses=self._losses(first, routing, batch))

    def _losses(self, first: Routing, routing: Routing, batch: Batch) -> dict[str, Tensor]:
        named = {f"outer_{name}": loss for name, loss in first.losses.items()}
        if self.training and self.losses:
            logarithms, indices, weights = routing.scores, routing.indices, routing.weights
            rest = (weights, batch.mask, batch.n_sequences)
            choice = Choice(logarithms, logarithms.exp(), indices, self.n_experts, *rest)
            named |= {loss.name: loss(choice) for loss in self.losses}
        return named
