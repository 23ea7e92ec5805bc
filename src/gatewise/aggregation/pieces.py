"""The time-averaged aggregate: stretches of time, each with its aggregated gate and the experts of that time.

With experts that evolve, the mean over time of gate times expert is not one averaged gate times averaged experts, so
the stretches are kept apart.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from gatewise.aggregation.device_candidates import DeviceCandidates
from gatewise.aggregation.engine import aggregated_gate
from gatewise.aggregation.gate_candidates import Candidates
from gatewise.arrays import as_rows, Floats
from gatewise.experts.gated import GatedExperts
from gatewise.experts.pool import expert_predictions
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


class LinearTerm(NamedTuple):
    """One coefficient of the routed expert ``place``: its basis expert, and sum_t c^t w_st / n_3, (S,)."""

    place: int
    basis: Any
    weights: Floats


@dataclass(frozen=True)
class LinearPiece(Piece):
    """All of the time at once, with experts that are linear in their coefficients; ``pools`` are their averages.

    The expert ``place`` is f^t = sum_j c_j^t b_j at time t, with a term for every j; experts without a term stay.
    """

    terms: tuple[LinearTerm, ...] = ()

    def prediction(self, gate: Gate, X: Any, n_threads: int) -> Floats:
        """The time average of the shared experts plus the gate-weighted ones, (n,)."""
        features = gate.features(as_rows(X))
        total = self.pools.shared.total(X)
        evolving = {term.place for term in self.terms}
        weights = self.gate(gate, X, n_threads)
        for m, (_, expert) in enumerate(self.pools.experts.experts):
            if m not in evolving:
                total = total + weights[:, m] * expert_predictions(expert, X)
        for term in self.terms:
            share = aggregated_gate(self.candidates, features, term.weights, n_threads)[:, term.place]
            total = total + share * expert_predictions(term.basis, X)
        return total


def merged(pieces: Iterable[Piece]) -> list[Piece]:
    """Neighbouring pieces with the same candidates and experts as one."""
    out: list[Piece] = []
    for piece in pieces:
        last = out[-1] if out else None
        if last is not None and last.candidates is piece.candidates and last.pools is piece.pools:
            share = last.share + piece.share
            weights = (last.share * last.weights + piece.share * piece.weights) / share
            out[-1] = Piece(share, piece.candidates, weights, piece.pools)
        else:
            out.append(piece)
    return out


def aggregated_weights(pieces: Iterable[Piece], gate: Gate, X: Any, n_threads: int) -> Floats:
    """The time-averaged aggregated gate, (n, M)."""
    return np.asarray(sum(piece.share * piece.gate(gate, X, n_threads) for piece in pieces))


def aggregated_prediction(pieces: Sequence[Piece], gate: Gate, X: Any, n_threads: int) -> Floats:
    """The time average of the shared experts plus the gate-weighted ones, (n,): f_0 tilde of `alg:general`."""
    total = np.zeros(len(as_rows(X)))
    for _, group in groupby(pieces, key=attrgetter("pools")):  # experts that did not change are asked once
        members = list(group)
        if isinstance(members[0], LinearPiece):
            linear = (piece for piece in members if isinstance(piece, LinearPiece))
            total += sum(piece.share * piece.prediction(gate, X, n_threads) for piece in linear)
            continue
        shared, F = members[0].pools.predictions(X)
        share = sum(piece.share for piece in members)
        total += share * shared + _mixed(members, gate, X, F, n_threads)
    return total


def _mixed(pieces: Sequence[Piece], gate: Gate, X: Any, F: Floats, n_threads: int) -> Floats:
    """The gate-weighted experts F (n, M), (n,); on a device without the gate, which takes two passes, not one."""
    there = [(piece, piece.candidates) for piece in pieces if isinstance(piece.candidates, DeviceCandidates)]
    if not there:
        return np.asarray((aggregated_weights(pieces, gate, X, n_threads) * F).sum(axis=1))
    features = gate.features(as_rows(X))
    return np.asarray(sum(piece.share * net.mixture(features, F, piece.weights) for piece, net in there))
