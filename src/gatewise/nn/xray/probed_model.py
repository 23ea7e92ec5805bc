"""A model that is run on batches of tokens, with or without a change of its routing: one loss a token."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn, Tensor
from torch.nn.functional import cross_entropy

from gatewise.arrays import as_count, Floats
from gatewise.nn.xray.expert_calls import expert_calls, ExpertCall, Rewrite, rewritten
from gatewise.nn.xray.token_batches import TokenBatch, Tokens

Watch = Callable[[Any], Any]


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Within the block a model is in evaluation mode; afterwards each of its modules is as it was."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


@torch.no_grad()
def expert_outputs(call: ExpertCall, hidden: Tensor, experts: Tensor) -> Tensor:
    """What one expert a token, (N,), makes of hidden states (N, d) with weight one, (N, d) in float32."""
    with evaluating(call.experts):
        output: Tensor = call.experts(hidden, experts[:, None], hidden.new_ones(len(hidden), 1))
    return output.float()


@dataclass(frozen=True, eq=False)
class ProbedModel:
    """A causal language model and the calls of its experts; it is called as transformers' models are."""

    model: nn.Module
    calls: tuple[ExpertCall, ...]

    @property
    def device(self) -> torch.device:
        """Where the model's first parameter lies."""
        return next(self.model.parameters()).device

    def call(self, layer: int) -> ExpertCall:
        """The layer of that number among those that have experts."""
        return self.calls[as_count(layer, "layer", low=0, high=len(self.calls) - 1)]

    def logits(self, ids: Tensor, mask: Any = None, positions: Tensor | None = None) -> Tensor:
        """The scores of the next token, (B, T, V), in float32; an error where the model does not return any."""
        device = self.device
        given = {"input_ids": ids.to(device), "attention_mask": mask, "use_cache": False}
        if getattr(getattr(self.model, "config", None), "output_router_logits", False):
            given["output_router_logits"] = False  # the balance loss of training does not know 4-D masks
        if positions is not None:
            given["position_ids"] = positions.to(device)
        with torch.no_grad(), evaluating(self.model):
            output = self.model(**given)
        scores = getattr(output, "logits", output)
        if not isinstance(scores, Tensor) or scores.shape[:2] != ids.shape:
            raise ValueError(
                "the model must return scores of the next token for every token, (B, T, V), as `logits`: it must be "
                "a causal language model"
            )
        return scores.float()

    def plain_logits(self, batch: TokenBatch) -> Tensor:
        """The scores of a batch as the model is used, (B, T, V)."""
        mask = None if bool(batch.mask.all()) else batch.mask.long().to(self.device)
        return self.logits(batch.ids, mask)

    def losses(self, tokens: Tokens, rewrites: dict[ExpertCall, Rewrite] | None = None) -> Floats:
        """The loss of every token, (n,), with the routing of some layers rewritten; NaN where no token follows."""
        return tokens.joined([part for _, part in self.batch_losses(tokens, rewrites)])

    def batch_losses(
        self, tokens: Tokens, rewrites: dict[ExpertCall, Rewrite] | None = None, watch: Watch = iter
    ) -> Iterator[tuple[TokenBatch, Tensor]]:
        """Batch by batch the losses of its tokens, (B, T); ``watch`` may wrap the batches to show progress."""
        for batch in watch(tokens.batches):
            with rewritten(rewrites or {}) as counts:
                logits = self.plain_logits(batch)
            silent = [call.name for call, count in counts.items() if count != 1]
            if silent:
                raise ValueError(f"{silent[0]} must be called once in a forward pass, but was not: it cannot be read")
            yield batch, token_losses(logits, batch)


def token_losses(logits: Tensor, batch: TokenBatch) -> Tensor:
    """-log p(next token), (B, T), on the CPU; NaN where no token of the document follows."""
    following = batch.ids.roll(-1, dims=1).to(logits.device)
    loss = cross_entropy(logits.flatten(0, 1), following.flatten(), reduction="none").view(batch.ids.shape)
    return loss.cpu().masked_fill(~batch.scored, float("nan"))


def probe(model: nn.Module) -> ProbedModel:
    """The model and the calls of its experts; one without any is refused."""
    model = getattr(model, "_orig_mod", model)  # of a compiled model the one that was compiled
    calls = expert_calls(model)
    if not calls:
        raise ValueError(
            f"model must hold experts that are called with hidden states, indices and weights; none are found in a "
            f"{type(model).__name__}. Models of transformers 5 and those with gatewise.nn.MoELayer have them"
        )
    return ProbedModel(model, calls)
