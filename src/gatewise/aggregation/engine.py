"""The steps of `alg:general` as pure functions: calibrate, aggregate, project, and the aggregated gate.

Every function takes candidates (see `gate_candidates`), features (n, p) of the rows, responses y (n,), and
predictions F (n, M) of the routed experts, each row at its time. The number of threads changes no bit of a result.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from gatewise.aggregation import blockwise
from gatewise.aggregation.device_candidates import DeviceCandidates
from gatewise.aggregation.gate_candidates import BlockTables, Candidates
from gatewise.aggregation.scales import check_bounds
from gatewise.arrays import as_floats, Booleans, Floats, Integers
from gatewise.kernels.loss_kinds import DOUBLE_EXPONENTIAL, GAUSSIAN, OUTCOME, STUDENT_T
from gatewise.kernels.net import drivers as compiled
from gatewise.kernels.net.residual_rows import residual_blocks, residual_rows
from gatewise.kernels.net.units import Tables
from gatewise.losses import DoubleExponential, Gaussian, LogLoss, Loss, Outcome, ResidualLoss, StudentT
from gatewise.noise import as_noise, LogDensity, Noise
from gatewise.progress import RUNNING
from gatewise.stats import clip_scale

NoiseLike: TypeAlias = str | Noise | LogDensity
NUMBERS = 2**22  # residuals held at a time: 32 MiB
LEAST_RATIO = 1e-8  # of the probabilities of two experts: log z then has eight digits
ALONE = 16  # the residuals of one candidate by itself cost about as much as those of this many in a row


class NetRun(NamedTuple):
    """The result of step (e), the aggregation of S candidates over n observations.

    predictions (n,): one-step-ahead, each made before its response was seen; log_z (n + 1,): log_z[t] is the log of
    the sum of the unnormalised weights that predict row t, so that log_z[n] - log_z[0] is the log evidence;
    log_weights (S,): after the last row; mean_weights (segments, S): the weights, averaged over the rows of each
    segment.
    """

    predictions: Floats
    log_z: Floats
    log_weights: Floats
    mean_weights: Floats


class Projection(NamedTuple):
    """The nearest candidate and the squared distance to it."""

    candidate: int
    square: float


def calibrate(
    candidates: Candidates, features: Floats, y: Floats, F: Floats, bounds: tuple[float, float], n_threads: int = 1
) -> Floats:
    """One scale per candidate, (S,): the root of its mean squared residual, clipped to the bounds; step (d).

    sigma_s^2 = Pi_[low^2, high^2](mean_t (y_t - f(x_t; theta_s))^2).
    """
    low, high = check_bounds(bounds)
    sigma = _mean_square(_tables(candidates, features, y, F), candidates.size, n_threads)
    return clip_scale(np.sqrt(sigma, out=sigma), low, high)


def aggregate(
    candidates: Candidates,
    features: Floats,
    y: Floats,
    F: Floats,
    sigma: Floats | float,
    noise: NoiseLike = "gaussian",
    log_prior: Floats | None = None,
    edges: Sequence[int] | None = None,
    n_threads: int = 1,
    power: Floats | None = None,
) -> NetRun:
    """Weigh the candidates by their predictive densities, row after row; step (e).

    sigma (S,) or one number for all. log_prior (S,), -inf to exclude a candidate; uniform when None. edges
    0 = e_0 < e_1 < ... <= n: mean weights are averages over e_j <= t < e_{j+1}; over all rows when None. power (n,),
    above 0 and at most 1: the density of row t counts to this power, and its time by as much in the averages.
    """
    tables = _tables(candidates, features, y, F)
    scales, prior = _check_sigma(sigma, candidates.size), _check_prior(log_prior, candidates.size)
    cuts, power = _check_edges(edges, len(y)), _check_power(power, len(y))
    family = as_noise(noise)
    code = _code(family)
    if isinstance(tables, BlockTables) or code is None or (power is not None and code[0] != OUTCOME):
        density = blockwise.NoiseDensity(family, scales, power)
        return _blockwise(tables, y, density, prior, cuts, candidates.size, power)
    rule = compiled.weight_rule(candidates.size, scales, prior, *code, power=power)
    swept = compiled.sweep(tables, rule, n_threads)
    means = compiled.mean_weights(tables, rule, swept, cuts, n_threads)
    return _net_run(y, swept.residual, swept.top, swept.log_mass, swept.log_weights, means)


def aggregate_loss(
    candidates: Candidates,
    features: Floats,
    F: Floats,
    loss: Loss,
    log_prior: Floats | None = None,
    edges: Sequence[int] | None = None,
    n_threads: int = 1,
) -> NetRun:
    """Weigh the candidates by the log density that a loss gives to their mixtures, row after row; step (e).

    Candidate s has z_s(t) = sum_m g_m(x_t; theta_s) F_tm at row t, and its weight is multiplied by
    exp(loss.log_density(z_s)(t)). ``predictions`` are the mixtures sum_s w_s(t) z_s(t). F (n, M) holds the experts'
    predictions, the probabilities that they gave to the outcomes, or their scores, whichever the loss is a function
    of. log_prior and edges as in `aggregate`, which is called for a `ResidualLoss`.
    """
    if isinstance(loss, ResidualLoss):
        return aggregate(candidates, features, loss.y, F, loss.scale, loss.noise, log_prior, edges, n_threads)
    zeros = np.zeros(len(F))  # as responses, so that the residual of a mixture z is -z
    if isinstance(loss, LogLoss) and _are_probabilities(F):
        return aggregate(candidates, features, zeros, F, 1.0, Outcome(), log_prior, edges, n_threads)
    tables = _tables(candidates, features, zeros, F)
    prior, cuts = _check_prior(log_prior, candidates.size), _check_edges(edges, len(F))
    return _blockwise(tables, zeros, blockwise.LossDensity(loss), prior, cuts, candidates.size)


def _blockwise(
    tables: Tables | BlockTables,
    y: Floats,
    density: blockwise.Density,
    prior: Floats | None,
    cuts: Integers,
    size: int,
    power: Floats | None = None,
) -> NetRun:
    """Step (e) in NumPy, for any density."""
    residual, top, log_mass, log_weights = blockwise.sweep(_blocks(tables), len(y), size, density, prior)
    means = blockwise.mean_weights(_blocks(tables), size, density, prior, top, log_mass, cuts, power)
    return _net_run(y, residual, top, log_mass, log_weights, means)


def _net_run(
    y: Floats, residual: Floats, top: Floats, log_mass: Floats, log_weights: Floats, means: Floats
) -> NetRun:
    log_z = top + log_mass
    if not np.isfinite(log_z).all():
        raise ValueError("y is so far from every candidate, in units of sigma, that its density overflows; rescale y")
    return NetRun(y - residual, log_z, log_weights, means)


def project_l2(
    candidates: Candidates,
    features: Floats,
    target: Floats,
    F: Floats,
    quadrature: ArrayLike | None = None,
    n_threads: int = 1,
    allowed: Booleans | None = None,
) -> Projection:
    """The candidate nearest to a function with values target (Q,) at the rows; step (f).

    argmin_s sum_q a_q (target_q - f(x_q; theta_s))^2, a (Q,) the quadrature weights, 1 / Q unless given; a
    candidate is left as soon as it cannot win. With target = y this is empirical risk minimization. Candidates that
    ``allowed`` (S,) leaves out are not considered.
    """
    n = len(target)
    area = np.full(n, 1.0 / n) if quadrature is None else np.asarray(quadrature, dtype=np.float64)
    if area.shape != (n,) or not np.isfinite(area).all() or (area < 0.0).any():
        raise ValueError(f"quadrature must hold {n} finite weights, none negative; got shape {area.shape}")
    root = np.sqrt(area * n)  # the residual is linear in (y, F), so a weight on a row scales them
    _check_rows(candidates, features, target, F, "target")
    if isinstance(candidates, DeviceCandidates):
        return Projection(*candidates.nearest(features, root * target, root[:, None] * F, allowed))
    tables = _tables(candidates, features, root * target, root[:, None] * F)
    if allowed is None and not isinstance(tables, BlockTables):
        return Projection(*compiled.least_square(tables, n_threads))
    squares = _mean_square(tables, candidates.size, n_threads)
    if allowed is not None:
        squares[~allowed] = np.inf
    best = int(np.argmin(squares))
    return Projection(best, float(squares[best]))


def _mean_square(tables: Tables | BlockTables, size: int, n_threads: int) -> Floats:
    if isinstance(tables, BlockTables):
        return blockwise.mean_square(tables.residuals(), size)
    return compiled.mean_square(tables, n_threads)


def aggregated_gate(candidates: Candidates, features: Floats, weights: Floats, n_threads: int = 1) -> Floats:
    """sum_s weights[s] g(x_q; theta_s) at Q rows, (Q, M)."""
    if isinstance(candidates, DeviceCandidates):
        return candidates.gate_mean(features, weights)
    n, n_experts = len(features), candidates.n_experts
    shares = np.ascontiguousarray(weights, dtype=np.float64)
    if shares.shape != (candidates.size,):
        raise ValueError(f"weights must have shape ({candidates.size},), not {shares.shape}")
    tables = _tables(candidates, features, np.zeros(n), np.zeros((n, n_experts)))
    if isinstance(tables, BlockTables):
        parts = (np.tensordot(shares[ids], gates, axes=1) for ids, gates in tables.gates())
        return np.asarray(sum(parts, start=np.zeros((n, n_experts))))
    return compiled.gate_mean(tables, shares, n_threads)


def mean_squared_gap(candidates: Candidates, features: Floats, target: Floats, F: Floats, weights: Floats) -> Floats:
    """sum_s weights[s] (target_q - f(x_q; theta_s))^2 at Q rows, (Q,): how far the candidates are from the target.

    Candidates that together have less than a billionth of the weight are left out.
    """
    if isinstance(candidates, DeviceCandidates):
        return candidates.squared_gap(features, target, F, weights)
    tables = _tables(candidates, features, target, F)
    order = np.argsort(weights)[::-1]
    reached = np.cumsum(weights[order])
    ids = order[: int(np.searchsorted(reached, (1.0 - 1e-9) * reached[-1])) + 1]
    total, step = np.zeros(len(target)), max(1, NUMBERS // max(1, len(target)))
    if len(ids) * ALONE > candidates.size:
        now = RUNNING.get()
        for part, residual in _blocks(tables):
            total += weights[part] @ residual**2
            if now is not None:
                now.part(len(part))
        return total
    for start in range(0, len(ids), step):
        part = ids[start : start + step].astype(np.int64)
        total += weights[part] @ _some_rows(tables, part) ** 2
    return total


def weight_path(
    candidates: Candidates,
    features: Floats,
    y: Floats,
    F: Floats,
    sigma: Floats | float,
    log_z: Floats,
    chosen: ArrayLike,
    noise: NoiseLike = "gaussian",
    log_prior: Floats | None = None,
    power: Floats | None = None,
) -> Floats:
    """Weights of chosen candidates before each row and after the last, (chosen, n + 1); log_z from `aggregate`."""
    tables = _tables(candidates, features, y, F)
    ids = np.asarray(chosen, dtype=np.int64)
    if ids.ndim != 1 or (ids.size and not 0 <= ids.min() <= ids.max() < candidates.size):
        raise ValueError(f"chosen must be a vector of candidates from 0 to {candidates.size - 1}")
    residual = _some_rows(tables, ids)
    scales, prior = _check_sigma(sigma, candidates.size), _check_prior(log_prior, candidates.size)
    density = blockwise.NoiseDensity(as_noise(noise), scales, _check_power(power, len(y)))
    path = blockwise.log_weight_path(ids, residual, density, prior, candidates.size)
    return np.asarray(np.exp(np.minimum(path - log_z, 0.0)))  # rounding may lift the log of a weight above 0


def _are_probabilities(F: Floats) -> bool:
    """Whether F (n, M) holds numbers up to 1, none of them tiny beside the others of its row.

    Compiled sums over product nets subtract them from each other, and log z would lose its digits.
    """
    top = F.max(axis=1, initial=0.0)
    return bool((top <= 1.0).all() and (F.min(axis=1, initial=1.0) >= LEAST_RATIO * top).all() and (top > 0.0).all())


def _code(noise: Noise) -> tuple[int, float] | None:
    """The code of a noise family in compiled functions, with its parameter; None for a density of one's own."""
    if isinstance(noise, Gaussian):
        return GAUSSIAN, 0.0
    if isinstance(noise, Outcome):
        return OUTCOME, 0.0
    if isinstance(noise, DoubleExponential):
        return DOUBLE_EXPONENTIAL, 0.0
    return (STUDENT_T, noise.df) if isinstance(noise, StudentT) else None


