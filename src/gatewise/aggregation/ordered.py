"""One random order of the rows through `alg:general`: burn-in, calibration, aggregation."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

from gatewise.aggregation.blocks import BlockCounts, Blocks
from gatewise.aggregation.engine import aggregate, calibrate, effective_number, weight_path
from gatewise.aggregation.gate_candidates import gate_candidates
from gatewise.aggregation.particles import particle_run as smc
from gatewise.aggregation.particles.likelihood import Calibration
from gatewise.aggregation.particles.particle_run import Particles
from gatewise.aggregation.pieces import Piece
from gatewise.arrays import Floats
from gatewise.experts.evolving import after_burn_in, AveragedExpert, evolve
from gatewise.experts.gated import GatedExperts
from gatewise.gates import Gate
from gatewise.nets import ListNet, Net
from gatewise.noise import Noise

Indices = NDArray[np.intp]
N_LEADING = 10
STEP = 2**20  # candidates looked at together


class Sample(NamedTuple):
    """X as it was handed in, its numbers (n, d), and the response (n,)."""

    X: Any
    rows: Floats
    y: Floats

    def part(self, chosen: Indices) -> "Sample":
        return Sample(_safe_indexing(self.X, chosen), self.rows[chosen], self.y[chosen])


class Setting(NamedTuple):
    """What is the same for every order. ``static`` (n, M_S + M): the predictions of experts that never change."""

    gate: Gate
    net: Net | Particles
    noise: Noise
    blocks: Blocks
    counts: BlockCounts
    pools: GatedExperts
    static: Floats | None
    n_threads: int


class Path(NamedTuple):
    """The experts along the calibration and aggregation rows.

    predictions (n2 + n3, M_S + M), shared experts first; pools, one for each stretch of the aggregation rows between
    two of edges; average: the time-averaged experts.
    """

    predictions: Floats
    pools: list[GatedExperts]
    edges: Indices
    average: GatedExperts
    thinning_error: float


class OrderFit(NamedTuple):
    """What one order leaves: the pieces of the aggregate, and what was seen on the way.

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


class _Stream(NamedTuple):
    """Rows of one block: features, numbers, response less the shared experts, predictions of the routed ones."""

    rows: Floats
    features: Floats
    y: Floats
    F: Floats


def fit_order(setting: Setting, sample: Sample, order: Indices, rng: np.random.Generator) -> OrderFit:
    """Steps (b) to (e) of `alg:general` for one order of the rows."""
    counts = setting.counts
    used = sample.part(order[: counts.burn_in + counts.calibration + counts.aggregation])
    path = _expert_path(setting, used, order)
    online = used.part(np.arange(counts.burn_in, len(used.y)))
    n_shared = len(setting.pools.shared)
    shared = path.predictions[:, :n_shared].sum(axis=1)
    stream = _Stream(
        online.rows, setting.gate.features(online.rows), online.y - shared, path.predictions[:, n_shared:]
    )
    calibration = _Stream(*(part[: counts.calibration] for part in stream))
    aggregation = _Stream(*(part[counts.calibration :] for part in stream))
    run = _over_particles if isinstance(setting.net, Particles) else _over_net
    fit = run(setting, calibration, aggregation, path, rng)
    return fit._replace(online=fit.online + shared[counts.calibration :])


def _expert_path(setting: Setting, used: Sample, order: Indices) -> Path:
    counts, pools, blocks = setting.counts, setting.pools, setting.blocks
    whole = np.array([0, counts.aggregation])
    if setting.static is not None:
        return Path(setting.static[order[counts.burn_in : len(used.y)]], [pools], whole, pools, 0.0)
    burn_in, rest = used.part(np.arange(counts.burn_in)), used.part(np.arange(counts.burn_in, len(used.y)))
    own = after_burn_in(pools.joined(), burn_in.X, burn_in.y, update=blocks.update_every is not None)
    if blocks.update_every is None:
        fitted = pools.with_models(own.models)
        return Path(own.predict(rest.X), [fitted], whole, fitted, 0.0)
    seen = evolve(own, rest.X, rest.y, blocks.update_every, blocks.n_snapshots, keep_from=counts.calibration)
    states = [pools.with_models(state.models) for state in seen.states]
    return Path(seen.predictions, states, seen.edges, pools.with_models(seen.averages.models), seen.thinning_error)


