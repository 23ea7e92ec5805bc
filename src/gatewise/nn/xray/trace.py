"""What a model did on a text: whom every layer chose for every token, with which weights, and at which loss."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gatewise.arrays import Booleans, Floats, Indices
from gatewise.nn.xray.token_batches import Tokens


@dataclass(frozen=True, eq=False)
class LayerTrace:
    """One layer: experts (n, K) and weights (n, K) as they were used, largest weight first, and hidden states (n, d).

    An index of M or more, or below zero, stands for no expert of the layer.
    """

    name: str
    n_experts: int
    indices: Indices
    weights: Floats
    hidden: NDArray[np.float32]

    @property
    def chosen(self) -> Booleans:
        """Who is active where, (n, M)."""
        mask = np.zeros((len(self.indices), self.n_experts + 1), dtype=np.bool_)
        np.put_along_axis(mask, self.places, True, axis=1)
        return mask[:, : self.n_experts]

    @property
    def dense(self) -> Floats:
        """The weights of all experts, (n, M)."""
        table = np.zeros((len(self.indices), self.n_experts + 1))
        for k in range(self.indices.shape[1]):  # an expert may be named twice
            table[np.arange(len(table)), self.places[:, k]] += self.weights[:, k]
        return table[:, : self.n_experts]

    @property
    def places(self) -> Indices:
        """The indices with M in the place of what is no expert, (n, K)."""
        known = (self.indices >= 0) & (self.indices < self.n_experts)
        return np.where(known, self.indices, self.n_experts)


@dataclass(frozen=True, eq=False)
class Trace:
    """The routing of all layers on a text of n tokens in G documents.

    ``loss`` (n,) is that of the next token, NaN where none follows. ``findings`` holds what was asked of the model
    since, by question; the page shows it.
    """

    tokens: Tokens
    ids: Indices
    documents: Indices
    loss: Floats
    layers: tuple[LayerTrace, ...]
    findings: dict[str, Any] = field(default_factory=dict)

    @property
    def n_documents(self) -> int:
        """How many documents there are, G."""
        return len(self.tokens.names)

    @property
    def scored(self) -> Indices:
        """The places of the tokens that have a loss."""
        return np.flatnonzero(~np.isnan(self.loss))
