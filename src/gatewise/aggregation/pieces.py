"""The time-averaged aggregate: stretches of time, each with its aggregated gate and the experts of that time.

With experts that evolve, the mean over time of gate times expert is not one averaged gate times averaged experts, so
the stretches are kept apart.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gatewise.aggregation.engine import aggregated_gate
from gatewise.aggregation.gate_candidates import Candidates
from gatewise.arrays import as_rows, Floats
from gatewise.experts import Expert, expert_matrix
from gatewise.gates import Gate


@dataclass(frozen=True, eq=False)
class ExpertSnapshot:
    """The experts at one time: shared ones, always on, and routed ones, which a gate weighs.

    Two snapshots are equal only if they are the same object: experts cannot be compared.
    """

    shared: tuple[Expert, ...]
    routed: tuple[Expert, ...]

    def predictions(self, X: Any) -> tuple[Floats, Floats]:
        """The sum of the shared experts (n,) and the predictions of the routed ones (n, M)."""
        return shared_sum(self.shared, X), expert_matrix(self.routed, X, "routed")


@dataclass(frozen=True)
class Piece:
    """A share of the time in which candidates had these mean weights (S,) and the experts were these."""

    share: float
    candidates: Candidates
    weights: Floats
    experts: ExpertSnapshot

    def gate(self, gate: Gate, X: Any, n_threads: int) -> Floats:
        """The aggregated gate of this stretch at the rows of X, (n, M)."""
        return aggregated_gate(self.candidates, gate.features(as_rows(X)), self.weights, n_threads)


def shared_sum(shared: Sequence[Expert], X: Any) -> Floats:
    """The sum of the shared experts at every row, (n,); zeros when there is none."""
    if not shared:
        return np.zeros(len(as_rows(X)))
    return np.asarray(expert_matrix(shared, X, "shared").sum(axis=1))


def aggregated_weights(pieces: Iterable[Piece], gate: Gate, X: Any, n_threads: int) -> Floats:
    """The time-averaged aggregated gate, (n, M)."""
    return np.asarray(sum(piece.share * piece.gate(gate, X, n_threads) for piece in pieces))


def aggregated_prediction(pieces: Sequence[Piece], gate: Gate, X: Any, n_threads: int) -> Floats:
    """The time average of shared plus gate-weighted routed experts, (n,): f_0 tilde of `alg:general`."""
    total = np.zeros(len(as_rows(X)))
    by_experts: dict[ExpertSnapshot, list[Piece]] = {}  # so that each snapshot is asked once
    for piece in pieces:
        by_experts.setdefault(piece.experts, []).append(piece)
    for experts, members in by_experts.items():
        shared, routed = experts.predictions(X)
        share = sum(piece.share for piece in members)
        total += share * shared + (aggregated_weights(members, gate, X, n_threads) * routed).sum(axis=1)
    return total