def _over_net(
    setting: Setting, calibration: _Stream, aggregation: _Stream, path: Path, _rng: np.random.Generator
) -> OrderFit:
    net = setting.net
    assert isinstance(net, Net)
    candidates = gate_candidates(setting.gate, net)
    sigma: Floats | float | None = setting.blocks.sigma
    if sigma is None:
        bounds = setting.blocks.scale_bounds(calibration.y)
        sigma = calibrate(candidates, *calibration[1:], bounds, setting.n_threads)
    prior = _log_prior(net)
    result = aggregate(
        candidates, *aggregation[1:], sigma, setting.noise, prior, path.edges.tolist(), setting.n_threads
    )
    shares = np.diff(path.edges) / len(aggregation.y)
    pieces = [
        Piece(float(share), candidates, weights, pool)
        for share, weights, pool in zip(shares, result.mean_weights, path.pools, strict=True)
    ]
    leading = _leading(shares @ result.mean_weights if len(shares) > 1 else result.mean_weights[0])
    along = weight_path(candidates, *aggregation[1:], sigma, result.log_z, leading, setting.noise, prior)
    return OrderFit(
        pieces,
        path.average,
        result.predictions,
        np.atleast_1d(sigma),
        leading,
        net.theta(leading),
        along.T,
        effective_number(result.log_weights),
        np.empty(0),
        np.empty(0),
        path.thinning_error,
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
    setting: Setting, calibration: _Stream, aggregation: _Stream, path: Path, rng: np.random.Generator
) -> OrderFit:
    particles = setting.net
    assert isinstance(particles, Particles)
    scale: float | Calibration | None = setting.blocks.sigma
    if scale is None:
        bounds = setting.blocks.scale_bounds(calibration.y)
        scale = Calibration(calibration.rows, calibration.y, calibration.F, *bounds)
    rows, y, F = aggregation.rows, aggregation.y, aggregation.F
    result = smc.run(particles, setting.gate, rows, y, F, setting.noise, scale, rng=rng, n_threads=setting.n_threads)
    pieces = [piece for epoch in result.epochs for piece in _epoch_pieces(setting, aggregation, path, epoch)]
    last = result.epochs[-1]
    leading = _leading(last.weights)
    return OrderFit(
        pieces,
        path.average,
        result.predictions,
        last.sigma,
        leading,
        last.theta[leading],
        np.empty((0, len(leading))),
        float(result.ess[-1]),
        result.acceptance,
        result.ess,
        path.thinning_error,
    )


def _epoch_pieces(setting: Setting, aggregation: _Stream, path: Path, epoch: smc.Epoch) -> list[Piece]:
    """An epoch cut where the experts change: AFTER over its particles gives the mean weights of every part."""
    n = len(aggregation.y)
    candidates = gate_candidates(setting.gate, ListNet(epoch.theta))
    inner = path.edges[(path.edges > epoch.start) & (path.edges < epoch.stop)]
    cuts = np.concatenate([[epoch.start], inner, [epoch.stop]])
    means = epoch.weights[None]
    if len(inner):
        part = slice(epoch.start, epoch.stop)
        stream = (aggregation.features[part], aggregation.y[part], aggregation.F[part])
        inside = (cuts - epoch.start).tolist()
        means = aggregate(
            candidates, *stream, epoch.sigma, setting.noise, epoch.log_weights, inside, setting.n_threads
        ).mean_weights
    pools = [path.pools[int(np.searchsorted(path.edges, cut, side="right")) - 1] for cut in cuts[:-1]]
    return [
        Piece(float(stop - start) / n, candidates, weights, pool)
        for start, stop, weights, pool in zip(cuts[:-1], cuts[1:], means, pools, strict=True)
    ]


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
