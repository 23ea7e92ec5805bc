"""Scores: what a router thinks of every expert, linear or quadratic in the hidden state, in float32 at least."""

import math
from abc import ABC, abstractmethod

import torch
from torch import nn, Tensor
from torch.nn.functional import linear

from gatewise.arrays import as_count


class Scores(nn.Module, ABC):
    """s = W features(x) + b: hidden states (T, d) -> scores (T, M). A family of one's own says what ``features`` are.

    ``weight`` (M, p) multiplies the features; ``bias`` (M,) is None unless asked for. Half precision is raised to
    float32: a router's ranking must not hang on the last of eight bits.
    """

    bias: nn.Parameter | None

    def __init__(self, d: int, n_scores: int, bias: bool = False) -> None:
        super().__init__()
        self.d, self.n_scores = as_count(d, "d"), as_count(n_scores, "n_scores")
        n_features = self.features(torch.zeros(1, self.d)).shape[1]
        bound = 1.0 / math.sqrt(n_features)
        self.weight = nn.Parameter(torch.empty(self.n_scores, n_features).uniform_(-bound, bound))
        self.register_parameter("bias", nn.Parameter(torch.zeros(self.n_scores)) if bias else None)

    @abstractmethod
    def features(self, x: Tensor) -> Tensor:
        """The features (T, p) of hidden states (T, d)."""

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast(x.device.type, enabled=False):
            features = self.features(raised(x))
            weight = self.weight.to(features.dtype)
            return linear(features, weight, None if self.bias is None else self.bias.to(features.dtype))

    def extra_repr(self) -> str:
        return f"d={self.d}, n_scores={self.n_scores}, bias={self.bias is not None}"


class LinearScores(Scores):
    """s_m = w_m . x + b_m, the scores of `gatewise.LinearGate`.

    >>> LinearScores(2, 3)(torch.zeros(4, 2)).shape
    torch.Size([4, 3])
    """

    def features(self, x: Tensor) -> Tensor:
        return x


class QuadraticScores(Scores):
    """s_m = x' B_m x + w_m . x + b_m, the scores of `gatewise.QuadraticGate`, with its order (vech(B_m), w_m).

    >>> QuadraticScores(2, 3).weight.shape
    torch.Size([3, 5])
    """

    def features(self, x: Tensor) -> Tensor:
        i, j = torch.triu_indices(self.d, self.d, device=x.device).unbind(0)
        twice = torch.where(i == j, 1.0, 2.0).to(x.dtype)
        return torch.cat([x[:, i] * x[:, j] * twice, x], dim=1)


def raised(x: Tensor) -> Tensor:
    """x in float32 if it came in half precision."""
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x
