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

from gatewise.aggregation.particles import smc
from gatewise.aggregation.particles.domains import Box, Simplices
from gatewise.aggregation.particles.forms import checked_rows, form_of
from gatewise.aggregation.particles.likelihood import Calibration, Likelihood
from gatewise.arrays import as_count, as_positive, Floats
from gatewise.backends import thread_pools
from gatewise.gates import Gate, KernelGate
from gatewise.noise import Noise


@dataclass(frozen=True)
class Particles:
    """What stands in the place of a net: ``n`` particles over the box [-radius, radius]^D.

    When the effective sample size falls below ``threshold`` * n, one particle in ``n_moves`` is drawn by its weight
    and moved ``n_moves`` times; its positions after every move are the new particles. A kernel gate's parameters are
    uniform on the simplex at every centre and need no radius.

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

    ``weights`` (S,) is the mean over them, by their powers, of the weights that predicted them; ``log_weights`` (S,)
    are those of the first, and sigma (S,) the scales, from which all of them can be had again.
    """

    start: int
    stop: int
    theta: Floats
    sigma: Floats
    log_weights: Floats
    weights: Floats


class ParticleRun(NamedTuple):
    """The result of a run of particles over n observations.

    For each observation: its one-step-ahead prediction, the log of its predictive density (log_z), and the effective
    sample size after it (ess). For each round of moves: its acceptance rate. ``epochs``: the stretches between moves.
    """

    predictions: Floats
    log_z: Floats
    ess: Floats
    acceptance: Floats
    epochs: tuple[Epoch, ...]


def run_particles(
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
    power: Floats | None = None,
) -> ParticleRun:
    """Aggregate the whole gate family along a stream: step (e) of `alg:general` with particles for the net.

    X (n, d), y (n,); F (n, M) holds the experts' predictions of every observation at its time. ``scale`` is the
    noise's standard deviation where known, or the rows that calibrate every particle's. The result is fixed by
    ``rng`` whatever ``n_threads`` is. The density of observation t counts to the power power[t], at most 1.
    """
    rng = np.random.default_rng(rng)
    form = form_of(gate)
    domain = Simplices() if isinstance(gate, KernelGate) else Box(float(particles.radius))
    stream = checked_rows(form, X, y, F, power)
    likelihood = Likelihood.build(form, noise, scale)
    # Matrix products are small and made on every thread: more threads inside them would change speed and last bits.
    with (
        thread_pools().limit(limits=1, user_api="blas"),
        ThreadPoolExecutor(n_threads) if n_threads > 1 else nullcontext() as pool,
    ):
        problem = smc.ParticleProblem(domain, likelihood, stream, particles.threshold, particles.n_moves, pool)
        return _follow(problem, smc.init(problem, particles.n, gate.theta_shape(stream.X.shape[1]), rng), rng)


def _follow(problem: smc.ParticleProblem, state: smc.ParticleState, rng: np.random.Generator) -> ParticleRun:
    n, power = problem.rows.y.size, problem.rows.power
    reports: list[smc.StepReport] = []
    epochs: list[Epoch] = []
    start, first, total = 0, state, np.zeros(state.log_weights.size)
    for t in range(n):
        total += power[t] * np.exp(state.log_weights)
        state, report = smc.step(problem, state, t, rng, last=t == n - 1)
        reports.append(report)
        if report.acceptance is not None or t == n - 1:
            mean = total / power[start : t + 1].sum()
            epochs.append(Epoch(start, t + 1, first.theta, first.sigma, first.log_weights, mean))
            start, first, total = t + 1, state, np.zeros(state.log_weights.size)
    return ParticleRun(
        predictions=np.array([report.prediction for report in reports]),
        log_z=np.array([report.log_z for report in reports]),
        ess=np.array([report.ess for report in reports]),
        acceptance=np.array([report.acceptance for report in reports if report.acceptance is not None]),
        epochs=tuple(epochs),
    )
