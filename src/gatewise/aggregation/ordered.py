"""One random order of the rows through `alg:general`: burn-in, calibration, aggregation."""

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import _safe_indexing

from gatewise.aggregation.blocks import BlockCounts, Blocks
from gatewise.aggregation.engine import aggregate, calibrate, weight_path
from gatewise.aggregation.gate_candidates import Candidates, gate_candidates
from gatewise.aggregation.particles.likelihood import Calibration
from gatewise.aggregation.particles.particle_run import Epoch, Particles, run_particles
from gatewise.aggregation.pieces import Piece
from gatewise.aggregation.weights import effective_size
from gatewise.arrays import Floats, Indices
from gatewise.experts.evolving import after_burn_in, AveragedExpert, evolve
from gatewise.experts.gated import GatedExperts
from gatewise.gates import Gate
from gatewise.nets import ListNet, Net
from gatewise.noise import Noise

N_LEADING = 10
STEP = 2**20  # candidates looked at together


class Observations(NamedTuple):
    """Rows to learn from: X as it was handed in, its numbers (n, d), and the responses (n,)."""

    X: Any
    rows: Floats
    y: Floats

    def part(self, chosen: Indices) -> "Observations":
        """The chosen rows, in the order in which they are listed."""
        return Observations(_safe_indexing(self.X, chosen), self.rows[chosen], self.y[chosen])


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


class ExpertPath(NamedTuple):
    """The experts along the calibration and aggregation rows.

    predictions (n2 + n3, M_S + M), shared experts first. From row edges[j] of the aggregation rows to row
    edges[j + 1] the experts count as snapshots[j]. average: the time-averaged experts. thinning_error: the root mean
    square error of keeping only these snapshots.
    """

    predictions: Floats
    snapshots: list[GatedExperts]
    edges: Indices
    average: GatedExperts
    thinning_error: float


class OrderFit(NamedTuple):
    """The result of one random order: the pieces of the aggregate, the time-averaged experts, and diagnostics.

    online (n3,): one-step-ahead predictions; sigma (S,); leading: the candidates of largest mean weight, and
    leading_path (n3 + 1, L) their weights; effective: the effective number of candidates at the end.
    """

    pieces: list[Piece]
    average: GatedExperts
    online: Floats
    sigma: Floats
    leading: Indices
    leading_theta: Floats
    leading_path: Floats
    effective: float
    acceptance: Floats
    ess: Floats
    thinning_error: float


class _BlockRows(NamedTuple):
    """The rows of one block: their numbers (n, d), features (n, p), responses less the shared experts (n,), and
    predictions of the routed experts (n, M)."""

    rows: Floats
    features: Floats
    y: Floats
    F: Floats

    def part(self, rows: slice) -> "_BlockRows":
        """Some of the rows."""
        return _BlockRows(self.rows[rows], self.features[rows], self.y[rows], self.F[rows])


def fit_order(
    setting: AggregationSetting, sample: Observations, order: Indices, rng: np.random.Generator
) -> OrderFit:
    """Steps (b) to (e) of `alg:general` for one order of the rows."""
    counts = setting.counts
    used = sample.part(order[: counts.burn_in + counts.calibration + counts.aggregation])
    path = _expert_path(setting, used, order)
    online = used.part(np.arange(counts.burn_in, len(used.y)))
    n_shared = len(setting.pools.shared)
    shared = path.predictions[:, :n_shared].sum(axis=1)
    features = setting.gate.features(online.rows)
    rows = _BlockRows(online.rows, features, online.y - shared, path.predictions[:, n_shared:])
    calibration, aggregation = rows.part(slice(counts.calibration)), rows.part(slice(counts.calibration, None))
    if isinstance(setting.net, Particles):
        fit = _over_particles(setting, setting.net, calibration, aggregation, path, rng)
    else:
        fit = _over_net(setting, setting.net, calibration, aggregation, path)
    return fit._replace(online=fit.online + shared[counts.calibration :])


def _expert_path(setting: AggregationSetting, used: Observations, order: Indices) -> ExpertPath:
    counts, pools, blocks = setting.counts, setting.pools, setting.blocks
    whole = np.array([0, counts.aggregation])
    if setting.static is not None:
        return ExpertPath(setting.static[order[counts.burn_in : len(used.y)]], [pools], whole, pools, 0.0)
    burn_in, rest = used.part(np.arange(counts.burn_in)), used.part(np.arange(counts.burn_in, len(used.y)))
    own = after_burn_in(pools.joined(), burn_in.X, burn_in.y, update=blocks.update_every is not None)
    if blocks.update_every is None:
        fitted = pools.with_models(own.models)
        return ExpertPath(own.predict(rest.X), [fitted], whole, fitted, 0.0)
    seen = evolve(own, rest.X, rest.y, blocks.update_every, blocks.n_snapshots, keep_from=counts.calibration)
    snapshots = [pools.with_models(state.models) for state in seen.states]
    average = pools.with_models(seen.averages.models)
    return ExpertPath(seen.predictions, snapshots, seen.edges, average, seen.thinning_error)


