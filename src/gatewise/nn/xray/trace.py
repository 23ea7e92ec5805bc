"""What a model did on a text: whom every layer chose for every token, with which weights, and at which loss."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from gatewise.arrays import as_count, Floats, Indices
from gatewise.geometry.grouped_rows import as_groups, group_sums
from gatewise.nn.xray.coactivation import CoactivationLayer, coactivations
from gatewise.nn.xray.document_bootstrap import entropy_bits, layer_entropy, layer_load, LayerEntropy, LayerLoad
from gatewise.nn.xray.layer_trace import LayerTrace
from gatewise.nn.xray.token_batches import Tokens
from gatewise.nn.xray.usage import measured_usage, Usage


@dataclass(frozen=True, eq=False)
class Trace:
    """The routing of all layers on a text of n tokens in G documents.

    ``loss`` (n,) is that of the next token, NaN where none follows. ``findings`` holds what was asked since, by
    question; the page shows it. All statistics take documents as units and want at least 20 of them.
    """

    tokens: Tokens
    ids: Indices
    documents: Indices
    loss: Floats
    layers: tuple[LayerTrace, ...]
    device: str = "cpu"
    findings: dict[str, Any] = field(default_factory=dict)

    @property
    def n_documents(self) -> int:
        """How many documents there are, G."""
        return len(self.tokens.names)

    @property
    def scored(self) -> Indices:
        """The places of the tokens that have a loss."""
        return np.flatnonzero(~np.isnan(self.loss))

    @property
    def units(self) -> Indices:
        """The documents (n,), which are refused where they are fewer than 20."""
        return as_groups(self.documents, len(self.documents), "documents")

    def load(self, seed: int = 0) -> tuple[LayerLoad, ...]:
        """The fraction of choices that every expert of every layer has, with intervals by document bootstrap."""
        found = tuple(layer_load(layer, self._counts(layer), seed) for layer in self.layers)
        self.findings["load"] = found
        return found

    def entropy(self, seed: int = 0) -> tuple[LayerEntropy, ...]:
        """The entropy of load and weights of every layer, in bits, with intervals by document bootstrap."""
        found = []
        for layer in self.layers:
            bits = entropy_bits(layer.weights)[:, None]
            sums = group_sums(np.hstack([layer.chosen * bits, bits]), self.units, self.n_documents)
            found.append(layer_entropy(layer, self._counts(layer), sums, seed))
        self.findings["entropy"] = tuple(found)
        return tuple(found)

    def usage(
        self,
        classes: Any,
        null: Literal["router", "chance"] = "router",
        *,
        n_draws: int = 199,
        initial: "Trace | None" = None,
        seed: int = 0,
    ) -> Usage:
        """Which experts serve which class of tokens, and how much of that a null explains, layer by layer.

        ``classes`` (n,) has a label for every token. Against "router", the null are linear routers with random
        weights on the same hidden states, with prices that give every expert its load: what exceeds them was
        learned. Against "chance", classes of tokens are rotated within documents, and classes of whole documents
        are permuted. p-values are adjusted for all experts of all layers by the largest statistic. ``initial`` is a
        trace of the initial checkpoint on the same tokens.
        """
        names, codes = np.unique(np.asarray(classes), return_inverse=True)
        if codes.shape != self.ids.shape:
            raise ValueError(f"classes must have one label for each of the {len(self.ids)} tokens, not {codes.shape}")
        sizes = [[layer.n_experts for layer in one.layers] for one in (self, initial or self)]
        if initial is not None and not (np.array_equal(initial.ids, self.ids) and sizes[0] == sizes[1]):
            raise ValueError(f"initial must be a trace on the same tokens, of layers with {sizes[0]} experts")
        found = measured_usage(
            self.layers,
            self.units,
            codes.astype(np.intp),
            tuple(names.tolist()),
            null,
            as_count(n_draws, "n_draws", low=19),
            np.random.default_rng(seed),
            device=self.device,
            initial=None if initial is None else initial.layers,
        )
        self.findings[f"usage {null}"] = found
        return found

    def coactivation(
        self, classes: Any = None, *, n_flips: int = 1999, seed: int = 0
    ) -> tuple[CoactivationLayer, ...]:
        """Which experts are active together, against sets of K with the same loads within each class of tokens.

        Without ``classes`` (n,) all tokens are one class. Deviations are summed by document, and their signs are
        flipped; p-values are two-sided and adjusted for all pairs of all layers. The test is conservative.
        """
        codes = np.zeros_like(self.ids) if classes is None else np.unique(classes, return_inverse=True)[1]
        found = coactivations(self.layers, codes, self.units, n_flips, np.random.default_rng(seed))
        self.findings["coactivation"] = found
        return found

    def report(self, path: str | Path, words: Sequence[str] | None = None) -> None:
        """Write a page of what was asked so far; ``words`` has the text of every token id, for examples."""
        from gatewise.nn.xray.xray_page import page  # noqa: PLC0415 - the page is made of traces

        Path(path).write_text(page(self, words), encoding="utf-8")

    def _counts(self, layer: LayerTrace) -> Floats:
        """How often every document chose every expert, (G, M)."""
        return group_sums(layer.chosen.astype(np.float64), self.units, self.n_documents)
