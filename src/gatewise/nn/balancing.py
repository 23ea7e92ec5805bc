"""Balance losses: what keeps experts equally busy and scores small while a router learns."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor
from torch.distributed import ProcessGroup

from gatewise.nn.processes import n_processes, summed
from gatewise.nn.score_noise import NoisyDraw


class Choice(NamedTuple):
    """What a loss sees of T tokens.

    scores (T, M + null), probabilities (T, M + null), indices (T, K) with null places as -1, weights (T, K); ``mask``
    (T,) is False at padding, or None where all tokens count. The tokens are ``n_sequences`` sequences of one length,
    one after the other. ``draw`` is what `NoisyScores` drew, if the router has them.
    """

    scores: Tensor
    probabilities: Tensor
    indices: Tensor
    n_experts: int
    weights: Tensor | None = None
    mask: Tensor | None = None
    n_sequences: int = 1
    draw: NoisyDraw | None = None

    @property
    def counted(self) -> Tensor:
        """One for every token and zero for padding, (T,)."""
        like = self.probabilities
        return like.new_ones(len(like)) if self.mask is None else self.mask.to(like.dtype)


class AuxiliaryLoss(Protocol):
    """A loss beside the task's own: a name, and a number for every choice."""

    @property
    def name(self) -> str: ...

    def __call__(self, choice: Choice) -> Tensor: ...


class Sums(NamedTuple):
    """Of every sequence: assignments (S, M + null), sums of probabilities (S, M + null), numbers of tokens (S,)."""

    assignments: Tensor
    probabilities: Tensor
    tokens: Tensor


def load(indices: Tensor, n_experts: int) -> Tensor:
    """How often each expert is chosen, (M,); the last place of M + 1 counts the -1.

    >>> load(torch.tensor([[0, 1], [0, -1]]), 2)
    tensor([2., 1., 1.])
    """
    return _loads(indices, n_experts, torch.ones(len(indices), device=indices.device), 1)[0]


def _loads(indices: Tensor, n_experts: int, counted: Tensor, n_sequences: int) -> Tensor:
    """The loads of every sequence, (S, M + 1)."""
    labels = torch.where(indices < 0, n_experts, indices)
    each = indices.numel() // n_sequences
    counts = counted.new_zeros(n_sequences, n_experts + 1)
    return counts.scatter_add(
        1, labels.reshape(n_sequences, each), counted.unsqueeze(1).expand_as(labels).reshape(n_sequences, each)
    )


def _sums(choice: Choice, n_sequences: int = 1) -> Sums:
    """What balance losses are made of; null experts share one mean load."""
    counted, p = choice.counted, choice.probabilities
    counts = _loads(choice.indices, choice.n_experts, counted, n_sequences)
    assignments, n_null = counts[:, :-1], p.shape[1] - choice.n_experts
    if n_null:
        assignments = torch.cat([assignments, (counts[:, -1:] / n_null).expand(-1, n_null)], dim=1)
    length = len(p) // n_sequences
    of_tokens = (p * counted.unsqueeze(1)).reshape(n_sequences, length, p.shape[1])
    return Sums(assignments, of_tokens.sum(1), counted.reshape(n_sequences, length).sum(1))


@dataclass(frozen=True)
class SwitchLoss:
    """coefficient * M * sum_m f_m P_m: f_m the fraction of assignments that went to m, P_m its mean probability.

    The fractions have sum one, so that perfect balance costs ``coefficient`` whatever K is (Fedus et al., 2022, for
    K = 1; Dai et al., 2024). Null experts count as so many experts with one mean load.
    """

    coefficient: float = 0.01
    name: str = "balance"

    def __call__(self, choice: Choice) -> Tensor:
        return self.coefficient * _balance(_sums(choice), choice.indices.shape[1]).sum()


@dataclass(frozen=True)
class SequenceLoss:
    """The mean over sequences of `SwitchLoss` within each (DeepSeek-V2 and V3): x (..., L, d) has sequences of L.

    Sequences that are all padding do not count. 0.01 is the coefficient of the smallest DeepSeekMoE, which has no
    other balance; DeepSeek-V3 has 0.0001 beside its bias.
    """

    coefficient: float = 0.01
    name: str = "balance"

    def __call__(self, choice: Choice) -> Tensor:
        sums = _sums(choice, choice.n_sequences)
        each = _balance(sums, choice.indices.shape[1])  # (S,)
        return self.coefficient * each.sum() / (sums.tokens > 0).sum().clamp(min=1)


