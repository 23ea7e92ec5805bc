"""Markov moves that leave a density on a box, or on all of space, as it is: Hamiltonian and random-walk.

Every particle of an array moves on its own; a target takes all positions at once.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Target = Callable[[Floats], tuple[Floats, Floats]]  # positions (S, r, c) -> log density (S,), gradient (S, r, c)
LEAPS = 10  # few long paths mix better than many short ones of the same cost


class Chains(NamedTuple):
    """Positions (S, r, c), log densities (S,) and gradients (S, r, c); of a random walk the gradients are unused."""

    position: Floats
    value: Floats
    grad: Floats


class Domain(Protocol):
    """Where positions live; ``fold`` brings a straight path that left it back and turns its direction, in place."""

    def fold(self, position: Floats, direction: Floats) -> None: ...


def start(position: Floats, target: Target) -> Chains:
    """Chains at these positions."""
    return Chains(position, *target(position))


def hamiltonian(
    chains: Chains, target: Target, domain: Domain, spread: Floats, step: float, rng: np.random.Generator
) -> tuple[Chains, float]:
    """One Hamiltonian move of every chain, LEAPS leapfrog steps; the new chains and the share that moved.

    Kick, drift, kick with the free drift reflected at the walls of the domain: each map keeps volume and is undone
    by turning the direction, so the Metropolis rule is exact. One leap would be MALA. ``spread`` (r, c) are the
    target's standard deviations; each chain draws its own step from [step / 2, 3 step / 2], against resonance.
    """
    shape = chains.position.shape
    direction = rng.standard_normal(shape)
    eps = step * rng.uniform(0.5, 1.5, (len(direction), 1, 1))
    log_u = -rng.standard_exponential((len(direction),))
    energy = chains.value - 0.5 * np.square(direction).sum(axis=(1, 2))
    stride, kick = eps * spread, 0.5 * eps * spread
    position, value, grad = chains
    for _ in range(LEAPS):
        direction += kick * grad
        position = position + stride * direction
        domain.fold(position, direction)
        value, grad = target(position)
        direction += kick * grad
    energy = value - 0.5 * np.square(direction).sum(axis=(1, 2)) - energy
    return _metropolis(chains, Chains(position, value, grad), energy, log_u)


def random_walk(
    chains: Chains, target: Target, domain: Domain, spread: Floats, step: float, rng: np.random.Generator
) -> tuple[Chains, float]:
    """One random-walk move of every chain, reflected at the walls; the new chains and the share that moved.

    Half of the chains shift one row of theta, one expert's parameters, the others all of it. Independent increments
    by coordinate stay symmetric under reflection.
    """
    n_chains, n_rows, _ = shape = chains.position.shape
    direction = rng.standard_normal(shape)
    eps = step * rng.uniform(0.5, 1.5, (n_chains, 1, 1))
    log_u = -rng.standard_exponential((n_chains,))
    chosen = rng.integers(0, 2 * n_rows, n_chains)
    moving = (chosen[:, None] >= n_rows) | (chosen[:, None] == np.arange(n_rows))  # (S, r)
    shift = np.where(moving[:, :, None], eps * spread * direction, 0.0)
    position = chains.position + shift
    domain.fold(position, direction)
    value, grad = target(position)
    return _metropolis(chains, Chains(position, value, grad), value - chains.value, log_u)


def _metropolis(old: Chains, new: Chains, log_ratio: Floats, log_u: Floats) -> tuple[Chains, float]:
    """Keep the new state where log u < log ratio; a ratio that is no number keeps the old one."""
    accept = log_u < log_ratio
    wide = accept[:, None, None]
    chains = Chains(
        np.where(wide, new.position, old.position),
        np.where(accept, new.value, old.value),
        np.where(wide, new.grad, old.grad) if new.grad.size else new.grad,
    )
    return chains, float(accept.mean())


def tuned(step: float, share: float, wanted: float) -> float:
    """The next step after a share of moves was accepted: longer when it exceeds what is wanted."""
    return float(np.clip(step * np.exp(share - wanted), 1e-6, 3.0))
