"""The instrument: hooks on a model's experts, a text to run it on, and the questions that one asks of it."""

from types import TracebackType
from typing import Any

from torch import nn

from gatewise.arrays import as_count, Floats
from gatewise.nn.xray.doubled import alone, forced_losses, swapped
from gatewise.nn.xray.probed_model import probe
from gatewise.nn.xray.token_batches import as_tokens
from gatewise.nn.xray.trace import Trace
from gatewise.nn.xray.tracing import MEMORY, traced


class Xray:
    """A model under inspection; make it with `xray`, use it in a ``with`` block, and `run` it on a text first.

    Layers are numbered from 0 among those that have experts; ``layers`` has their names. Within the block the model
    is in evaluation mode; afterwards it is as it was.
    """

    def __init__(self, model: nn.Module) -> None:
        self._probed = probe(model)
        self._trace: Trace | None = None
        self._training = model.training
        self._kept: dict[tuple[int, int | None], Floats] = {}

    @property
    def layers(self) -> tuple[str, ...]:
        """The paths of the experts in the model, layer by layer."""
        return tuple(call.name for call in self._probed.calls)

    @property
    def trace(self) -> Trace:
        """The trace of the last run."""
        if self._trace is None:
            raise ValueError("there is no text yet: call run(batches, documents=...) first")
        return self._trace

    def __enter__(self) -> "Xray":
        self._training = self._probed.model.training
        self._probed.model.eval()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _where: TracebackType | None
    ) -> None:
        self._probed.model.train(self._training)

    def run(
        self,
        batches: Any,
        documents: Any = None,
        mask: Any = None,
        *,
        batch_size: int = 16,
        memory: int = MEMORY,
        progress: bool = False,
    ) -> Trace:
        """Run the model on token ids (N, T), or a list of such batches, and keep the routing of every token.

        ``documents`` label the sequences (N,) or the tokens (N, T): they are the units of all statistics. ``mask``
        (N, T) is zero at padding. Both are lists where ``batches`` is one. Without ``documents`` every sequence is
        one. Hidden states stay in memory, at most ``memory`` bytes.
        """
        tokens = as_tokens(batches, documents, mask, as_count(batch_size, "batch_size"))
        self._trace = traced(self._probed, tokens, _shown("run") if progress else iter, memory)
        self._kept.clear()
        return self._trace

    def counterfactual(self, layer: int, slot: int | None = None, *, tolerance: float = 1e-5) -> Floats:
        """The exact loss of every token under every expert of a layer, (n, M); NaN where no token follows.

        Each token's routing is changed by itself, with all tokens before it as they were. Expert m serves the token
        alone, with the sum of the weights; with ``slot`` it takes the place of the chosen expert of that rank by
        weight, 0 for the first, and the others stay. Both copies of the sequence with nothing changed must have the
        model's own logits, to ``tolerance``; a model for which they have not is refused.
        """
        call, key = self._probed.call(layer), (layer, slot)
        if key not in self._kept:
            active = self.trace.layers[layer].indices.shape[1]
            if slot is not None:
                as_count(slot, "slot", low=0, high=active - 1)
            experts = range(call.n_experts)
            changes = [alone(m) if slot is None else swapped(m, slot) for m in experts]
            self._kept[key] = forced_losses(self._probed, self.trace.tokens, call, changes, tolerance)[1]
        return self._kept[key]


def _shown(what: str) -> Any:
    """Wraps a list of batches such that the place in it is written to the standard error."""
    import sys  # noqa: PLC0415

    def watch(batches: Any) -> Any:
        for place, batch in enumerate(batches, start=1):
            sys.stderr.write(f"\r{what}: batch {place} of {len(batches)}")
            yield batch
        sys.stderr.write("\n")

    return watch


def xray(model: nn.Module) -> Xray:
    """Look into a mixture-of-experts model of the transformers library, or one with `gatewise.nn.MoELayer`.

    Nothing is converted: hooks stand before the calls of the experts while the model runs. A compiled model runs
    eagerly meanwhile.
    """
    return Xray(model)
