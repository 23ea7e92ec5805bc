"""Noise while training: around a router's scores, so that an expert that is seldom chosen is tried now and then."""

from typing import NamedTuple

import torch
from torch import nn, Tensor
from torch.nn.functional import linear, softplus

from gatewise.nn.router_scores import raised, Scores
from gatewise.nn.transport import TransportScores


class NoisyDraw(NamedTuple):
    """Scores with their noise, without it, and its standard deviation, (T, M) each."""

    noisy: Tensor
    clean: Tensor
    deviation: Tensor


class NoisyScores(nn.Module):
    """Noisy Top-K: s + softplus(V x) * N(0, 1) in training, s itself in evaluation (Shazeer et al., 2017).

    ``weight`` V (M, d) starts at zero, where the standard deviation is log 2.
    """

    def __init__(self, scores: Scores) -> None:
        super().__init__()
        self.scores = scores
        self.d, self.n_scores = scores.d, scores.n_scores
        self.weight = nn.Parameter(torch.zeros(self.n_scores, self.d))

    def draw(self, x: Tensor) -> NoisyDraw:
        """One draw of the noise for hidden states x (T, d)."""
        clean: Tensor = self.scores(x)
        with torch.autocast(x.device.type, enabled=False):
            deviation = softplus(linear(raised(x), self.weight.to(clean.dtype)))
        return NoisyDraw(clean + deviation * torch.randn_like(clean), clean, deviation)

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            return self.draw(x).noisy
        scores: Tensor = self.scores(x)
        return scores


class JitteredScores(nn.Module):
    """s(x * U) in training, U uniform on [1 - width, 1 + width] in every coordinate (Fedus et al., 2022)."""

    def __init__(self, scores: Scores, width: float = 0.01) -> None:
        super().__init__()
        if not 0.0 <= width < 1.0:
            raise ValueError(f"width must lie in [0, 1), not {width!r}")
        self.scores, self.width = scores, float(width)
        self.d, self.n_scores = scores.d, scores.n_scores

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            x = raised(x)
            x = x * torch.empty_like(x).uniform_(1.0 - self.width, 1.0 + self.width)
        scores: Tensor = self.scores(x)
        return scores


ScoreModule = Scores | NoisyScores | JitteredScores | TransportScores


def plain_scores(scores: nn.Module) -> nn.Module:
    """The scores without their noise."""
    return scores.scores if isinstance(scores, NoisyScores | JitteredScores) else scores
