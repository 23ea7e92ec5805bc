"""Capacity: how many assignments an expert takes in one batch. What is beyond is dropped."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from gatewise.arrays import as_positive
from gatewise.nn.dispatch import dispatch


@dataclass(frozen=True)
class Capacity:
    """In training at most C = ceil(factor * T * K / M) assignments an expert; later ones become -1.

    First choices of all tokens come before second ones, and earlier tokens before later ones (GShard). A token
    without an expert gets zero from the layer, so that a residual connection around it passes the token through
    unchanged. Kept weights do not change. Padding is not counted in T. In evaluation ``eval_factor`` takes the place
    of ``factor``; with None nobody is dropped there, and a token does not depend on the others of its batch.
    """

    factor: float
    eval_factor: float | None = None

    def __post_init__(self) -> None:
        as_positive(self.factor, "factor")
        if self.eval_factor is not None:
            as_positive(self.eval_factor, "eval_factor")

    def limit(self, n_tokens: int, k: int, n_experts: int) -> int:
        """The largest number of assignments that an expert takes in training, C.

        >>> Capacity(1.25).limit(n_tokens=16, k=1, n_experts=4)
        5
        """
        return math.ceil(self.factor * n_tokens * k / n_experts)

    def __call__(self, indices: Tensor, n_experts: int, mask: Tensor | None = None, training: bool = True) -> Tensor:
        """indices (T, K) with what is beyond the capacity as -1; ``mask`` (T,) is False at padding."""
        factor = self.factor if training else self.eval_factor
        if factor is None:
            return indices
        n_tokens, k = indices.shape
        plan = dispatch(indices.t().reshape(1, -1), n_experts)  # place by place, token by token
        starts = torch.cat([plan.ends.new_zeros(1), plan.ends])  # (M + 1,): the nobodies start last
        rank = torch.arange(plan.experts.numel(), device=indices.device) - starts[plan.experts]
        rank = rank[plan.inverse].view(k, n_tokens).t()
        if mask is None:
            limit: int | Tensor = math.ceil(factor * n_tokens * k / n_experts)
        else:
            limit = (factor * mask.sum().double() * k / n_experts).ceil()
        return torch.where(rank >= limit, -1, indices)
