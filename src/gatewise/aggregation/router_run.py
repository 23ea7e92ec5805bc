"""All of `alg:general` and `alg:cross-entropy`: the orders, their average, and the projection to one gate."""

from dataclasses import dataclass, replace
from typing import Any

import numba
import numpy as np
from numpy.typing import ArrayLike

from gatewise.aggregation.blocks import Blocks
from gatewise.aggregation.engine import mean_squared_gap
from gatewise.aggregation.evolving_order import fit_evolving_order
from gatewise.aggregation.l2_projection import L2Projection
from gatewise.aggregation.ordered import AggregationSetting, fit_order, merge, Observations, OrderFit
from gatewise.aggregation.particles.particle_run import Particles
from gatewise.aggregation.pieces import aggregated_prediction, aggregated_weights, Piece
from gatewise.aggregation.projections import (
    CrossEntropyReport,
    NearestCandidate,
    project_by_cross_entropy,
    project_classes_in_l2,
    project_in_l2,
)
from gatewise.arrays import as_rows, Floats, Indices, Readout
from gatewise.experts.gated import GatedExperts
from gatewise.experts.joint_update import Updates
from gatewise.gates import Gate
from gatewise.nets import ListNet, Net
from gatewise.noise import Noise
from gatewise.progress import RUNNING


@dataclass(frozen=True, eq=False)
class LearnedRouter:
    """A router after its fit.

    ``pieces`` make up the time-averaged aggregate; ``theta`` is the parameter of the one gate that the projection
    chose, ``average`` the time-averaged experts that go with it, ``projection`` the report of the projection, and
    ``variance`` that of the noise.
    """

    gate: Gate
    pieces: list[Piece]
    average: GatedExperts
    theta: Floats
    projection: NearestCandidate | CrossEntropyReport
    variance: float

    def predict(self, X: Any, readout: Readout) -> Floats:
        """Predictions (n,) of the time-averaged aggregate or of the single projected gate."""
        if readout == "aggregate":
            return aggregated_prediction(self.pieces, self.gate, X, numba.get_num_threads())
        shared, F = self.average.predictions(X)
        return np.asarray(shared + (self.gate.weights(X, self.theta) * F).sum(axis=1))

    def deviation(self, X: Any, prediction: Floats) -> Floats:
        """The standard deviation of a new response around a prediction (n,) at every row of X, (n,).

        sd^2 = sigma^2 + sum_s w_s (prediction - f(x; theta_s))^2, with the time-averaged experts.
        """
        return np.asarray(np.sqrt(self.variance + self.disagreement(X, prediction)))

    def disagreement(self, X: Any, prediction: Floats) -> Floats:
        """The candidates' mean squared distance to a prediction (n,), by their weights, (n,)."""
        shared, F = self.average.predictions(X)
        features = self.gate.features(as_rows(X))
        gaps = (
            piece.share * mean_squared_gap(piece.candidates, features, prediction - shared, F, piece.weights)
            for piece in self.pieces
        )
        return np.asarray(sum(gaps, start=np.zeros(len(prediction))))

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
    device: str | None = None,
) -> AggregationSetting:
    """Collect all that is the same for every random order of the rows, and check the net against the gate.

    A ``net`` given as an array is a list of parameters. The predictions of experts that are not refitted on the way
    are computed here, once, on all rows of ``sample``.
    """
    fixed = pools.can_predict and blocks.updates is None
    if isinstance(blocks.updates, Updates):
        blocks.updates.check(pools)
    candidates = net if isinstance(net, Net | Particles) else ListNet(net)
    if device is not None and (isinstance(candidates, Particles) or blocks.updates is not None):
        raise ValueError(f"device={device!r} takes nets, and experts that are not updated; else leave device=None")
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
        device=device,
    )


def learn_router(
    setting: AggregationSetting, sample: Observations, measure: L2Projection | None, rng: np.random.Generator
) -> tuple[LearnedRouter, list[Indices], list[OrderFit]]:
    """The router learned over the orders of ``setting.blocks``; also the orders, and what each of them left.

    One gate is chosen in the L2 distance that ``measure`` describes, or by cross-entropy where that is None.
    """
    orders = setting.blocks.orders(len(sample.y), rng)
    router, fits = learn_along(setting, sample, orders, measure, rng)
    return replace(router, variance=_noise_variance(router, setting, sample, orders, fits)), orders, fits


def learn_along(
    setting: AggregationSetting,
    sample: Observations,
    orders: list[Indices],
    measure: L2Projection | None,
    rng: np.random.Generator,
) -> tuple[LearnedRouter, list[OrderFit]]:
    """The router learned over given orders, without the variance of the noise, and what each order left."""
    fit = fit_order if setting.blocks.updates is None else fit_evolving_order
    fits, now = [], RUNNING.get()
    if now is not None:
        now.stage("orders of the rows", len(orders))
    for order in orders:
        fits.append(fit(setting, sample, order, rng))
        if now is not None:
            now.step()
    if now is not None:
        now.stage("one gate near the aggregate", 2)
    pieces, average = merge(fits, fixed_pool=setting.static is not None)
    report: NearestCandidate | CrossEntropyReport
    if measure is None:
        last = sample.part(orders[0][len(sample.y) - setting.counts.projection :])
        theta, report = project_by_cross_entropy(setting, pieces, average, last)
    else:
        project = project_classes_in_l2 if average.experts.outputs else project_in_l2
        theta, report = project(setting, pieces, average, measure, sample)
    return LearnedRouter(setting.gate, pieces, average, theta, report, 0.0), fits


def _noise_variance(
    router: LearnedRouter,
    setting: AggregationSetting,
    sample: Observations,
    orders: list[Indices],
    fits: list[OrderFit],
) -> float:
    """The mean squared error one step ahead on the later half of the aggregation rows, less the disagreement there.

    By then the weights have settled. At least a tenth of the error counts as noise.
    """
    start, now = setting.counts.burn_in + setting.counts.calibration, RUNNING.get()
    if now is not None:
        now.stage("scale of the noise", len(orders))
    squares, gaps = [], []
    for order, fit in zip(orders, fits, strict=True):
        half = len(fit.online) // 2
        last = sample.part(order[start + half : start + len(fit.online)])
        if now is not None:
            now.piece(sum(piece.candidates.size for piece in router.pieces))
        squares.append((last.root * (last.y - fit.online[half:])) ** 2)
        gaps.append(last.root**2 * router.disagreement(last.X, router.predict(last.X, "aggregate")))
        if now is not None:
            now.step()
    error = float(np.concatenate(squares).mean())
    return max(0.1 * error, error - float(np.concatenate(gaps).mean()))
