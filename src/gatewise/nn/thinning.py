"""Random use of the lesser choices, as in GShard."""

from dataclasses import dataclass

import torch
from torch import Tensor

from gatewise.arrays import as_positive


@dataclass(frozen=True)
class RandomSecond:
    """In training a choice after the first stays with probability min(1, factor * weight), else it becomes -1.

    GShard (Lepikhin et al., 2020, algorithm 1) does so with factor 2; the weights that stay do not change.
    """

    factor: float = 2.0

    def __post_init__(self) -> None:
        as_positive(self.factor, "factor")

    def __call__(self, indices: Tensor, weights: Tensor) -> Tensor:
        """indices (T, K) with the choices that were not taken up as -1."""
        first = torch.arange(indices.shape[1], device=indices.device) == 0
        kept = torch.rand_like(weights) < self.factor * weights
        return torch.where(first | kept, indices, -1)
