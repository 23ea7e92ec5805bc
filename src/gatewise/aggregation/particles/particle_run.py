"""Aggregation without a net: particles that follow the weights of `alg:general` over a continuum of gates.

A net puts one candidate on every point of a grid, and its size is exponential in the number of parameters. Here
the prior is uniform on the whole parameter space, and its weighted law is carried by particles that move.
"""

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped, unused-ignore]

from gatewise.aggregation.particles import smc
from gatewise.aggregation.particles.domains import Box, Simplices
from gatewise.aggregation.particles.forms import checked_rows, form_of
from gatewise.aggregation.particles.likelihood import Calibration, Likelihood, Noise
from gatewise.arrays import as_count, as_positive, as_rows, Floats
from gatewise.gates import Gate, KernelGate

BLOCK_NUMBERS = 2**21


@dataclass(frozen=True)
class Particles:
    """What stands in the place of a net: ``n`` particles over the box [-radius, radius]^D.

    When the effective sample size falls below ``threshold`` * n, one in ``n_moves`` is drawn by its weight and moved
    ``n_moves`` times, and where it was after every move becomes a particle.
    A kernel gate's parameters are uniform on the simplex at every centre and need no radius.

    >>> Particles(500)
    Particles(n=500, radius=3.0, threshold=0.7, n_moves=2)
    """

    n: int
    radius: float = 3.0
    threshold: float = 0.7
    n_moves: int = 2

    def __post_init__(self) -> None:
        as_count(self.n, "n", low=2)
        if as_count(self.n_moves, "n_moves") > self.n:
            raise ValueError(f"n_moves must be at most the number of particles, {self.n}, not {self.n_moves}")
        as_positive(self.radius, "radius")
        if not 0.0 < self.threshold <= 1.0:
            raise ValueError(f"threshold must be above 0 and at most 1, not {self.threshold!r}")


class Epoch(NamedTuple):
    """Observations start..stop-1, predicted by one particle set theta (S, r, c).

    ``weights`` (S,) is the mean over them of the weights that predicted them; ``log_weights`` (S,) are those of the
    first, and sigma (S,) the scales, from which all of them can be had again.
    """

    start: int
    stop: int
    theta: Floats
    sigma: Floats
    log_weights: Floats
    weights: Floats


class Run(NamedTuple):
    """predictions, log_z and ess (n,), one for each observation; one acceptance rate for each round of moves."""

    predictions: Floats
    log_z: Floats
    ess: Floats
    acceptance: Floats
    epochs: tuple[Epoch, ...]
    state: smc.State
    problem: smc.Problem


def run(
    particles: Particles,
    gate: Gate,
    X: Any,
    y: ArrayLike,
    F: ArrayLike,
    noise: Noise,
    scale: float | Calibration,
    *,
    rng: np.random.Generator | int,
    n_threads: int = 1,
) -> Run:
    """Aggregate the whole gate family along a stream: step (e) of `alg:general` with particles for the net.

    X (n, d), y (n,); F (n, M) holds the experts' predictions of every observation at its time. ``scale`` is the
    noise's standard deviation where known, or the rows that calibrate every particle's. The result is fixed by
    ``rng`` whatever ``n_threads`` is.
    """
    rng = np.random.default_rng(rng)
    form = form_of(gate)
    domain = Simplices() if isinstance(gate, KernelGate) else Box(float(particles.radius))
    stream = checked_rows(form, X, y, F)
    likelihood = Likelihood.build(form, noise, scale)
    # Matrix products are small and made on every thread: more threads inside them would change speed and last bits.
    with threadpool_limits(1, "blas"), ThreadPoolExecutor(n_threads) if n_threads > 1 else nullcontext() as pool:
        problem = smc.Problem(domain, likelihood, stream, particles.threshold, particles.n_moves, pool)
        return _follow(problem, smc.init(problem, particles.n, gate.theta_shape(stream.X.shape[1]), rng), rng)


def _follow(problem: smc.Problem, state: smc.State, rng: np.random.Generator) -> Run:
    n = problem.rows.y.size
    outcomes: list[smc.Outcome] = []
    epochs: list[Epoch] = []
    start, first, total = 0, state, np.zeros(state.log_weights.size)
    for t in range(n):
        total += np.exp(state.log_weights)
        state, outcome = smc.step(problem, state, t, rng, last=t == n - 1)
        outcomes.append(outcome)
        if outcome.acceptance is not None or t == n - 1:
            epochs.append(Epoch(start, t + 1, first.theta, first.sigma, first.log_weights, total / (t + 1 - start)))
            start, first, total = t + 1, state, np.zeros(state.log_weights.size)
    columns = np.array([outcome[:3] for outcome in outcomes]).reshape(n, 3)
    rates = [outcome.acceptance for outcome in outcomes if outcome.acceptance is not None]
    return Run(
        columns[:, 0],
        columns[:, 1],
        columns[:, 2],
        np.array(rates),
        tuple(epochs),
        state,
        problem._replace(pool=None),
    )


def mean_gate(result: Run, gate: Gate, X: Any) -> Floats:
    """The aggregated gate averaged over the stream, (Q, M): n^-1 sum_t sum_s w_st g(x; theta_s)."""
    n = result.predictions.size
    return np.asarray(sum((e.stop - e.start) / n * gate.mean_weights(X, e.theta, e.weights) for e in result.epochs))


def mean_prediction(result: Run, gate: Gate, X: Any, F: ArrayLike) -> Floats:
    """The time-averaged predictor at the rows of X, (Q,): n^-1 sum_t sum_s w_st f^t(x; theta_s).

    F (Q, M) are the predictions of experts that stay the same; F (n, Q, M) those of experts that evolve, one
    matrix for each observation, as they were before it.
    """
    F = np.asarray(F, dtype=np.float64)
    if F.ndim == 2:
        return np.asarray((mean_gate(result, gate, X) * F).sum(axis=1))
    n = result.predictions.size
    if F.shape != (n, len(as_rows(X)), gate.n_experts):
        raise ValueError(f"F must have shape ({n}, {len(as_rows(X))}, {gate.n_experts}), not {F.shape}")
    total = np.zeros(F.shape[1])
    for epoch in result.epochs:
        weights = weights_over_time(result, epoch)  # (steps, S)
        block = max(1, BLOCK_NUMBERS // F[0].size)
        for first in range(0, len(epoch.theta), block):
            part = slice(first, first + block)
            gates = gate.weights(X, epoch.theta[part])  # (b, Q, M)
            by_time = np.tensordot(weights[:, part], gates, axes=1)  # (steps, Q, M)
            total += np.einsum("tqm,tqm->q", by_time, F[epoch.start : epoch.stop])
    return total / n


def weights_over_time(result: Run, epoch: Epoch) -> Floats:
    """The weights that predicted each observation of an epoch, (stop - start, S), computed again."""
    likelihood = result.problem.likelihood
    rows = result.problem.rows.part(epoch.start, epoch.stop)
    forecasts = smc.predictions(likelihood.form, epoch.theta, rows)
    log_density = likelihood.log_densities(rows.y - forecasts, epoch.sigma)  # (S, steps)
    log_weights = [epoch.log_weights]
    for t in range(rows.y.size - 1):
        log_weights.append(smc.reweight(log_weights[-1], log_density[:, t])[0])
    return np.exp(log_weights)