@dataclass(frozen=True)
class GlobalBatchLoss:
    """`SwitchLoss` with the fractions f_m of the tokens of all processes of ``group`` (Qiu et al., 2025).

    Sequences of one process may then specialise as long as the whole batch is balanced. The mean over the processes,
    as DistributedDataParallel takes it, is the loss of one process with all tokens, also where their numbers differ.
    ``group`` None is all processes; with one process this is `SwitchLoss`.
    """

    coefficient: float = 0.01
    name: str = "balance"
    group: ProcessGroup | None = None

    def __call__(self, choice: Choice) -> Tensor:
        sums, k = _sums(choice), choice.indices.shape[1]
        *assignments, tokens = summed(torch.cat([sums.assignments[0], sums.tokens]), self.group).unbind()
        fractions = torch.stack(assignments) / (k * tokens).clamp(min=1)
        means = sums.probabilities[0] * (n_processes(self.group) / tokens.clamp(min=1))
        return self.coefficient * len(means) * (fractions * means).sum()


def _balance(sums: Sums, k: int) -> Tensor:
    """M sum_m f_m P_m of every sequence, (S,); zero for one without tokens."""
    n = sums.tokens.clamp(min=1).unsqueeze(1)
    fractions, means = sums.assignments / (k * n), sums.probabilities / n
    return fractions.shape[1] * (fractions * means).sum(1)


@dataclass(frozen=True)
class GShardLoss:
    """coefficient * M sum_m (c_m / T) P_m, c_m the number of first choices (Lepikhin et al., 2020).

    The article has 1 / M in the place of M, which at balance is the number 1 / M^2; the public implementations
    multiply by M^2, so that balance costs ``coefficient``, and so does this one.
    """

    coefficient: float = 0.01
    name: str = "balance"

    def __call__(self, choice: Choice) -> Tensor:
        first = choice._replace(indices=choice.indices[:, :1])
        sums = _sums(first)
        n, m = sums.tokens.clamp(min=1), choice.n_experts
        return self.coefficient * m * ((sums.assignments / n) * (sums.probabilities / n))[0, :m].sum()


@dataclass(frozen=True)
class ZLoss:
    """coefficient * mean over tokens of (log sum_m exp s_m)^2: keeps scores small (Zoph et al., 2022)."""

    coefficient: float = 0.001
    name: str = "z"

    def __call__(self, choice: Choice) -> Tensor:
        squares = choice.scores.logsumexp(-1) ** 2
        return self.coefficient * (squares * choice.counted).sum() / choice.counted.sum().clamp(min=1)


@dataclass(frozen=True)
class ImportanceLoss:
    """coefficient * CV(I)^2, I_m the sum of the weights of expert m over the tokens (Shazeer et al., 2017).

    CV is the standard deviation over the mean. 0.1 is the article's coefficient for its language models.
    """

    coefficient: float = 0.1
    name: str = "importance"

    def __call__(self, choice: Choice) -> Tensor:
        if choice.weights is None:
            raise ValueError("choice.weights must hold the weights (T, K) of the choice, not None")
        weights = torch.where(choice.indices < 0, 0.0, choice.weights * choice.counted.unsqueeze(1))
        totals = weights.new_zeros(choice.n_experts)
        totals = totals.scatter_add(0, choice.indices.clamp(min=0).flatten(), weights.flatten())
        return self.coefficient * _variation(totals)


@dataclass(frozen=True)
class LoadLoss:
    """coefficient * CV(L)^2, L_m = sum_t P(expert m is chosen if its noise is drawn anew) (Shazeer et al., 2017).

    The probability is Phi((clean_m - threshold_m) / deviation_m), the threshold the K-th largest of the other noisy
    scores: a smooth stand-in for the load. A deviation below 0.01 counts as 0.01. The router must have `NoisyScores`.
    """

    coefficient: float = 0.1
    name: str = "load"

    def __call__(self, choice: Choice) -> Tensor:
        if choice.draw is None:
            raise ValueError("LoadLoss needs a router with NoisyScores: without noise a load has no gradient")
        k, (noisy, clean, deviation) = choice.indices.shape[1], choice.draw
        if k >= noisy.shape[1]:
            return noisy.sum() * 0.0  # all are chosen, whatever the noise
        best = noisy.topk(k + 1, dim=1).values
        among = noisy > best[:, k:]
        thresholds = torch.where(among, best[:, k:], best[:, k - 1 : k])
        chances = torch.special.ndtr((clean - thresholds) / deviation.clamp(min=0.01))
        return self.coefficient * _variation((chances * choice.counted.unsqueeze(1)).sum(0)[: choice.n_experts])


def _variation(totals: Tensor) -> Tensor:
    """The squared coefficient of variation: variance over squared mean, zero where all are zero."""
    mean = totals.mean()
    return (totals - mean).square().mean() / mean.square().clamp(min=torch.finfo(totals.dtype).tiny)
