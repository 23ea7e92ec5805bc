"""The routing of one layer on a text."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gatewise.arrays import Booleans, Floats, Indices


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

    def at(self, rows: Indices) -> "LayerTrace":
        """The same layer at some of the tokens."""
        parts = (self.indices[rows], self.weights[rows], self.hidden[rows])
        return LayerTrace(self.name, self.n_experts, *parts)

    def without_last(self) -> Booleans:
        """Who is active in a place other than the last by weight, (n, M)."""
        first = LayerTrace(self.name, self.n_experts, self.indices[:, :-1], self.weights[:, :-1], self.hidden)
        return first.chosen
