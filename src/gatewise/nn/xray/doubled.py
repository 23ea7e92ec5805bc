"""Exact counterfactuals: the sequence twice, and another routing in the second copy only.

Token t of the second copy attends to the first copy strictly before t and to itself. So it has the context of the
plain run, and one pass says for every token what another routing of this token alone would have cost.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from gatewise.arrays import as_between, Floats
from gatewise.nn.xray.expert_calls import ExpertCall, Rewrite, rewritten
from gatewise.nn.xray.probed_model import ProbedModel, token_losses
from gatewise.nn.xray.token_batches import TokenBatch, Tokens

READABLE = ("eager", "sdpa")


def doubled_mask(allowed: Tensor, dtype: torch.dtype) -> Tensor:
    """The additive mask (B, 1, 2T, 2T) of two copies from which keys a query may see, (B, T, T) with the diagonal.

    >>> doubled_mask(torch.ones(1, 2, 2).tril().bool(), torch.float32)[0, 0].isfinite().int()
    tensor([[1, 0, 0, 0],
            [1, 1, 0, 0],
            [0, 0, 1, 0],
            [1, 0, 0, 1]], dtype=torch.int32)
    """
    self_only = torch.eye(allowed.shape[1], dtype=torch.bool, device=allowed.device).expand_as(allowed)
    first = torch.cat([allowed, torch.zeros_like(allowed)], dim=2)
    second = torch.cat([allowed & ~self_only, self_only], dim=2)
    whole = torch.cat([first, second], dim=1)[:, None]
    return torch.zeros(whole.shape, dtype=dtype, device=whole.device).masked_fill(~whole, float("-inf"))


def _allowed(batch: TokenBatch, window: int | None) -> Tensor:
    """Which keys a query sees in the plain run, (B, T, T): those before it that are no padding, and itself."""
    places = torch.arange(batch.ids.shape[1])
    distance = places[:, None] - places
    causal = distance >= 0 if window is None else (distance >= 0) & (distance < window)
    return (causal & batch.mask[:, None, :]) | (distance == 0)


def _masks(probed: ProbedModel, batch: TokenBatch) -> Iterator[Any]:
    """The masks that a model may want, the likeliest first: one for each kind of layer, or one for all."""
    config = getattr(probed.model, "config", None)
    window = getattr(config, "sliding_window", None)
    dtype = next(probed.model.parameters()).dtype

    def mask(size: int | None) -> Tensor:
        return doubled_mask(_allowed(batch, size).to(probed.device), dtype)

    kinds = set(getattr(config, "layer_types", None) or ())
    if len(kinds | {"full_attention"}) > 1 and kinds <= {"full_attention", "sliding_attention"}:
        yield {"full_attention": mask(None), "sliding_attention": mask(window)}
    if window is not None:
        yield mask(window)
    yield mask(None)


def doubled_inputs(probed: ProbedModel, batch: TokenBatch, tolerance: float) -> tuple[dict[str, Any], Tensor]:
    """What to call the model with, and the plain logits, after a check that both copies have the plain logits.

    They must be equal to ``tolerance`` times the largest plain logit, or one if that is less, at every token.
    """
    config = getattr(probed.model, "config", None)
    attention = getattr(config, "_attn_implementation", "eager")
    if attention not in READABLE:
        raise ValueError(f"the model must be loaded with attn_implementation='sdpa' or 'eager', not {attention!r}")
    plain = probed.plain_logits(batch)
    size, length, worst, trouble = batch.ids.shape[0], batch.ids.shape[1], float("inf"), ""
    scale = max(1.0, plain.abs().max().item())
    places = torch.arange(length).repeat(2).expand(size, -1)
    for mask in _masks(probed, batch):
        given = {"ids": batch.ids.repeat(1, 2), "mask": mask, "positions": places}
        try:
            both = probed.logits(**given)
        except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
            trouble = f" ({type(error).__name__}: {error})"
            continue  # a model that takes no mask of this kind
        off = (both.view(size, 2, length, -1) - plain[:, None])[batch.mask[:, None].expand(-1, 2, -1)]
        difference = off.abs().max().item() / scale
        if difference <= tolerance:
            return given, plain
        worst = min(worst, difference)
    raise ValueError(_refusal(worst, trouble, tolerance, next(probed.model.parameters()).dtype))


def _refusal(worst: float, trouble: str, tolerance: float, dtype: torch.dtype) -> str:
    said = f"differ by {worst:.1g}" if worst < float("inf") else f"cannot be computed{trouble}"
    remedy = (
        "call model.float() first, as rounding alone is larger than that in " + str(dtype)
        if dtype != torch.float32
        else "a model with linear attention, a recurrence, or attention to later tokens cannot be read in this way"
    )
    return (
        f"counterfactuals must leave a model unchanged where nothing is forced, to {tolerance:g} of its largest "
        f"logit, but the logits of the doubled sequence {said}: {remedy}"
    )


def forced_losses(
    probed: ProbedModel,
    tokens: Tokens,
    call: ExpertCall,
    changes: list[Rewrite],
    tolerance: float = 1e-5,
    watch: Callable[[Any], Any] = iter,
) -> tuple[Floats, Floats]:
    """The plain losses (n,) and, for every change of the routing of one layer, the losses (n, C) of single tokens.

    A change sees the routing of all tokens of a batch, (B T, K), and each token's loss is that of the model in which
    this token's routing alone is changed.
    """
    as_between(tolerance, "tolerance")
    actual, columns = [], []
    for batch in watch(tokens.batches):
        given, plain = doubled_inputs(probed, batch, tolerance)
        actual.append(token_losses(plain, batch))
        forced = []
        for change in changes:
            with rewritten({call: _second_copy(change, *batch.ids.shape)}):
                logits = probed.logits(**given)
            forced.append(token_losses(logits[:, batch.ids.shape[1] :], batch))
        columns.append(torch.stack(forced, dim=2))
    return tokens.joined(actual), tokens.joined(columns)


def _second_copy(change: Rewrite, size: int, length: int) -> Rewrite:
    """The change for the tokens of the second copy only."""

    def rewrite(hidden: Tensor, indices: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        def split(part: Tensor) -> tuple[Tensor, Tensor]:
            copies = part.view(size, 2, length, -1)
            return copies[:, 0], copies[:, 1]

        kept = [split(part) for part in (hidden, indices, weights)]
        new = change(*(second.reshape(size * length, -1) for _, second in kept))
        joined = (
            torch.stack([first, second.view(size, length, -1)], dim=1).view(2 * size * length, -1)
            for (first, _), second in zip(kept[1:], new, strict=True)
        )
        indices, weights = joined
        return indices, weights

    return rewrite


def alone(expert: int) -> Rewrite:
    """The change after which one expert serves a token alone, with the sum of the weights."""

    def rewrite(_hidden: Tensor, indices: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        only = torch.zeros_like(weights)
        only[:, 0] = weights.sum(1)
        return torch.full_like(indices, expert), only

    return rewrite


def swapped(expert: int, slot: int) -> Rewrite:
    """The change after which an expert has the place and weight of the one with rank ``slot`` among the chosen.

    Ranks are by weight, 0 for the largest. The others stay; one that was active there already has both weights.
    """

    def rewrite(_hidden: Tensor, indices: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        place = weights.argsort(dim=1, descending=True, stable=True)[:, slot : slot + 1]
        return indices.scatter(1, place, expert), weights

    return rewrite
