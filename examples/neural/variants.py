"""The rivals: the same number of active hidden units, spread over experts in five ways."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from gatewise import nn

N_EXPERTS = 8


@dataclass(frozen=True)
class Variant:
    """``k`` routed experts of ``n_experts`` and ``n_shared`` shared ones share the active width equally."""

    name: str
    n_experts: int
    k: int
    n_shared: int = 0

    def width(self, active: int) -> int:
        """The hidden size of one expert."""
        parts = self.k + self.n_shared
        if active % parts:
            raise ValueError(f"the active width must be a multiple of {parts}, not {active}")
        return active // parts


VARIANTS = (
    Variant("plain network", 1, 1),
    Variant("dense gate", N_EXPERTS, N_EXPERTS),
    Variant("Top-1", N_EXPERTS, 1),
    Variant("Top-2", N_EXPERTS, 2),
    Variant("shared + Top-2", N_EXPERTS, 2, n_shared=1),
)


def build(
    variant: Variant,
    d: int,
    active: int,
    experts: Callable[[int, int], nn.Experts],
    shared: Callable[[int], torch.nn.Module],
) -> nn.MoELayer:
    """The layer of a variant; ``experts(M, width)`` and ``shared(width)`` make its networks."""
    width = variant.width(active)
    selection = nn.Dense() if variant.k == variant.n_experts else nn.TopK(variant.k)
    # The softmax before the choice lets gradients reach a Top-1 router, whose normalised weight is always one.
    weighting = nn.SoftmaxBefore() if variant.k == 1 else nn.Normalized()
    losses = [nn.SwitchLoss(0.01)] if variant.k < variant.n_experts else []
    router = nn.Router(nn.LinearScores(d, variant.n_experts, bias=True), selection, weighting, losses=losses)
    return nn.MoELayer(experts(variant.n_experts, width), router, [shared(width) for _ in range(variant.n_shared)])


def active_parameters(layer: nn.MoELayer, variant: Variant) -> int:
    """How many numbers of the layer one token uses: its experts' and the shared ones', and the router's."""
    routed = sum(p.numel() for p in layer.experts.parameters()) * variant.k // variant.n_experts
    rest = sum(p.numel() for part in (layer.router, layer.shared) for p in part.parameters())
    return routed + rest
