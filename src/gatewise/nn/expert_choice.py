"""Experts choose tokens: every expert takes the same number, so that no balance loss is needed."""

import math

import torch
from torch import Tensor

from gatewise.arrays import as_positive
from gatewise.nn.finite_scores import FiniteWatch
from gatewise.nn.score_noise import ScoreModule
from gatewise.nn.token_router import AbstractRouter, as_batch, Routing


class ExpertChoiceRouter(AbstractRouter):
    """Every expert takes the C = ceil(factor * T / M) tokens with the largest softmax(s)_m (Zhou et al., 2022).

    That probability is also the weight. A token has as many experts as chose it, ``factor`` on average, perhaps
    none. Who serves a token depends on the other tokens of the batch, later ones too: this is for encoders, not for
    models that write token by token. Padding is not counted in T, and no expert takes it.

    >>> from gatewise.nn import LinearScores
    >>> ExpertChoiceRouter(LinearScores(8, 4), factor=2.0)(torch.zeros(6, 8)).indices.shape  # three tokens an expert
    torch.Size([12, 1])
    """

    def __init__(self, scores: ScoreModule, factor: float = 2.0) -> None:
        super().__init__()
        self.scores, self.factor = scores, as_positive(factor, "factor")
        self.n_experts, self.d = scores.n_scores, scores.d
        self.watch = FiniteWatch()

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Routing:
        tokens, mask, _ = as_batch(x, mask)
        scores: Tensor = self.scores(tokens)
        if mask is not None:
            scores = scores.masked_fill(~mask.unsqueeze(1), 0.0)
        self.watch.check(scores, self)
        probabilities = scores.softmax(-1)
        preference = probabilities.detach().t()  # (M, T)
        if mask is not None:
            preference = preference.masked_fill(~mask, -1.0)
        room = min(len(tokens), math.ceil(self.factor * len(tokens) / self.n_experts))
        taken = preference.sort(dim=1, descending=True, stable=True).indices[:, :room]  # (M, C)
        experts = torch.arange(self.n_experts, device=x.device).unsqueeze(1).expand_as(taken)
        if mask is not None:
            limit = (self.factor * mask.sum().double() / self.n_experts).ceil()
            beyond = (torch.arange(room, device=x.device) >= limit) | ~mask[taken]
            experts = torch.where(beyond, -1, experts)
        weights = probabilities.t().gather(1, taken)
        weights = torch.where(experts < 0, 0.0, weights)
        return Routing(experts.reshape(-1, 1), weights.reshape(-1, 1), {}, scores, taken.reshape(-1))

    def extra_repr(self) -> str:
        return f"factor={self.factor}"
