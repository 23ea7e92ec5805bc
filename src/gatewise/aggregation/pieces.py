"""The time-averaged aggregate: stretches of time, each with its aggregated gate and the experts of that time.

With experts that evolve, the mean over time of gate times expert is not one averaged gate times averaged experts, so
the stretches are kept apart.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any

import numpy as np

from gatewise.aggregation.engine import aggregated_gate
from gatewise.aggregation.gate_candidates import Candidates
from gatewise.arrays import as_rows, Floats
from gatewise.experts.gated import GatedExperts
from gatewise.gates import Gate


@dataclass(frozen=True)
class Piece:
    """A share of the time in which candidates had these mean weights (S,) and the experts were these."""

    share: float
    candidates: Candidates
    weights: Floats
    pools: GatedExperts

    def gate(self, gate: Gate, X: Any, n_threads: int) -> Floats:
        """The aggregated gate of this stretch at the rows of X, (n, M)."""
        return aggregated_gate(self.candidates, gate.features(as_rows(X)), self.weights, n_threads)


def aggregated_weights(pieces: Iterable[Piece], gate: Gate, X: Any, n_threads: int) -> Floats:
    """The time-averaged aggregated gate, (n, M)."""
    return np.asarray(sum(piece.share * piece.gate(gate, X, n_threads) for piece in pieces))


def aggregated_prediction(pieces: Sequence[Piece], gate: Gate, X: Any, n_threads: int) -> Floats:
    """The time average of the shared experts plus the gate-weighted ones, (n,): f_0 tilde of `alg:general`."""
    total = np.zeros(len(as_rows(X)))
    for _, group in groupby(pieces, key=attrgetter("pools")):  # experts that did not change are asked once
        members = list(group)
        shared, F = members[0].pools.predictions(X)
        share = sum(piece.share for piece in members)
        total += share * shared + (aggregated_weights(members, gate, X, n_threads) * F).sum(axis=1)
    return total
