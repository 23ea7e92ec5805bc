"""Sequential Monte Carlo: weighted particles that follow the law prior x product of predictive densities.

Pure functions: `init`, `step` (reweight, and at low effective size resample and move), all in log space.
"""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from gatewise.aggregation.particles import moves
from gatewise.aggregation.particles.domains import Box, Simplices
from gatewise.aggregation.particles.forms import Form, Rows
from gatewise.aggregation.particles.likelihood import Likelihood
from gatewise.arrays import Floats

BLOCK = 256  # chains that move together: fixed, so that results do not depend on the number of threads
ACCEPT_HAMILTONIAN, ACCEPT_WALK = 0.75, 0.3


class Problem(NamedTuple):
    """What does not change along the stream: its rows, the law, when to resample and how often to move then."""

    domain: Box | Simplices
    likelihood: Likelihood
    rows: Rows
    threshold: float
    n_moves: int
    pool: ThreadPoolExecutor | None


class State(NamedTuple):
    """Particles: position (S, r', c), theta (S, r, c), sigma (S,), normalised log weights (S,), the moves' step.

    ``void`` are the observations at which every density was 0: they change no weight and enter no target.
    """

    position: Floats
    theta: Floats
    sigma: Floats
    log_weights: Floats
    step: float
    void: tuple[int, ...] = ()


class Outcome(NamedTuple):
    """One observation: its prediction from the past, log of its mixture density, the effective size after it, and
    the acceptance rate of the moves that followed, None where none did."""

    prediction: float
    log_z: float
    ess: float
    acceptance: float | None


def init(problem: Problem, n: int, shape: tuple[int, int], rng: np.random.Generator) -> State:
    """n particles from the prior with equal weights; ``shape`` is theta's."""
    position = problem.domain.sample(rng, n, shape)
    theta = problem.domain.theta(position)
    step = 0.3 if problem.likelihood.form.smooth else 2.0
    return State(position, theta, problem.likelihood.scales(theta), np.full(n, -np.log(n)), step)


def predictions(form: Form, theta: Floats, rows: Rows) -> Floats:
    """Every particle's prediction at every row, (S, n); the responses are not looked at."""
    return -form.residuals(theta, rows._replace(y=np.zeros(rows.y.size)))


def reweight(log_weights: Floats, log_density: Floats) -> tuple[Floats, float]:
    """The weights after one observation and log of its mixture density, `eq:cal-after-update` in log space.

    Where every density is 0 no ratio is defined: the weights stay, and the log density is -inf.

    >>> reweight(np.log([0.5, 0.5]), np.array([-1000.0, -1000.0 + np.log(3.0)]))[0].round(3)
    array([-1.386, -0.288])
    """
    joint = log_weights + log_density
    if np.isnan(joint).any():
        raise ValueError("a predictive density is not a number: check the data, the experts and the scores' size")
    log_z = float(logsumexp(joint))
    return (joint - log_z, log_z) if np.isfinite(log_z) else (log_weights, log_z)


def effective_size(log_weights: Floats) -> float:
    """1 / sum of squared weights, from 1 to S, of normalised log weights."""
    return float(np.exp(-logsumexp(2.0 * log_weights)))


def systematic(log_weights: Floats, size: int, u: float) -> NDArray[np.intp]:
    """``size`` indices, particle s about size w_s times: those where the cumulated weights pass (i + u) / size.

    >>> systematic(np.log([0.5, 0.25, 0.25, 1e-300]), 4, 0.5)
    array([0, 0, 1, 2])
    """
    edges = np.cumsum(np.exp(log_weights))
    points = (np.arange(size) + u) / size * edges[-1]
    return np.asarray(np.minimum(np.searchsorted(edges, points, side="right"), log_weights.size - 1))


def portion(log_weights: Floats, log_density: Floats, rest: float, wanted: float) -> float:
    """How much of an observation to take at once, an exponent of its density, at most ``rest``.

    All of it, unless that would leave fewer than half of ``wanted`` effective particles: then what leaves ``wanted``.
    """

    def left(share: float) -> float:
        return effective_size(reweight(log_weights, share * log_density)[0])

    if left(rest) >= 0.5 * wanted:
        return rest
    low, high = 0.0, rest
    for _ in range(20):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if left(middle) >= wanted else (low, middle)
    return max(high, rest / 20)  # densities of 0 may leave few whatever the exponent


