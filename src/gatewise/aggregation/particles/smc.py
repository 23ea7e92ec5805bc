"""Sequential Monte Carlo: weighted particles for the law proportional to prior x product of predictive densities.

Pure functions. `init` draws particles from the prior. `step` takes one observation: AFTER's `update` reweights the
particles, and when their effective sample size is low they are resampled and moved by Markov chains that leave the
law as it is. An observation that would leave too few effective particles is tempered: its density enters in several
powers with sum one, with moves between them.
"""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import numpy as np

from gatewise.aggregation.particles import moves
from gatewise.aggregation.particles.domains import Box, Simplices
from gatewise.aggregation.particles.forms import Form, ParticleRows
from gatewise.aggregation.particles.likelihood import Likelihood
from gatewise.aggregation.weights import effective_size, update
from gatewise.arrays import Floats, Indices

BLOCK = 256  # chains that move together: fixed, so that results do not depend on the number of threads
ACCEPT_HAMILTONIAN, ACCEPT_WALK = 0.75, 0.3


class ParticleProblem(NamedTuple):
    """What does not change along the stream: its rows, the law, when to resample and how often to move then."""

    domain: Box | Simplices
    likelihood: Likelihood
    rows: ParticleRows
    threshold: float
    n_moves: int
    pool: ThreadPoolExecutor | None


class ParticleState(NamedTuple):
    """Particles: position (S, r', c), theta (S, r, c), sigma (S,), normalised log weights (S,), the moves' step.

    ``impossible`` lists the observations whose density was 0 for every particle: they change no weight and enter no
    target.
    """

    position: Floats
    theta: Floats
    sigma: Floats
    log_weights: Floats
    step: float
    impossible: tuple[int, ...] = ()


class StepReport(NamedTuple):
    """One observation: its prediction from the past, log of its mixture density, the effective size after it, and
    the acceptance rate of the moves that followed, None where none did."""

    prediction: float
    log_z: float
    ess: float
    acceptance: float | None


def init(problem: ParticleProblem, n: int, shape: tuple[int, int], rng: np.random.Generator) -> ParticleState:
    """n particles from the prior with equal weights; ``shape`` is theta's."""
    position = problem.domain.draw(rng, n, shape)
    theta = problem.domain.theta(position)
    step = 0.3 if problem.likelihood.form.smooth else 2.0
    return ParticleState(position, theta, problem.likelihood.scales(theta), np.full(n, -np.log(n)), step)


def predictions(form: Form, theta: Floats, rows: ParticleRows) -> Floats:
    """Every particle's prediction at every row, (S, n); the responses are not looked at."""
    return -form.residuals(theta, rows._replace(y=np.zeros(rows.y.size)))


def systematic(log_weights: Floats, size: int, u: float) -> Indices:
    """``size`` indices, particle s about size w_s times: those where the cumulated weights pass (i + u) / size.

    >>> systematic(np.log([0.5, 0.25, 0.25, 1e-300]), 4, 0.5)
    array([0, 0, 1, 2])
    """
    edges = np.cumsum(np.exp(log_weights))
    points = (np.arange(size) + u) / size * edges[-1]
    return np.asarray(np.minimum(np.searchsorted(edges, points, side="right"), log_weights.size - 1))


def tempering_exponent(log_weights: Floats, log_density: Floats, rest: float, wanted: float) -> float:
    """Adaptive tempering: the power, at most ``rest``, of an observation's density in the next update of the weights.

    It is ``rest``, unless the effective sample size would then fall below half of ``wanted``; in that case it is the
    power with which the effective sample size is ``wanted``, found by bisection.
    """

    def size_after(exponent: float) -> float:
        return effective_size(update(log_weights, exponent * log_density)[0])

    if size_after(rest) >= 0.5 * wanted:
        return rest
    low, high = 0.0, rest
    for _ in range(20):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if size_after(middle) >= wanted else (low, middle)
    return max(high, rest / 20)  # densities of 0 may leave few whatever the exponent


