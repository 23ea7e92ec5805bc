"""What the loss becomes when a layer loses an expert, for all tokens at once."""

from dataclasses import dataclass, replace
from typing import get_args, Literal

import numpy as np
import torch
from torch import Tensor

from gatewise.arrays import as_count, Booleans, Floats, Indices
from gatewise.geometry.grouped_rows import group_sums, positive_ratio_p_value, ratio_interval
from gatewise.nn.xray.expert_calls import ExpertCall, Rewrite
from gatewise.nn.xray.probed_model import ProbedModel
from gatewise.nn.xray.removal import without
from gatewise.nn.xray.token_batches import Tokens
from gatewise.stats import adjusted_p_values, Interval

Mode = Literal["zero", "renormalize", "next"]


@dataclass(frozen=True)
class Ablation:
    """An expert that was taken away: the rise of the loss over all tokens, and over those that it served.

    Loss is in nats a token; the intervals have documents as units. ``adjusted`` is the p-value of the null that the
    loss over all tokens does not rise, adjusted for all experts that were asked for together.
    """

    layer: int
    expert: int
    mode: str
    rise: Interval
    served: Interval
    adjusted: float


def ablated_losses(probed: ProbedModel, tokens: Tokens, call: ExpertCall, expert: int, mode: Mode) -> Floats:
    """The losses of all tokens, (n,), without an expert.

    "zero" drops its part, "renormalize" gives its weight to the others of the token in proportion to theirs, and
    "next" lets the router choose as if the expert were not there.
    """
    if mode not in get_args(Mode):
        raise ValueError(f"mode must be 'zero', 'renormalize' or 'next', not {mode!r}")
    as_count(expert, "expert", low=0, high=call.n_experts - 1)
    if mode != "next":
        return probed.losses(tokens, {call: _dropped(expert, mode == "renormalize")})
    gone = torch.zeros(call.n_experts, dtype=torch.bool)
    gone[expert] = True
    with without({call: gone}):
        return probed.losses(tokens)


def _dropped(expert: int, rescale: bool) -> Rewrite:
    def rewrite(_hidden: Tensor, indices: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        left = weights.masked_fill(indices == expert, 0.0)
        if rescale:
            if weights.shape[1] == 1:
                raise ValueError("mode must not be 'renormalize' where a token has one expert: no other has a weight")
            total = left.sum(1, keepdim=True)
            left = torch.where(total > 0, left * weights.sum(1, keepdim=True) / total, left)
        return indices, left

    return rewrite


def risen(before: Floats, after: Floats, used: Booleans, documents: Indices) -> tuple[Interval, Interval, float]:
    """The mean rise of the loss over all tokens that have one, and over those that used the expert, by document.

    The third is the p-value of no rise over all tokens, by Student's test.
    """
    some = ~np.isnan(before)
    n_documents = int(documents.max()) + 1
    rise = after[some] - before[some]
    columns = np.column_stack([rise, np.ones_like(rise), rise * used[some], used[some]])
    sums = group_sums(columns, documents[some], n_documents)
    p_value = positive_ratio_p_value(sums[:, 0], sums[:, 1])
    return ratio_interval(sums[:, 0], sums[:, 1]), ratio_interval(sums[:, 2], sums[:, 3]), p_value


def adjusted_ablations(found: list[Ablation]) -> tuple[Ablation, ...]:
    """The same with p-values that are adjusted for all of them."""
    p_values = adjusted_p_values([one.adjusted for one in found])
    return tuple(replace(one, adjusted=float(p)) for one, p in zip(found, p_values, strict=True))