def move(problem: Problem, state: State, seen: int, share: float, rng: np.random.Generator) -> tuple[State, float]:
    """Resample, then let the sample move on: the new particles, as many as before, and the acceptance rate.

    One in ``n_moves`` is drawn, and every stage of its way becomes a particle, as each follows the target.
    The target is the law of the first ``seen`` rows, the last of them with its density to the power ``share``.
    """
    n = state.log_weights.size
    root = moves.covariance_root(state.position, np.exp(state.log_weights))
    chosen = state.position[systematic(state.log_weights, -(-n // problem.n_moves), rng.random())]
    blocks = [chosen[start : start + BLOCK] for start in range(0, len(chosen), BLOCK)]
    rows = problem.rows.part(0, seen).without(state.void)
    task = partial(_move_block, problem, rows, share, root, state.step)
    mapped = problem.pool.map if problem.pool else map
    moved = list(mapped(task, blocks, rng.spawn(len(blocks))))
    position = np.concatenate([block for block, _, _ in moved])
    if len(position) > n:  # n is no multiple of n_moves: any of them may be left out
        position = position[np.sort(rng.choice(len(position), n, replace=False))]
    theta = problem.domain.theta(position)
    step = float(np.exp(np.mean([np.log(step) for _, step, _ in moved])))
    log_weights = np.full(n, -np.log(n))
    acceptance = float(np.mean([share for _, _, share in moved]))
    sigma = problem.likelihood.scales(theta)
    return State(position, theta, sigma, log_weights, step, state.void), acceptance


def _move_block(
    problem: Problem,
    rows: Rows,
    share: float,
    root: Floats,
    step: float,
    position: Floats,
    rng: np.random.Generator,
) -> tuple[Floats, float, float]:
    """Move one block ``n_moves`` times; where it was after each, the step it ended with and its acceptance rate."""
    smooth = problem.likelihood.form.smooth
    one_move = moves.hamiltonian if smooth else moves.random_walk
    wanted = ACCEPT_HAMILTONIAN if smooth else ACCEPT_WALK
    target = partial(log_posterior, problem.domain, problem.likelihood, rows, share)
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
    domain: Box | Simplices, likelihood: Likelihood, rows: Rows, share: float, position: Floats
) -> tuple[Floats, Floats]:
    """Log prior plus log likelihood at positions, (S,), and its gradient; an empty one where the form has none.

    The last row's density counts to the power ``share``.
    """
    theta = domain.theta(position)
    prior = domain.log_prior(theta)
    if not likelihood.form.smooth:
        return prior + likelihood.value(theta, rows, share), np.empty(0)
    value, grad = likelihood.value_and_grad(theta, rows, share)
    return prior + value, domain.pull(theta, grad)


def step(
    problem: Problem, state: State, t: int, rng: np.random.Generator, last: bool = False
) -> tuple[State, Outcome]:
    """One observation: its prediction from the past, then the update; ``last`` spares moves that nothing follows.

    An observation that would leave few effective particles enters in portions, with moves between them.
    """
    row = problem.rows.part(t, t + 1)
    wanted = problem.threshold * state.log_weights.size
    forecast, log_density = _forecast(problem, state, row)
    taken, log_z, rates = 0.0, 0.0, []
    while taken < 1.0:
        rest = 1.0 - taken
        share = rest if last else portion(state.log_weights, log_density, rest, wanted)
        taken = 1.0 if share == rest else taken + share
        log_weights, increment = reweight(state.log_weights, share * log_density)
        log_z += increment
        void = state.void if np.isfinite(increment) else (*state.void, t)
        state = state._replace(log_weights=log_weights, void=void)
        size = effective_size(log_weights)
        if not last and (taken < 1.0 or size < wanted):
            state, rate = move(problem, state, t + 1, taken, rng)
            rates.append(rate)
        if taken < 1.0:
            _, log_density = _forecast(problem, state, row)
    return state, Outcome(forecast, log_z, size, float(np.mean(rates)) if rates else None)


def _forecast(problem: Problem, state: State, row: Rows) -> tuple[float, Floats]:
    """The weighted prediction of one row, and every particle's log density of its response, (S,)."""
    forecasts = predictions(problem.likelihood.form, state.theta, row)  # (S, 1)
    log_density = problem.likelihood.log_densities(row.y - forecasts, state.sigma)[:, 0]
    return float(np.exp(state.log_weights) @ forecasts[:, 0]), log_density
