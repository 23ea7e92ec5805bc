"""All of `alg:general` and `alg:cross-entropy`: several orders, their average, and the projection to one gate."""

from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from numpy.typing import ArrayLike

from gatewise.aggregation.blocks import Blocks
from gatewise.aggregation.l2_projection import L2Projection
from gatewise.aggregation.ordered import AggregationSetting, fit_order, merge, Observations, OrderFit
from gatewise.aggregation.particles.particle_run import Particles
from gatewise.aggregation.pieces import aggregated_prediction, aggregated_weights, Piece
from gatewise.aggregation.projections import (
    CrossEntropyReport,
    NearestCandidate,
    project_by_cross_entropy,
    project_in_l2,
)
from gatewise.arrays import Floats, Indices, Readout
from gatewise.experts.gated import GatedExperts
from gatewise.gates import Gate
from gatewise.nets import ListNet, Net
from gatewise.noise import Noise


@dataclass(frozen=True, eq=False)
class LearnedRouter:
    """A router after its fit.

    ``pieces`` make up the time-averaged aggregate; ``theta`` is the parameter of the one gate that the projection
    chose, ``average`` the time-averaged experts that go with it, and ``projection`` the report of the projection.
    """

    gate: Gate
    pieces: list[Piece]
    average: GatedExperts
    theta: Floats
    projection: NearestCandidate | CrossEntropyReport

    def predict(self, X: Any, readout: Readout) -> Floats:
        """Predictions (n,) of the time-averaged aggregate or of the single projected gate."""
        if readout == "aggregate":
            return aggregated_prediction(self.pieces, self.gate, X, numba.get_num_threads())
        shared, F = self.average.predictions(X)
        return np.asarray(shared + (self.gate.weights(X, self.theta) * F).sum(axis=1))

    def gate_weights(self, X: Any, readout: Readout) -> Floats:
        """The time-averaged aggregated gate, or the single projected one, at every row of X, (n, M)."""
        if readout == "aggregate":
            return aggregated_weights(self.pieces, self.gate, X, numba.get_num_threads())
        return self.gate.weights(X, self.theta)


def aggregation_setting(
    pools: GatedExperts,
    gate: Gate,
    net: Net | Particles | ArrayLike,
    noise: Noise,
    blocks: Blocks,
    sample: Observations,
    cross_entropy: bool,
) -> AggregationSetting:
    """Collect all that is the same for every random order of the rows, and check the net against the gate.

    A ``net`` given as an array is a list of parameters. The predictions of experts that are not refitted on the way
    are computed here, once, on all rows of ``sample``.
    """
    fixed = pools.can_predict and blocks.update_every is None
    candidates = net if isinstance(net, Net | Particles) else ListNet(net)
    if isinstance(candidates, Net):
        gate.check_theta(candidates.theta([0]), sample.rows.shape[1])
    return AggregationSetting(
        gate=gate,
        net=candidates,
        noise=noise,
        blocks=blocks,
        counts=blocks.counts(len(sample.y), pools.can_predict, cross_entropy),
        pools=pools,
        static=np.column_stack([pools.shared.predict(sample.X), pools.experts.predict(sample.X)]) if fixed else None,
        n_threads=numba.get_num_threads(),
    )


def learn_router(
    setting: AggregationSetting, sample: Observations, measure: L2Projection | None, rng: np.random.Generator
) -> tuple[LearnedRouter, list[Indices], list[OrderFit]]:
    """The router learned over ``setting.blocks.n_orders`` random orders; also the orders, and what each of them left.

    One gate is chosen in the L2 distance that ``measure`` describes, or by cross-entropy where that is None.
    """
    orders = [rng.permutation(len(sample.y)) for _ in range(setting.blocks.n_orders)]
    fits = [fit_order(setting, sample, order, rng) for order in orders]
    pieces, average = merge(fits, fixed_pool=setting.static is not None)
    if measure is None:
        last = sample.part(orders[0][len(sample.y) - setting.counts.projection :])
        theta, report = project_by_cross_entropy(setting, pieces, average, last)
        return LearnedRouter(setting.gate, pieces, average, theta, report), orders, fits
    theta, nearest = project_in_l2(setting, pieces, average, measure, sample.X)
    return LearnedRouter(setting.gate, pieces, average, theta, nearest), orders, fits
