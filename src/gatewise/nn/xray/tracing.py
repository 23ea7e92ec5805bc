"""Run a model on a text and keep what every layer of experts was called with."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gatewise.nn.xray.expert_calls import ExpertCall, Rewrite
from gatewise.nn.xray.layer_trace import LayerTrace
from gatewise.nn.xray.probed_model import ProbedModel, Watch
from gatewise.nn.xray.token_batches import Tokens
from gatewise.nn.xray.trace import Trace

MEMORY = 2**32  # bytes that the hidden states of a trace may take


def traced(probed: ProbedModel, tokens: Tokens, watch: Watch = iter, memory: int = MEMORY) -> Trace:
    """The trace of a model on tokens; refused where the hidden states would take more than ``memory`` bytes."""
    kept: dict[ExpertCall, list[tuple[Tensor, Tensor, Tensor]]] = {call: [] for call in probed.calls}
    losses, n = [], len(tokens.ids)
    for batch, loss in probed.batch_losses(tokens, {call: _keeper(kept[call]) for call in probed.calls}, watch):
        losses.append(loss)
        needed = sum(parts[-1][0].shape[1] for parts in kept.values()) * n * 4
        if needed > memory:
            raise MemoryError(
                f"the hidden states of {n} tokens in {len(kept)} layers take {needed / 2**30:.1f} GiB, more than "
                f"memory = {memory / 2**30:.1f} GiB: give fewer tokens, or more memory"
            )
        for parts in kept.values():
            parts[-1] = tuple(part[batch.mask.flatten()] for part in parts[-1])  # type: ignore[assignment]
    layers = tuple(_layer(call, parts) for call, parts in kept.items())
    return Trace(tokens, tokens.ids, tokens.documents, tokens.joined(losses), layers, str(probed.device))


def _keeper(parts: list[Any]) -> Rewrite:
    """A change of the routing that changes nothing and keeps what it saw."""

    def keep(hidden: Tensor, indices: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        parts.append((hidden.detach().float().cpu(), indices.detach().cpu(), weights.detach().float().cpu()))
        return indices, weights

    return keep


def _layer(call: ExpertCall, parts: Sequence[tuple[Tensor, Tensor, Tensor]]) -> LayerTrace:
    hidden, indices, weights = (torch.cat([part[place] for part in parts]).numpy() for place in range(3))
    order = np.argsort(-weights, axis=1, kind="stable")
    indices, weights = (np.take_along_axis(part, order, axis=1) for part in (indices, weights))
    return LayerTrace(call.name, call.n_experts, indices.astype(np.intp), weights.astype(np.float64), hidden)
