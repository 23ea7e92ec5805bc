"""Selection: which experts a token uses. Best first; equal preferences go to the smaller index; -1 is no expert."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from gatewise.arrays import as_count


def top_k_tensor(preference: Tensor, k: int) -> Tensor:
    """The k columns of largest preference (..., M) -> (..., k), best first, ties to the smaller index.

    torch.topk leaves ties open; a stable sort does not.

    >>> top_k_tensor(torch.tensor([[1.0, 2.0, 2.0]]), 2)
    tensor([[1, 2]])
    """
    order = torch.sort(preference, dim=-1, descending=True, stable=True).indices
    return order[..., :k]


@dataclass(frozen=True)
class Dense:
    """All experts, always (`eq:formulation_gating_dense`)."""

    @property
    def n_null(self) -> int:
        return 0

    def n_active(self, n_scores: int) -> int:
        """How many places a token has, K."""
        return n_scores

    def __call__(self, preference: Tensor) -> Tensor:
        experts = torch.arange(preference.shape[1], device=preference.device)
        return experts.expand(preference.shape)


@dataclass(frozen=True)
class TopK:
    """The k experts of largest score (`eq:formulation_gating_sparse`)."""

    k: int

    def __post_init__(self) -> None:
        as_count(self.k, "k")

    @property
    def n_null(self) -> int:
        return 0

    def n_active(self, n_scores: int) -> int:
        return as_count(self.k, "k", high=n_scores)

    def __call__(self, preference: Tensor) -> Tensor:
        return top_k_tensor(preference, self.k)


@dataclass(frozen=True)
class GroupLimitedTopK:
    """Top-K within the best groups only: groups are ranked by the sum of their best ``per_group`` preferences.

    Preferences are affinities here, biased or not: a sum of raw scores means nothing. The experts stand in
    ``n_groups`` groups of equal size, of which ``groups_kept`` stay (DeepSeek-V3: k = 8 of 256 experts in 8 groups, 4
    kept, ranked by their best two; DeepSeek-V2: by their best one).
    """

    k: int
    n_groups: int
    groups_kept: int
    per_group: int = 2

    def __post_init__(self) -> None:
        as_count(self.k, "k")
        as_count(self.n_groups, "n_groups")
        as_count(self.groups_kept, "groups_kept", high=self.n_groups)
        as_count(self.per_group, "per_group")

    @property
    def n_null(self) -> int:
        return 0

    def n_active(self, n_scores: int) -> int:
        if n_scores % self.n_groups:
            raise ValueError(f"n_groups must divide the {n_scores} experts, but it is {self.n_groups}")
        size = n_scores // self.n_groups
        as_count(self.per_group, "per_group", high=size)
        return as_count(self.k, "k", high=size * self.groups_kept)

    def __call__(self, preference: Tensor) -> Tensor:
        groups = preference.view(-1, self.n_groups, preference.shape[1] // self.n_groups)  # (T, G, M / G)
        rank = groups.topk(self.per_group, dim=-1).values.sum(-1)  # (T, G)
        best = top_k_tensor(rank, self.groups_kept)
        out = torch.ones_like(rank, dtype=torch.bool).scatter(1, best, torch.zeros_like(best, dtype=torch.bool))
        return top_k_tensor(groups.masked_fill(out.unsqueeze(-1), -math.inf).flatten(1), self.k)


@dataclass(frozen=True)
class Threshold:
    """Between 1 and k experts for every token: preferences (T, M) -> indices (T, k).

    The best expert is always chosen; the second to k-th only if its softmax probability is at least ``level``, and
    otherwise its index is -1.
    """

    k: int
    level: float

    def __post_init__(self) -> None:
        as_count(self.k, "k")
        if not 0.0 <= self.level <= 1.0:
            raise ValueError(f"level must lie in [0, 1], not {self.level!r}")

    @property
    def n_null(self) -> int:
        return 0

    def n_active(self, n_scores: int) -> int:
        return as_count(self.k, "k", high=n_scores)

    def __call__(self, preference: Tensor) -> Tensor:
        chosen = top_k_tensor(preference, self.k)
        weak = preference.softmax(-1).gather(1, chosen) < self.level
        first = torch.arange(self.k, device=chosen.device) == 0
        return torch.where(weak & ~first, -1, chosen)


@dataclass(frozen=True)
class NullExperts:
    """Top-K among the experts and ``n_null`` more that do nothing: a token that picks those uses fewer real ones.

    The last ``n_null`` scores are theirs; a place that one of them wins is -1 (AdaMoE, Zeng et al., 2024).
    """

    k: int
    n_null: int

    def __post_init__(self) -> None:
        as_count(self.k, "k")
        as_count(self.n_null, "n_null")

    def n_active(self, n_scores: int) -> int:
        as_count(self.n_null, "n_null", high=n_scores - 1)
        return as_count(self.k, "k", high=n_scores)

    def __call__(self, preference: Tensor) -> Tensor:
        chosen = top_k_tensor(preference, self.k)
        return torch.where(chosen >= preference.shape[1] - self.n_null, -1, chosen)


Selection = Dense | TopK | GroupLimitedTopK | Threshold | NullExperts
