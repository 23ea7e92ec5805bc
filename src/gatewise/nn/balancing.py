"""Balancing: losses that keep experts busy and scores small, and a bias that balances without a loss."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import nn, Tensor

from gatewise.arrays import as_count, as_positive


class Choice(NamedTuple):
    """What a loss sees: scores (T, M + null), probabilities (T, M + null), indices (T, K), null places as -1."""

    scores: Tensor
    probabilities: Tensor
    indices: Tensor
    n_experts: int


class AuxiliaryLoss(Protocol):
    """A loss beside the task's own: a name, and a number for every choice."""

    @property
    def name(self) -> str: ...

    def __call__(self, choice: Choice) -> Tensor: ...


def load(indices: Tensor, n_experts: int) -> Tensor:
    """How often each expert is chosen, (M,); the last place of M + 1 counts the -1.

    >>> load(torch.tensor([[0, 1], [0, -1]]), 2)
    tensor([2., 1., 1.])
    """
    labels = torch.where(indices < 0, n_experts, indices).flatten()
    counts = torch.zeros(n_experts + 1, device=indices.device)
    return counts.scatter_add(0, labels, torch.ones_like(labels, dtype=counts.dtype))


def _over_tokens(counts: Tensor, n: int) -> Tensor:
    return counts / max(n, 1)


@dataclass(frozen=True)
class SwitchLoss:
    """coefficient * M * sum_m f_m P_m: f_m the fraction of assignments that went to m, P_m its mean probability.

    The fractions have sum one, so that perfect balance costs ``coefficient`` whatever K is (Fedus et al., 2022, for
    K = 1; Dai et al., 2024). Null experts count as so many experts with one mean load.
    """

    coefficient: float = 0.01
    name: str = "balance"

    def __call__(self, choice: Choice) -> Tensor:
        mean = _mean_probability(choice.probabilities)
        counts = load(choice.indices, choice.n_experts)
        n_scores, n_null = len(mean), len(mean) - choice.n_experts
        shares = counts[:-1]
        if n_null:
            shares = torch.cat([shares, (counts[-1] / n_null).expand(n_null)])
        shares = _over_tokens(shares, choice.indices.numel()).to(mean.dtype)
        return self.coefficient * n_scores * (shares * mean).sum()


@dataclass(frozen=True)
class GShardLoss:
    """coefficient * (1/M) sum_m (c_m / T) P_m, c_m the number of first choices (Lepikhin et al., 2020)."""

    coefficient: float = 0.01
    name: str = "balance"

    def __call__(self, choice: Choice) -> Tensor:
        mean = _mean_probability(choice.probabilities)[: choice.n_experts]
        counts = load(choice.indices[:, :1], choice.n_experts)[:-1]
        return self.coefficient * (_over_tokens(counts, len(choice.indices)).to(mean.dtype) * mean).mean()


@dataclass(frozen=True)
class ZLoss:
    """coefficient * mean over tokens of (log sum_m exp s_m)^2: keeps scores small (Zoph et al., 2022)."""

    coefficient: float = 0.001
    name: str = "z"

    def __call__(self, choice: Choice) -> Tensor:
        squares = choice.scores.logsumexp(-1) ** 2
        return self.coefficient * squares.sum() / max(len(squares), 1)


def _mean_probability(probabilities: Tensor) -> Tensor:
    return probabilities.sum(0) / max(len(probabilities), 1)


class BiasBalancing(nn.Module):
    """A bias on every expert's affinity that enters the choice but not the weights (DeepSeek-V3).

    ``update()`` after an optimizer step moves each bias by ``speed``: up where the load since the last update was
    below its mean, down where it was above. The load is counted in training mode only. ``bias`` (M,) is saved with
    the state; ``load`` (M,) is not. Where torch.distributed runs, loads are summed over its processes.
    """

    bias: Tensor
    load: Tensor

    def __init__(self, n_experts: int, speed: float = 0.001) -> None:
        super().__init__()
        as_count(n_experts, "n_experts")
        self.speed = as_positive(speed, "speed")
        self.register_buffer("bias", torch.zeros(n_experts))
        self.register_buffer("load", torch.zeros(n_experts), persistent=False)

    def forward(self, affinity: Tensor) -> Tensor:
        """What the choice compares: affinity (T, M) plus the bias."""
        return affinity + self.bias.to(affinity.dtype)

    def count(self, indices: Tensor) -> None:
        """Remember the load of one batch."""
        self.load += load(indices, len(self.load))[:-1]

    @torch.no_grad()
    def update(self) -> None:
        """One step against the load since the last update, which is then forgotten."""
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            torch.distributed.all_reduce(self.load)
        self.bias += self.speed * torch.sign(self.load.mean() - self.load)
        self.load.zero_()


def update_biases(model: nn.Module) -> None:
    """`BiasBalancing.update` for every such part of a model; call it after the optimizer's step."""
    for module in model.modules():
        if isinstance(module, BiasBalancing):
            module.update()
