"""Weights of the chosen experts: a softmax before or after the choice, or any regular phi, normalised or not."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

LogPhi = Callable[[Tensor], Tensor]
Phi = Literal["exp", "sigmoid"] | LogPhi


@dataclass(frozen=True)
class SoftmaxBefore:
    """w = scale * softmax(s) over all experts, of which the chosen keep theirs: below ``scale`` in sum unless K = M.

    DeepSeek-V2 has a scale of 16.
    """

    scale: float = 1.0

    def __post_init__(self) -> None:
        _check_scale(self.scale)

    def affinity(self, scores: Tensor) -> Tensor:
        """The probability of every expert, (T, M)."""
        return scores.softmax(-1)

    def __call__(self, scores: Tensor, indices: Tensor) -> Tensor:
        weights = self.scale * _chosen(scores.softmax(-1), indices)
        return torch.where(indices < 0, 0.0, weights)


@dataclass(frozen=True)
class Normalized:
    """w_m = scale * phi(s_m) / sum of phi(s_j) over the chosen j (`ass:regular gating`).

    ``phi`` is "exp", which makes the softmax after the choice; "sigmoid"; or a callable t -> log phi(t) of tensors.
    With ``scale`` = 1 the weights of a token have sum one. A token without an expert has weights zero.

    >>> Normalized()(torch.tensor([[0.0, 0.0, 9.0]]), torch.tensor([[0, 1]]))
    tensor([[0.5000, 0.5000]])
    """

    phi: Phi = "exp"
    scale: float = 1.0

    def __post_init__(self) -> None:
        if not (callable(self.phi) or self.phi in ("exp", "sigmoid")):
            raise ValueError(f"phi must be 'exp', 'sigmoid' or a callable t -> log phi(t), not {self.phi!r}")
        _check_scale(self.scale)

    def log_phi(self, scores: Tensor) -> Tensor:
        """log phi at every score."""
        if self.phi == "exp":
            return scores
        return logsigmoid(scores) if self.phi == "sigmoid" else self.phi(scores)

    def affinity(self, scores: Tensor) -> Tensor:
        """phi(s), (T, M); for phi = exp the softmax, which is phi up to a factor."""
        return scores.softmax(-1) if self.phi == "exp" else self.log_phi(scores).exp()

    def __call__(self, scores: Tensor, indices: Tensor) -> Tensor:
        nobody = indices < 0
        values = self.log_phi(_chosen(scores, indices))
        # A large negative number in place of minus infinity: a row of nobodies must not become NaN.
        weights = values.masked_fill(nobody, torch.finfo(values.dtype).min).softmax(-1)
        return torch.where(nobody, 0.0, self.scale * weights)


@dataclass(frozen=True)
class SigmoidEach:
    """w_m = scale * sigmoid(s_m): each chosen expert by itself, so that the sum is free (Llama 4's router).

    >>> SigmoidEach()(torch.tensor([[0.0, 0.0, 9.0]]), torch.tensor([[0, 1]]))
    tensor([[0.5000, 0.5000]])
    """

    scale: float = 1.0

    def __post_init__(self) -> None:
        _check_scale(self.scale)

    def affinity(self, scores: Tensor) -> Tensor:
        """sigmoid(s), (T, M)."""
        return scores.sigmoid()

    def __call__(self, scores: Tensor, indices: Tensor) -> Tensor:
        weights = self.scale * _chosen(scores, indices).sigmoid()
        return torch.where(indices < 0, 0.0, weights)


Weighting = SoftmaxBefore | Normalized | SigmoidEach


def _check_scale(scale: float) -> None:
    if not (math.isfinite(scale) and scale > 0):
        raise ValueError(f"scale must be a finite number above 0, not {scale!r}")


def _chosen(values: Tensor, indices: Tensor) -> Tensor:
    """values (T, M) at the experts indices (T, K), of which -1 is nobody; torch would take fewer tokens unasked."""
    if values.ndim != 2 or indices.ndim != 2 or values.shape[0] != indices.shape[0]:
        shapes = f"{tuple(values.shape)} and {tuple(indices.shape)}"
        raise ValueError(f"scores must have shape (T, M) and indices (T, K) with the same T, not {shapes}")
    return values.gather(1, indices.clamp(min=0))
