"""One order of the rows through `alg:general`, with experts that are updated on the way."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from gatewise.aggregation.engine import aggregate, aggregated_gate, NetRun
from gatewise.aggregation.gate_candidates import Candidates, gate_candidates
from gatewise.aggregation.ordered import (
    AggregationSetting,
    BlockRows,
    finished,
    log_prior,
    net_fit,
    net_scales,
    Observations,
    OrderFit,
    over_particles,
    prior_gate,
    Thinning,
)
from gatewise.aggregation.particles.particle_run import Particles
from gatewise.aggregation.pieces import aggregated_prediction, merged, Piece
from gatewise.aggregation.time_average import (
    averaged,
    kept_states,
    LinearKeeper,
    StateKeeper,
    TimeBlock,
)
from gatewise.arrays import Floats, Indices
from gatewise.experts.evolving import after_burn_in, update_blocks, weighted
from gatewise.experts.gated import GatedExperts
from gatewise.experts.pool import Noting
from gatewise.nets import Net
from gatewise.stats import upper_mean_bound

CHECK_ROWS = 64  # at which experts with coefficients are checked to be linear in them
HELD_OUT = 200  # rows at most that measure the error of keeping only some states


def fit_evolving_order(
    setting: AggregationSetting, sample: Observations, order: Indices, rng: np.random.Generator
) -> OrderFit:
    """Steps (b) to (e) of `alg:general` for one order of the rows; the experts are updated between the rows.

    If not all states fit into memory, the last rows of the order take no part: they measure the error of that.
    """
    counts, updates = setting.counts, setting.updates
    used = sample.part(order[: counts.burn_in + counts.calibration + counts.aggregation])
    burn_in, rest = used.part(np.arange(counts.burn_in)), used.part(np.arange(counts.burn_in, len(used.y)))
    gate = prior_gate(setting, burn_in.rows)
    pools = after_burn_in(setting.pools, burn_in.X, burn_in.y, updates, gate, burn_in.weight)
    n_blocks = len(list(update_blocks(counts.aggregation, updates.every)))
    size = setting.net.n if isinstance(setting.net, Particles) else setting.net.size
    n_kept, linear = kept_states(pools, updates, n_blocks, size), None
    if isinstance(setting.net, Net):
        some = rest.part(np.arange(min(CHECK_ROWS, len(rest.y)))).X
        linear = LinearKeeper.of(pools, updates, some, n_blocks, size)
    held_out = min(HELD_OUT, counts.aggregation // 10) if n_kept < n_blocks and linear is None else 0
    cut = len(rest.y) - held_out
    run = _EvolvingRun(setting, rest.part(np.arange(cut)), rest.part(np.arange(cut, len(rest.y))))
    n_blocks = len(list(update_blocks(counts.aggregation - held_out, updates.every)))
    states = StateKeeper(updates, n_blocks, min(n_kept, n_blocks))
    if isinstance(setting.net, Particles):
        return run.over_particles(setting.net, pools, states, rng)
    return run.over_net(setting.net, pools, states if linear is None else linear)


class _EvolvingRun:
    """The rows after the burn-in, ``online``, rows that are held out, and the predictions so far."""

    def __init__(self, setting: AggregationSetting, online: Observations, probes: Observations) -> None:
        self.setting, self.updates, self.online, self.probes = setting, setting.updates, online, probes
        self.n_calibration = setting.counts.calibration
        self.n_shared = len(setting.pools.shared)
        self.needs_gate = self.updates.needs_gate(setting.pools)
        self.F = np.empty((len(online.y), self.n_shared + len(setting.pools.experts)))
        self.exact = np.zeros(len(probes.y))  # the aggregate over all states at the rows that are held out

    def over_net(self, net: Net, pools: GatedExperts, keeper: LinearKeeper | StateKeeper) -> OrderFit:
        """Calibrate and aggregate every candidate of a net, block by block."""
        setting, n = self.setting, len(self.online.y)
        candidates = gate_candidates(setting.gate, net)
        prior = log_prior(net)
        weights = np.full(net.size, -np.log(net.size)) if prior is None else prior
        for block in self._blocks(0, self.n_calibration):
            pools = self._learn(self._predict(pools, block), block, candidates, weights)
        sigma = net_scales(setting, candidates, self._rows(slice(self.n_calibration)))
        runs: list[NetRun] = []
        for block in self._blocks(self.n_calibration, n):
            pools = self._predict(pools, block)
            run = self._aggregate(candidates, self._rows(block), sigma, weights)
            fraction = (block.stop - block.start) / (n - self.n_calibration)
            self._add(keeper, TimeBlock(fraction, run.mean_weights[0], pools), candidates)
            weights = run.log_weights
            runs.append(run._replace(mean_weights=np.empty((0, 0))))
            if block.stop < n:
                pools = self._learn(pools, block, candidates, weights)
        pieces, average = keeper.finish(candidates, self.online.part(np.arange(min(CHECK_ROWS, n))).X)
        aggregation = self._rows(slice(self.n_calibration, n))
        fit = net_fit(setting, net, sigma, aggregation, _chained(runs), pieces, average)
        fit = fit._replace(thinning=self._thinning(pieces))
        return finished(fit, self.online, self.F, self.n_shared, self.n_calibration)

    def over_particles(
        self, particles: Particles, pools: GatedExperts, keeper: StateKeeper, rng: np.random.Generator
    ) -> OrderFit:
        """Let the experts evolve along all rows, then aggregate with particles in the place of a net."""
        if self.needs_gate:
            raise ValueError(
                "the experts' update rule needs the gate on the way, which particles only give at the end: take a "
                "net, or an update rule and shared experts that do not need it"
            )
        n, first = len(self.online.y), self.n_calibration
        at_probes: list[GatedExperts] = []
        for block in [*self._blocks(0, first), *self._blocks(first, n)]:
            pools = self._predict(pools, block)
            if block.start >= first:
                keeper.add(TimeBlock((block.stop - block.start) / (n - first), np.zeros(0), pools))
                if len(self.probes.y):
                    at_probes.append(_recorded(pools, self.probes.X))
            if block.stop < n:
                pools = self._learn(pools, block, None, np.zeros(0))
        edges = np.array([block.start for block in self._blocks(first, n)] + [n]) - first
        states = [keeper.states[group] for group in keeper.group]
        average = averaged(keeper.states, keeper.fractions, self.updates)
        rows = self._rows(slice(first)), self._rows(slice(first, n))
        fit = over_particles(self.setting, particles, *rows, states, average, rng, edges=edges)
        if at_probes:
            self.exact = self._aggregate_of(_with_states(fit.pieces, edges, at_probes))
        pieces = merged(fit.pieces)
        fit = fit._replace(pieces=pieces, thinning=self._thinning(pieces))
        return finished(fit, self.online, self.F, self.n_shared, first)

    def _blocks(self, start: int, stop: int) -> Iterator[slice]:
        for part in update_blocks(stop - start, self.updates.every):
            yield slice(start + part.start, start + part.stop)

    def _predict(self, pools: GatedExperts, block: slice) -> GatedExperts:
        """Keep the predictions of a block, made by the experts as they are before it."""
        with Noting(f"at observation {block.start}"):
            self.F[block] = _columns(pools, self.online.part(np.arange(block.start, block.stop)).X)
        return pools

    def _learn(
        self, pools: GatedExperts, block: slice, candidates: Candidates | None, log_weights: Floats
    ) -> GatedExperts:
        part = self.online.part(np.arange(block.start, block.stop))
        gate = np.full((len(part.y), len(pools.experts)), 1.0 / len(pools.experts))
        if self.needs_gate and candidates is not None:
            features = self.setting.gate.features(part.rows)
            gate = aggregated_gate(candidates, features, np.exp(log_weights), self.setting.n_threads)
        return self.updates.apply(weighted(pools, part.weight), part.X, part.y, gate)

    def _rows(self, block: slice) -> BlockRows:
        part = self.online.part(np.arange(len(self.online.y))[block])
        return BlockRows.of(self.setting.gate, part, self.F[block], self.n_shared)

    def _aggregate(self, candidates: Candidates, rows: BlockRows, sigma: Floats, weights: Floats) -> NetRun:
        threads = self.setting.n_threads
        return aggregate(candidates, rows.features, rows.y, rows.F, sigma, self.setting.noise, weights, None, threads)

    def _add(self, keeper: LinearKeeper | StateKeeper, block: TimeBlock, candidates: Candidates) -> None:
        keeper.add(block)
        if len(self.probes.y):
            self.exact += self._aggregate_of([Piece(block.fraction, candidates, block.weights, block.pools)])

    def _aggregate_of(self, pieces: list[Piece]) -> Floats:
        """The aggregate at the rows that are held out."""
        return aggregated_prediction(pieces, self.setting.gate, self.probes.X, self.setting.n_threads)

    def _thinning(self, pieces: list[Piece]) -> Thinning:
        if len(self.probes.y) == 0:
            return Thinning()
        squares = (self._aggregate_of(pieces) - self.exact) ** 2
        return Thinning(float(np.sqrt(squares.mean())), float(np.sqrt(upper_mean_bound(squares))), len(squares))


def _columns(pools: GatedExperts, X: Any) -> Floats:
    """The predictions of all experts, shared ones first, (n, M_S + M)."""
    return np.column_stack([pools.shared.predict(X), pools.experts.predict(X)])


def _recorded(pools: GatedExperts, X: Any) -> GatedExperts:
    """Experts that predict at the rows of X, and only there, what these experts predict now."""
    columns = _columns(pools, X).T
    return pools.with_models([partial(_same, column) for column in columns])


def _same(column: Floats, X: Any) -> Floats:  # noqa: ARG001 - the rows are always the same
    return column


def _with_states(pieces: list[Piece], edges: Indices, states: list[GatedExperts]) -> list[Piece]:
    """The pieces, each of which lies between two edges, with the experts of its own stretch."""
    ends = np.cumsum([piece.share for piece in pieces]) * edges[-1]
    places = np.searchsorted(edges, ends - 0.5, side="right") - 1
    return [replace(piece, pools=states[place]) for piece, place in zip(pieces, places, strict=True)]


def _chained(runs: list[NetRun]) -> NetRun:
    """One run out of those over successive rows, each of which began with the weights that the last one left."""
    log_z, total = [np.zeros(1)], 0.0
    for run in runs:
        log_z.append(total + run.log_z[1:] - run.log_z[0])
        total = float(log_z[-1][-1])
    predictions = np.concatenate([run.predictions for run in runs])
    return NetRun(predictions, np.concatenate(log_z), runs[-1].log_weights, np.empty((0, 0)))