def _blocks(tables: Tables | BlockTables) -> blockwise.CandidateBlocks:
    return tables.residuals() if isinstance(tables, BlockTables) else residual_blocks(tables)


def _some_rows(tables: Tables | BlockTables, ids: Integers) -> Floats:
    if isinstance(tables, BlockTables):
        return np.concatenate([r for _, r in replace(tables, theta=tables.theta[ids]).residuals()])
    return residual_rows(tables, ids)


def _tables(candidates: Candidates, features: Any, y: Any, F: Any) -> Tables | BlockTables:
    _check_rows(candidates, features, y, F, "y")
    return candidates.tables(as_floats(features, "features"), as_floats(y, "y"), as_floats(F, "F"))


def _check_rows(candidates: Candidates, features: Any, y: Any, F: Any, name: str) -> None:
    response, rows, predictions = as_floats(y, name), as_floats(features, "features"), as_floats(F, "F")
    n, width = response.size, rows.shape[1] if rows.ndim == 2 else 0
    if n == 0:
        raise ValueError(f"{name} must have at least one row")
    for label, array, shape in (
        ("features", rows, (n, width)),
        (name, response, (n,)),
        ("F", predictions, (n, candidates.n_experts)),
    ):
        if array.shape != shape:
            raise ValueError(f"{label} must have shape {shape}, not {array.shape}")
        if not np.isfinite(array).all():
            raise ValueError(f"{label} must be finite, but it holds a NaN or an infinity")
    if width != candidates.n_features:  # compiled loops read as many features as theta has columns
        raise ValueError(
            f"a parameter of the net has {candidates.n_features} columns, but the gate gives {width} features a row: "
            "the net was made for another gate (with or without an intercept?) or another number of columns of X"
        )


