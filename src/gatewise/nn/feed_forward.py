"""One expert by itself, for the shared ones, with or without a gate of its own."""

import math

import torch
from torch import nn, Tensor
from torch.nn.functional import linear, silu

from gatewise.arrays import as_count


class SwiGLU(nn.Module):
    """f(x) = down (silu(gate x) * up x): gate_up (2h, d) with the gate's rows first, down (d, h).

    One of hidden size L * h is the sum of L of hidden size h.
    """

    def __init__(self, d: int, hidden: int) -> None:
        super().__init__()
        as_count(d, "d"), as_count(hidden, "hidden")
        self.gate_up = nn.Parameter(torch.empty(2 * hidden, d).uniform_(-1 / math.sqrt(d), 1 / math.sqrt(d)))
        self.down = nn.Parameter(torch.empty(d, hidden).uniform_(-1 / math.sqrt(hidden), 1 / math.sqrt(hidden)))

    def forward(self, x: Tensor) -> Tensor:
        gate, up = linear(x, self.gate_up).chunk(2, dim=-1)
        return linear(silu(gate) * up, self.down)


class GatedSwiGLU(SwiGLU):
    """f(x) = sigmoid(v . x) SwiGLU(x): a shared expert with a gate of its own, ``gate`` v (1, d) (Qwen2-MoE)."""

    def __init__(self, d: int, hidden: int) -> None:
        super().__init__(d, hidden)
        self.gate = nn.Parameter(torch.empty(1, d).uniform_(-1 / math.sqrt(d), 1 / math.sqrt(d)))

    def forward(self, x: Tensor) -> Tensor:
        return torch.sigmoid(linear(x, self.gate)) * super().forward(x)
