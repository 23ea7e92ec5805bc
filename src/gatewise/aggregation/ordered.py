"""One order of the rows through `alg:general`, with experts that stay as they are after the burn-in."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import _safe_indexing

from gatewise.aggregation.blocks import BlockCounts, Blocks
from gatewise.aggregation.device_candidates import DeviceCandidates, DeviceScale, on_device
from gatewise.aggregation.engine import aggregate, aggregated_gate, calibrate, NetRun, weight_path
from gatewise.aggregation.gate_candidates import Candidates, gate_candidates
from gatewise.aggregation.particles.likelihood import Calibration
from gatewise.aggregation.particles.particle_run import Epoch, Particles, run_particles
from gatewise.aggregation.pieces import Piece
from gatewise.aggregation.weight_steps import weight_steps, WeightSteps
from gatewise.aggregation.weights import effective_size
from gatewise.arrays import Floats, Indices
from gatewise.experts.evolving import after_burn_in, AveragedExpert
from gatewise.experts.gated import GatedExperts
from gatewise.experts.joint_update import Updates
from gatewise.gates import Gate
from gatewise.nets import ListNet, Net
from gatewise.noise import Noise

N_LEADING = 10
STEP = 2**20  # candidates looked at together


class Observations(NamedTuple):
    """Rows to learn from: X as it was handed in, its numbers (n, d), the responses (n,), and sample weights (n,).

    A row of ``weight`` w has the noise scale sigma / sqrt(w); ``copies`` says how many copies of it, next to each
    other, a row counts as, and need not be whole (`weight_steps`). None stands for 1.
    """

    X: Any
    rows: Floats
    y: Floats
    weight: Floats | None = None
    copies: Floats | None = None

    def part(self, chosen: Indices) -> "Observations":
        """The chosen rows, in the order in which they are listed."""
        weights = (None if each is None else each[chosen] for each in (self.weight, self.copies))
        return Observations(_safe_indexing(self.X, chosen), self.rows[chosen], self.y[chosen], *weights)

    @property
    def root(self) -> Floats:
        """The square roots of the sample weights, (n,): residuals are multiplied by them."""
        return np.ones(len(self.y)) if self.weight is None else np.sqrt(self.weight)


class AggregationSetting(NamedTuple):
    """All that is the same for every random order of the rows.

    ``static`` (n, M_S + M): the predictions of experts that are not refitted, shared ones first; None if they are.
    """

    gate: Gate
    net: Net | Particles
    noise: Noise
    blocks: Blocks
    counts: BlockCounts
    pools: GatedExperts
    static: Floats | None
    n_threads: int
    device: str | None = None

    def candidates(self, net: Net) -> Candidates:
        """The candidates of a net under the gate, on the device where one is named."""
        found = gate_candidates(self.gate, net)
        return found if self.device is None else on_device(found, self.device)

    @property
    def updates(self) -> Updates:
        """How the experts learn on the way."""
        if not isinstance(self.blocks.updates, Updates):
            raise ValueError("blocks.updates must be given where experts evolve")
        return self.blocks.updates


class Thinning(NamedTuple):
    """What it costs that only some states of the experts are kept: nothing, where all are.

    error: the root mean square difference of the aggregate to the one over all states, at ``held_out`` rows that
    took no part in the fit; bound: its upper 95 % confidence bound for new rows.
    """

    error: float = 0.0
    bound: float = 0.0
    held_out: int = 0


class OrderFit(NamedTuple):
    """The result of one order: the pieces of the aggregate, the time-averaged experts, and diagnostics.

    online (n3,): one-step-ahead predictions; F (n3, M_S + M): the experts', shared ones first; sigma (S,);
    leading: the candidates of largest mean weight, and leading_path (n3 + 1, L)
    their weights; effective: the effective number of candidates at the end; thinning: the error of keeping only some
    states of the experts.
    """

    pieces: list[Piece]
    average: GatedExperts
    online: Floats
    F: Floats
    sigma: Floats
    leading: Indices
    leading_theta: Floats
    leading_path: Floats
    effective: float
    acceptance: Floats
    ess: Floats
    thinning: Thinning


class BlockRows(NamedTuple):
    """The rows of one block: their numbers (n, d), features (n, p), responses less the shared experts (n,), and
    predictions of the routed experts (n, M); both are multiplied by the roots of the sample weights. Where rows have
    copies, a row stands here once for each of its steps, with the power (n,) of the step."""

    rows: Floats
    features: Floats
    y: Floats
    F: Floats
    power: Floats | None = None

    def part(self, rows: slice) -> "BlockRows":
        """Some of the rows."""
        power = None if self.power is None else self.power[rows]
        return BlockRows(self.rows[rows], self.features[rows], self.y[rows], self.F[rows], power)

    @classmethod
    def of(cls, gate: Gate, sample: Observations, F: Floats, n_shared: int) -> "BlockRows":
        """The rows of a sample with the predictions F (n, M_S + M) of all experts, shared ones first."""
        root = sample.root
        y = root * (sample.y - F[:, :n_shared].sum(axis=1))
        block = cls(sample.rows, gate.features(sample.rows), y, root[:, None] * F[:, n_shared:])
        if sample.copies is None:
            return block
        steps = weight_steps(sample.copies)
        row = steps.row
        return cls(block.rows[row], block.features[row], y[row], block.F[row], steps.power)

    def durations(self, cuts: Indices) -> Floats:
        """The fraction of the time from each cut to the next, (cuts - 1,): of the rows, or of their powers."""
        until = np.arange(len(self.y) + 1) if self.power is None else np.append(0.0, np.cumsum(self.power))
        return np.asarray(np.diff(until[cuts]) / until[-1])


def fit_order(
    setting: AggregationSetting, sample: Observations, order: Indices, rng: np.random.Generator
) -> OrderFit:
    """Steps (b) to (e) of `alg:general` for one order of the rows, with experts that do not evolve."""
    counts = setting.counts
    used = sample.part(order[: counts.burn_in + counts.calibration + counts.aggregation])
    online = used.part(np.arange(counts.burn_in, len(used.y)))
    if setting.static is not None:
        pools, F = setting.pools, setting.static[order[counts.burn_in : len(used.y)]]
    else:
        burn_in = used.part(np.arange(counts.burn_in))
        pools = after_burn_in(
            setting.pools, burn_in.X, burn_in.y, None, prior_gate(setting, burn_in.rows), burn_in.weight
        )
        F = np.column_stack([pools.shared.predict(online.X), pools.experts.predict(online.X)])
    rows = BlockRows.of(setting.gate, online, F, len(pools.shared))
    calibration, aggregation = rows.part(slice(counts.calibration)), rows.part(slice(counts.calibration, None))
    if isinstance(setting.net, Particles):
        fit = over_particles(setting, setting.net, calibration, aggregation, [pools], pools, rng)
    else:
        fit = _over_net(setting, setting.net, calibration, aggregation, pools)
    return finished(fit, online, F, len(pools.shared), counts.calibration)


def finished(fit: OrderFit, online: Observations, F: Floats, n_shared: int, n_calibration: int) -> OrderFit:
    """The fit with predictions in the units of y, the shared experts included, from those of the scaled rows.

    Where a row passed in several steps, its prediction is that before the first of them.
    """
    if online.copies is not None:
        fit = _by_row(fit, weight_steps(online.copies))
    part = slice(n_calibration, n_calibration + len(fit.online))
    predictions = fit.online / online.root[part] + F[part, :n_shared].sum(axis=1)
    return fit._replace(online=predictions, F=F[part])


def _by_row(fit: OrderFit, steps: WeightSteps) -> OrderFit:
    """The fit with diagnostics for every row, from those for every step."""
    ends = steps.ends
    return fit._replace(
        online=fit.online[steps.first],
        leading_path=fit.leading_path[ends] if len(fit.leading_path) else fit.leading_path,
        ess=fit.ess[ends[1:] - 1] if len(fit.ess) else fit.ess,
    )


def prior_gate(setting: AggregationSetting, rows: Floats) -> Floats:
    """The gate before any observation, (n, M): the mean over a net, equal weights with particles."""
    if len(rows) == 0 or isinstance(setting.net, Particles):
        return np.full((len(rows), setting.gate.n_experts), 1.0 / setting.gate.n_experts)
    net, candidates, features = setting.net, setting.candidates(setting.net), setting.gate.features(rows)
    prior = log_prior(net)
    if isinstance(candidates, DeviceCandidates):
        return candidates.gate_mean(features, candidates.uniform(net.allowed()))
    weights = np.full(net.size, 1.0 / net.size) if prior is None else np.exp(prior)
    return aggregated_gate(candidates, features, weights, setting.n_threads)


def net_scales(setting: AggregationSetting, candidates: Candidates, calibration: BlockRows) -> Floats:
    """The scale that is given, (1,), or one for every candidate from the calibration rows, (S,): step (d)."""
    if setting.blocks.sigma is not None:
        return np.atleast_1d(float(setting.blocks.sigma))
    features, y, F = calibration.features, calibration.y, calibration.F
    return calibrate(candidates, features, y, F, setting.blocks.scale_bounds(y), setting.n_threads)


def _over_net(
    setting: AggregationSetting, net: Net, calibration: BlockRows, aggregation: BlockRows, pools: GatedExperts
) -> OrderFit:
    """Calibrate and aggregate every candidate of a net: steps (d) and (e)."""
    candidates = setting.candidates(net)
    if isinstance(candidates, DeviceCandidates):
        return _over_device_net(setting, net, candidates, calibration, aggregation, pools)
    sigma, prior = net_scales(setting, candidates, calibration), log_prior(net)
    features, y, F, power = aggregation.features, aggregation.y, aggregation.F, aggregation.power
    result = aggregate(candidates, features, y, F, sigma, setting.noise, prior, None, setting.n_threads, power)
    piece = Piece(1.0, candidates, result.mean_weights[0], pools)
    return net_fit(setting, net, sigma, aggregation, result, [piece], pools)


def net_fit(
    setting: AggregationSetting,
    net: Net,
    sigma: Floats,
    aggregation: BlockRows,
    result: NetRun,
    pieces: list[Piece],
    average: GatedExperts,
) -> OrderFit:
    """Collect the aggregation over a net, with the weights of the leading candidates over time."""
    candidates, prior = pieces[0].candidates, log_prior(net)
    mean = pieces[0].weights if len(pieces) == 1 else np.sum([p.share * p.weights for p in pieces], axis=0)
    leading = _leading(mean)
    features, y, F, power = aggregation.features, aggregation.y, aggregation.F, aggregation.power
    along = weight_path(candidates, features, y, F, sigma, result.log_z, leading, setting.noise, prior, power)
    return OrderFit(
        pieces=pieces,
        average=average,
        online=result.predictions,
        F=np.empty(0),
        sigma=sigma,
        leading=leading,
        leading_theta=net.theta(leading),
        leading_path=along.T,
        effective=effective_size(result.log_weights),
        acceptance=np.empty(0),
        ess=np.empty(0),
        thinning=Thinning(),
    )


def _over_device_net(
    setting: AggregationSetting,
    net: Net,
    candidates: DeviceCandidates,
    calibration: BlockRows,
    aggregation: BlockRows,
    pools: GatedExperts,
) -> OrderFit:
    """Steps (d) and (e) on a device; only the leading candidates are followed over time here."""
    given = setting.blocks.sigma
    scale = DeviceScale(given, None, (0.0, 0.0))
    if given is None:
        scale = DeviceScale(None, calibration, setting.blocks.scale_bounds(calibration.y))
    allowed = net.allowed()
    run = candidates.run(aggregation, scale, setting.noise, allowed)
    leading, theta = run.leading, net.theta(run.leading)
    n_allowed = net.size if allowed is None else int(allowed.sum())
    along = weight_path(
        gate_candidates(setting.gate, ListNet(theta)),
        aggregation.features,
        aggregation.y,
        aggregation.F,
        candidates.scales_at(leading, scale),
        run.log_z,
        np.arange(len(leading)),
        setting.noise,
        np.full(len(leading), -np.log(n_allowed)),
    )
    return OrderFit(
        pieces=[Piece(1.0, candidates, run.mean_weights, pools)],
        average=pools,
        online=run.predictions,
        F=np.empty(0),
        sigma=run.sigma,
        leading=leading,
        leading_theta=theta,
        leading_path=along.T,
        effective=run.effective,
        acceptance=np.empty(0),
        ess=np.empty(0),
        thinning=Thinning(),
    )


def log_prior(net: Net) -> Floats | None:
    """Equal weights on the candidates that count; None when all do."""
    allowed = net.allowed()
    if allowed is None:
        return None
    return np.where(allowed, -np.log(allowed.sum()), -np.inf)


def _leading(weights: Floats) -> Indices:
    """The candidates of largest weight, best first, ties to the smaller number; no second array of size S."""
    chosen = np.empty(0, dtype=np.intp)
    for start in range(0, weights.size, STEP):
        chosen = np.concatenate([chosen, np.arange(start, min(start + STEP, weights.size))])
        chosen = chosen[np.lexsort((chosen, -weights[chosen]))[:N_LEADING]]
    return chosen


def over_particles(
    setting: AggregationSetting,
    particles: Particles,
    calibration: BlockRows,
    aggregation: BlockRows,
    states: list[GatedExperts],
    average: GatedExperts,
    rng: np.random.Generator,
    edges: Indices | None = None,
) -> OrderFit:
    """Steps (d) and (e) with particles in the place of a net; experts are states[j] from row edges[j] on."""
    scale: float | Calibration | None = setting.blocks.sigma
    if scale is None:
        low, high = setting.blocks.scale_bounds(calibration.y)
        scale = Calibration(calibration.rows, calibration.y, calibration.F, low, high)
    rows, y, F, power = aggregation.rows, aggregation.y, aggregation.F, aggregation.power
    result = run_particles(
        particles, setting.gate, rows, y, F, setting.noise, scale, rng=rng, n_threads=setting.n_threads, power=power
    )
    cuts = np.array([0, len(y)]) if edges is None else edges
    pieces = [p for epoch in result.epochs for p in _epoch_pieces(setting, aggregation, states, cuts, epoch)]
    last = result.epochs[-1]
    leading = _leading(last.weights)
    return OrderFit(
        pieces=pieces,
        average=average,
        online=result.predictions,
        F=np.empty(0),
        sigma=last.sigma,
        leading=leading,
        leading_theta=last.theta[leading],
        leading_path=np.empty((0, len(leading))),
        effective=float(result.ess[-1]),
        acceptance=result.acceptance,
        ess=result.ess,
        thinning=Thinning(),
    )


def _epoch_pieces(
    setting: AggregationSetting, aggregation: BlockRows, states: list[GatedExperts], edges: Indices, epoch: Epoch
) -> list[Piece]:
    """An epoch cut where the experts change, as pieces of the aggregate."""
    candidates = gate_candidates(setting.gate, ListNet(epoch.theta))
    inner = edges[(edges > epoch.start) & (edges < epoch.stop)]
    cuts = np.concatenate([[epoch.start], inner, [epoch.stop]])
    means = epoch.weights[None]
    if len(inner):
        rows = aggregation.part(slice(epoch.start, epoch.stop))
        means = epoch_means(epoch, candidates, rows.features, rows.y, rows.F, setting.noise, cuts, setting.n_threads)
    experts = [states[int(np.searchsorted(edges, cut, side="right")) - 1] for cut in cuts[:-1]]
    return [
        Piece(float(share), candidates, weights, pools)
        for share, weights, pools in zip(aggregation.durations(cuts), means, experts, strict=True)
    ]


def epoch_means(
    epoch: Epoch,
    candidates: Candidates,
    features: Floats,
    y: Floats,
    F: Floats,
    noise: Noise,
    cuts: Indices,
    n_threads: int = 1,
) -> Floats:
    """The particles' weights averaged over the observations cuts[j] <= t < cuts[j + 1] of an epoch, (cuts - 1, S).

    AFTER over the epoch's particles, from their weights at its first observation: features (stop - start, p),
    y (stop - start,) and F (stop - start, M) are those of its observations, cuts rise from its start to its stop.
    """
    inside = (cuts - epoch.start).tolist()
    return aggregate(
        candidates, features, y, F, epoch.sigma, noise, epoch.log_weights, inside, n_threads
    ).mean_weights


def merge(fits: list[OrderFit], fixed_pool: bool) -> tuple[list[Piece], GatedExperts]:
    """The aggregate over several orders, and its time-averaged experts.

    Over one net and with experts that never change, the weights of all orders are averaged into one piece.
    """
    share = 1.0 / len(fits)
    pieces = [piece for fit in fits for piece in fit.pieces]
    if len(fits) == 1:
        return pieces, fits[0].average
    if fixed_pool and len(pieces) == len(fits):
        weights: Any = sum(share * piece.weights for piece in pieces)
        return [Piece(1.0, pieces[0].candidates, weights, pieces[0].pools)], fits[0].average
    scaled = [replace(piece, share=share * piece.share) for piece in pieces]
    if fixed_pool:
        return scaled, fits[0].average
    shares = (share,) * len(fits)
    states = zip(*[fit.average.joined().models for fit in fits], strict=True)  # of each expert, one for every order
    return scaled, fits[0].average.with_models([AveragedExpert(experts, shares) for experts in states])
