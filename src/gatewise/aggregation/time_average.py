"""The average over time of gates times experts, kept in as little memory as is exact.

f_0(x) = sum_t (1/n_3) {shared^t(x) + sum_s w_st sum_m g_m(x; theta_s) f_m^t(x)}. An expert that is linear in its
coefficients, f_m^t = sum_j c_mj^t b_mj, only needs the S sums over t of w_st c_mj^t for each j. Others need their
states, each with the weights of its time.
"""

import copy
from typing import Any, NamedTuple

import numpy as np

from gatewise.aggregation.gate_candidates import Candidates
from gatewise.aggregation.pieces import LinearPiece, LinearTerm, Piece
from gatewise.arrays import Floats, Indices
from gatewise.experts.evolving import AveragedExpert, state_bytes
from gatewise.experts.gated import GatedExperts
from gatewise.experts.joint_update import learns, Updates
from gatewise.experts.linear_expert import linear_basis, linear_coefficients, with_coefficients

MIB = 2**20


class TimeBlock(NamedTuple):
    """A stretch between updates: its fraction of the time, the candidates' mean weights (S,), and the experts."""

    fraction: float
    weights: Floats
    pools: GatedExperts


def changing(pools: GatedExperts, updates: Updates) -> list[bool]:
    """Which experts may change, shared ones first: those with ``partial_fit``, or all under a rule of one's own."""
    return [callable(updates.rule) or learns(model) for model in pools.joined().models]


def kept_states(pools: GatedExperts, updates: Updates, n_blocks: int, n_candidates: int) -> int:
    """How many states, with the weights of n_candidates each, fit into the memory of the updates; at least one."""
    models = [model for model, moves in zip(pools.joined().models, changing(pools, updates), strict=True) if moves]
    each = max(1, sum(map(state_bytes, models)) + 8 * n_candidates)
    return max(1, min(n_blocks, int(updates.memory * MIB / each)))


class LinearKeeper:
    """Sums of coefficients times weights over time, for experts that are linear in their coefficients."""

    def __init__(self, pools: GatedExperts, bases: dict[int, list[Any]], n_candidates: int) -> None:
        self.pools, self.bases, self.n_shared = pools, bases, len(pools.shared)
        self.mean = np.zeros(n_candidates)
        self.coefficients = {place: np.zeros(len(basis)) for place, basis in bases.items()}
        self.sums = {p: np.zeros((len(b), n_candidates)) for p, b in bases.items() if p >= self.n_shared}

    @classmethod
    def of(
        cls, pools: GatedExperts, updates: Updates, X: Any, n_blocks: int, n_candidates: int
    ) -> "LinearKeeper | None":
        """A keeper, if every expert that changes is linear at the rows X and the sums are smaller than the states."""
        bases: dict[int, list[Any]] = {}
        for place, (model, moves) in enumerate(zip(pools.joined().models, changing(pools, updates), strict=True)):
            basis = linear_basis(model, X) if moves else None
            if moves and basis is None:
                return None
            if basis is not None:
                bases[place] = basis
        n_sums = sum(len(basis) for place, basis in bases.items() if place >= len(pools.shared))
        if n_sums >= n_blocks or 8 * n_sums * n_candidates > updates.memory * MIB:
            return None
        return cls(pools, bases, n_candidates)

    def add(self, block: TimeBlock) -> None:
        """Add a stretch of time."""
        self.mean += block.fraction * block.weights
        models = block.pools.joined().models
        for place in self.bases:
            coefficients = linear_coefficients(models[place])
            assert coefficients is not None
            self.coefficients[place] += block.fraction * coefficients
            if place in self.sums:
                self.sums[place] += np.outer(block.fraction * coefficients, block.weights)
        self.pools = block.pools

    def finish(self, candidates: Candidates, X: Any) -> tuple[list[Piece], GatedExperts]:
        """The aggregate in one piece, and the time-averaged experts; X are rows to check that they stayed linear."""
        models = list(self.pools.joined().models)
        for place, mean in self.coefficients.items():
            if linear_basis(models[place], X) is None:
                raise ValueError(
                    f"the expert {self.pools.joined().names[place]!r} was linear in coef_ and intercept_ when the "
                    "updates began and is not any more; wrap it in an EvolvingExpert, whose states are kept"
                )
            models[place] = with_coefficients(models[place], mean)
        average = self.pools.with_models(models)
        terms = tuple(
            LinearTerm(place - self.n_shared, basis, weights)
            for place, sums in self.sums.items()
            for basis, weights in zip(self.bases[place], sums, strict=True)
        )
        return [LinearPiece(1.0, candidates, self.mean, average, terms)], average


class StateKeeper:
    """States of the experts, evenly in time, each with the mean weights of the blocks that it stands for."""

    def __init__(self, updates: Updates, n_blocks: int, n_kept: int) -> None:
        self.updates = updates
        groups = np.array_split(np.arange(n_blocks), n_kept)
        self.group = np.concatenate([np.full(len(members), g) for g, members in enumerate(groups)])
        self.middle = [int(members[len(members) // 2]) for members in groups]
        self.fractions = np.zeros(n_kept)
        self.weights: list[Any] = [0.0] * n_kept
        self.states: list[GatedExperts] = []
        self.seen = 0

    def add(self, block: TimeBlock) -> None:
        """Add a stretch of time; the experts are copied if their state is one that is kept."""
        group = int(self.group[self.seen])
        self.fractions[group] += block.fraction
        self.weights[group] = self.weights[group] + block.fraction * block.weights
        if self.seen == self.middle[group]:
            self.states.append(frozen(block.pools, self.updates))
        self.seen += 1

    def finish(self, candidates: Candidates, X: Any) -> tuple[list[Piece], GatedExperts]:  # noqa: ARG002
        """The aggregate in pieces, and the time-averaged experts."""
        pieces = [
            Piece(float(fraction), candidates, weights / fraction, state)
            for fraction, weights, state in zip(self.fractions, self.weights, self.states, strict=True)
        ]
        return pieces, averaged(self.states, self.fractions, self.updates)

    @property
    def edges(self) -> Indices:
        """The number of the first block of each state, and the number of blocks, (kept + 1,)."""
        return np.append(np.searchsorted(self.group, np.arange(len(self.middle))), len(self.group))


def frozen(pools: GatedExperts, updates: Updates) -> GatedExperts:
    """The experts with copies of those that may change."""
    models = pools.joined().models
    return pools.with_models(
        [
            copy.deepcopy(model) if moves else model
            for model, moves in zip(models, changing(pools, updates), strict=True)
        ]
    )


def averaged(states: list[GatedExperts], shares: Floats, updates: Updates) -> GatedExperts:
    """The time-averaged experts (`remark3.2`): an expert that never changed stays itself."""
    if len(states) == 1:
        return states[0]
    columns = zip(*[state.joined().models for state in states], strict=True)
    models = [
        AveragedExpert(tuple(column), tuple(shares.tolist())) if moves else column[0]
        for column, moves in zip(columns, changing(states[0], updates), strict=True)
    ]
    return states[0].with_models(models)