def _check_sigma(sigma: Floats | float, size: int) -> Floats:
    scales = np.atleast_1d(np.asarray(sigma, dtype=np.float64))
    if scales.shape not in ((1,), (size,)):
        raise ValueError(f"sigma must be a number or have shape ({size},), not {scales.shape}")
    if not (scales.min() > 0.0 and scales.max() < np.inf):
        raise ValueError("sigma must be finite and above 0")
    return scales


def _check_prior(log_prior: Floats | None, size: int) -> Floats | None:
    if log_prior is None:
        return None
    prior = np.asarray(log_prior, dtype=np.float64)
    if prior.shape != (size,):
        raise ValueError(f"log_prior must have shape ({size},), not {prior.shape}")
    top = prior.max()
    if not np.isfinite(top):
        raise ValueError("log_prior must be finite or -inf, and finite for at least one candidate")
    return prior


def _check_edges(edges: Sequence[int] | None, n: int) -> Integers:
    cuts = np.array([0, n] if edges is None else edges, dtype=np.int64)
    if cuts.ndim != 1 or cuts.size < 2 or cuts[0] != 0 or cuts[-1] > n or (np.diff(cuts) <= 0).any():
        raise ValueError(f"edges must rise from 0 to at most {n}; got {cuts.tolist()}")
    return cuts


def _check_power(power: Floats | None, n: int) -> Floats | None:
    if power is None:
        return None
    powers = np.asarray(power, dtype=np.float64)
    if powers.shape != (n,) or not ((powers > 0.0) & (powers <= 1.0)).all():
        raise ValueError(f"power must hold {n} numbers above 0 and at most 1; repeat a row that counts more often")
    return powers