def _over_net(
    setting: AggregationSetting, net: Net, calibration: _BlockRows, aggregation: _BlockRows, path: ExpertPath
) -> OrderFit:
    """Calibrate and aggregate every candidate of a net: steps (d) and (e)."""
    candidates = gate_candidates(setting.gate, net)
    sigma: Floats | float | None = setting.blocks.sigma
    if sigma is None:
        features, y, F = calibration.features, calibration.y, calibration.F
        sigma = calibrate(candidates, features, y, F, setting.blocks.scale_bounds(y), setting.n_threads)
    prior, edges = _log_prior(net), path.edges.tolist()
    features, y, F = aggregation.features, aggregation.y, aggregation.F
    result = aggregate(candidates, features, y, F, sigma, setting.noise, prior, edges, setting.n_threads)
    shares = np.diff(path.edges) / len(y)
    pieces = [
        Piece(float(share), candidates, weights, pools)
        for share, weights, pools in zip(shares, result.mean_weights, path.snapshots, strict=True)
    ]
    leading = _leading(shares @ result.mean_weights if len(shares) > 1 else result.mean_weights[0])
    along = weight_path(candidates, features, y, F, sigma, result.log_z, leading, setting.noise, prior)
    return OrderFit(
        pieces=pieces,
        average=path.average,
        online=result.predictions,
        sigma=np.atleast_1d(sigma),
        leading=leading,
        leading_theta=net.theta(leading),
        leading_path=along.T,
        effective=effective_size(result.log_weights),
        acceptance=np.empty(0),
        ess=np.empty(0),
        thinning_error=path.thinning_error,
    )


def _log_prior(net: Net) -> Floats | None:
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


def _over_particles(
    setting: AggregationSetting,
    particles: Particles,
    calibration: _BlockRows,
    aggregation: _BlockRows,
    path: ExpertPath,
    rng: np.random.Generator,
) -> OrderFit:
    """Steps (d) and (e) with particles in the place of a net."""
    scale: float | Calibration | None = setting.blocks.sigma
    if scale is None:
        low, high = setting.blocks.scale_bounds(calibration.y)
        scale = Calibration(calibration.rows, calibration.y, calibration.F, low, high)
    rows, y, F = aggregation.rows, aggregation.y, aggregation.F
    result = run_particles(
        particles, setting.gate, rows, y, F, setting.noise, scale, rng=rng, n_threads=setting.n_threads
    )
    pieces = [piece for epoch in result.epochs for piece in _epoch_pieces(setting, aggregation, path, epoch)]
    last = result.epochs[-1]
    leading = _leading(last.weights)
    return OrderFit(
        pieces=pieces,
        average=path.average,
        online=result.predictions,
        sigma=last.sigma,
        leading=leading,
        leading_theta=last.theta[leading],
        leading_path=np.empty((0, len(leading))),
        effective=float(result.ess[-1]),
        acceptance=result.acceptance,
        ess=result.ess,
        thinning_error=path.thinning_error,
    )


def _epoch_pieces(
    setting: AggregationSetting, aggregation: _BlockRows, path: ExpertPath, epoch: Epoch
) -> list[Piece]:
    """An epoch cut where the experts change, as pieces of the aggregate."""
    candidates = gate_candidates(setting.gate, ListNet(epoch.theta))
    inner = path.edges[(path.edges > epoch.start) & (path.edges < epoch.stop)]
    cuts = np.concatenate([[epoch.start], inner, [epoch.stop]])
    means = epoch.weights[None]
    if len(inner):
        rows = aggregation.part(slice(epoch.start, epoch.stop))
        means = epoch_means(epoch, candidates, rows.features, rows.y, rows.F, setting.noise, cuts, setting.n_threads)
    snapshots = [path.snapshots[int(np.searchsorted(path.edges, cut, side="right")) - 1] for cut in cuts[:-1]]
    return [
        Piece(float(stop - start) / len(aggregation.y), candidates, weights, pools)
        for start, stop, weights, pools in zip(cuts[:-1], cuts[1:], means, snapshots, strict=True)
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
        weights = np.sum([share * piece.weights for piece in pieces], axis=0)
        return [Piece(1.0, pieces[0].candidates, weights, pieces[0].pools)], fits[0].average
    scaled = [Piece(share * p.share, p.candidates, p.weights, p.pools) for p in pieces]
    if fixed_pool:
        return scaled, fits[0].average
    shares = (share,) * len(fits)
    states = zip(*[fit.average.joined().models for fit in fits], strict=True)  # of each expert, one for every order
    return scaled, fits[0].average.with_models([AveragedExpert(experts, shares) for experts in states])