def move(
    problem: ParticleProblem, state: ParticleState, seen: int, exponent: float, rng: np.random.Generator
) -> tuple[ParticleState, float]:
    """Resample the particles and move them: as many new ones of equal weight, and the acceptance rate.

    One particle in ``n_moves`` is drawn by its weight and moved ``n_moves`` times; its positions after every move
    become particles, as each of them follows the target. The target is the law given the first ``seen`` rows, the
    density of the last of them to the power ``exponent``.
    """
    n = state.log_weights.size
    root = moves.covariance_root(state.position, np.exp(state.log_weights))
    chosen = state.position[systematic(state.log_weights, -(-n // problem.n_moves), rng.random())]
    blocks = [chosen[start : start + BLOCK] for start in range(0, len(chosen), BLOCK)]
    rows = problem.rows.part(0, seen).without(state.impossible)
    task = partial(_move_block, problem, rows, exponent, root, state.step)
    mapped = problem.pool.map if problem.pool else map
    moved = list(mapped(task, blocks, rng.spawn(len(blocks))))
    position = np.concatenate([block for block, _, _ in moved])
    if len(position) > n:  # n is no multiple of n_moves: any of them may be left out
        position = position[np.sort(rng.choice(len(position), n, replace=False))]
    theta = problem.domain.theta(position)
    step = float(np.exp(np.mean([np.log(step) for _, step, _ in moved])))
    log_weights = np.full(n, -np.log(n))
    acceptance = float(np.mean([rate for _, _, rate in moved]))
    sigma = problem.likelihood.scales(theta)
    return ParticleState(position, theta, sigma, log_weights, step, state.impossible), acceptance


def _move_block(
    problem: ParticleProblem,
    rows: ParticleRows,
    exponent: float,
    root: Floats,
    step: float,
    position: Floats,
    rng: np.random.Generator,
) -> tuple[Floats, float, float]:
    """Move one block ``n_moves`` times: its positions after each, its last step length and its acceptance rate."""
    smooth = problem.likelihood.form.smooth
    one_move = moves.hamiltonian if smooth else moves.random_walk
    wanted = ACCEPT_HAMILTONIAN if smooth else ACCEPT_WALK
    target = partial(log_posterior, problem.domain, problem.likelihood, rows, exponent)
    accepted, kept = [], []
    with np.errstate(all="ignore"):  # a path that runs off to infinity ends in a rejection
        chains = moves.start(position, target)
        for _ in range(problem.n_moves):
            for _ in range(1 if smooth else moves.LEAPS):
                chains, moved = one_move(chains, target, root, step, rng)
                step = moves.tuned(step, moved, wanted)
                accepted.append(moved)
            kept.append(chains.position)
    return np.stack(kept, axis=1).reshape(-1, *position.shape[1:]), step, float(np.mean(accepted))


def log_posterior(
    domain: Box | Simplices, likelihood: Likelihood, rows: ParticleRows, exponent: float, position: Floats
) -> tuple[Floats, Floats]:
    """Log prior plus log likelihood at positions, (S,), and its gradient, which is empty if the form has none.

    The density of the last row enters to the power ``exponent``.
    """
    theta = domain.theta(position)
    prior = domain.log_prior(theta)
    if not likelihood.form.smooth:
        return prior + likelihood.value(theta, rows, exponent), np.empty(0)
    value, grad = likelihood.value_and_grad(theta, rows, exponent)
    return prior + value, domain.position_gradient(theta, grad)


def step(
    problem: ParticleProblem, state: ParticleState, t: int, rng: np.random.Generator, last: bool = False
) -> tuple[ParticleState, StepReport]:
    """One observation: its prediction from the past, then the update of weights and, if need be, particles.

    With ``last`` no particle moves, as no observation follows that would use them.
    """
    row = problem.rows.part(t, t + 1)
    wanted = problem.threshold * state.log_weights.size
    forecast, log_density = _forecast(problem, state, row)
    taken, log_z, rates = 0.0, 0.0, []
    while taken < 1.0:
        rest = 1.0 - taken
        exponent = rest if last else tempering_exponent(state.log_weights, log_density, rest, wanted)
        taken = 1.0 if exponent == rest else taken + exponent
        log_weights, increment = update(state.log_weights, exponent * log_density)
        log_z += increment
        impossible = state.impossible if np.isfinite(increment) else (*state.impossible, t)
        state = state._replace(log_weights=log_weights, impossible=impossible)
        size = effective_size(log_weights)
        if not last and (taken < 1.0 or size < wanted):
            state, rate = move(problem, state, t + 1, taken, rng)
            rates.append(rate)
        if taken < 1.0:
            _, log_density = _forecast(problem, state, row)
    return state, StepReport(forecast, log_z, size, float(np.mean(rates)) if rates else None)


def _forecast(problem: ParticleProblem, state: ParticleState, row: ParticleRows) -> tuple[float, Floats]:
    """The weighted prediction of one row, and every particle's log density of its response, times its power, (S,)."""
    forecasts = predictions(problem.likelihood.form, state.theta, row)  # (S, 1)
    log_density = row.power * problem.likelihood.log_densities(row.y - forecasts, state.sigma)[:, 0]
    return float(np.exp(state.log_weights) @ forecasts[:, 0]), log_density
