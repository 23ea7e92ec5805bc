"""Markov moves that leave a density as it is: Hamiltonian and random-walk Metropolis.

Many chains move at once, independently of each other; a target takes the positions of all of them.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from gatewise.arrays import Floats

Target = Callable[[Floats], tuple[Floats, Floats]]  # positions (S, r, c) -> log density (S,), gradient (S, r, c)
LEAPS = 20  # few long paths mix better than many short ones of the same cost


class Chains(NamedTuple):
    """Positions (S, r, c), log densities (S,) and gradients (S, r, c); of a random walk the gradients are unused."""

    position: Floats
    value: Floats
    grad: Floats


def start(position: Floats, target: Target) -> Chains:
    """Chains at these positions."""
    return Chains(position, *target(position))


def hamiltonian(
    chains: Chains, target: Target, root: Floats, step: float, rng: np.random.Generator
) -> tuple[Chains, float]:
    """One Hamiltonian move of every chain, LEAPS leapfrog steps; the new chains and the acceptance rate.

    ``root`` (D, D) is a root of the target's covariance, D = r c: in coordinates v with position = root v the target
    is about round. One leap would be MALA. Each chain draws its own step from [step / 2, 3 step / 2], against
    resonance.
    """
    shape = chains.position.shape
    direction = rng.standard_normal((shape[0], root.shape[0]))
    eps = step * rng.uniform(0.5, 1.5, (shape[0], 1))
    log_u = -rng.standard_exponential((shape[0],))
    energy = chains.value - 0.5 * np.square(direction).sum(axis=1)
    position, value, grad = chains
    transposed = np.ascontiguousarray(root.T)
    stride, kick = eps * direction, np.square(eps)
    stride += 0.5 * kick * (grad.reshape(direction.shape) @ root)
    for leap in range(1, LEAPS + 1):
        position = position + (stride @ transposed).reshape(shape)
        value, grad = target(position)
        stride += (kick if leap < LEAPS else 0.5 * kick) * (grad.reshape(direction.shape) @ root)
    energy = value - 0.5 * np.square(stride / eps).sum(axis=1) - energy
    return _metropolis(chains, Chains(position, value, grad), energy, log_u)


def random_walk(
    chains: Chains, target: Target, root: Floats, step: float, rng: np.random.Generator
) -> tuple[Chains, float]:
    """One random-walk move of every chain along ``root`` (D, D); the new chains and the acceptance rate."""
    shape = chains.position.shape
    eps = step * rng.uniform(0.5, 1.5, (shape[0], 1)) / np.sqrt(root.shape[0])
    shift = (eps * rng.standard_normal((shape[0], root.shape[0]))) @ root.T
    log_u = -rng.standard_exponential((shape[0],))
    position = chains.position + shift.reshape(shape)
    value, grad = target(position)
    return _metropolis(chains, Chains(position, value, grad), value - chains.value, log_u)


def covariance_root(position: Floats, weights: Floats) -> Floats:
    """A root (D, D) of the weighted covariance of positions (S, r, c), shrunk to its diagonal where S is small."""
    flat = position.reshape(len(position), -1)
    centred = flat - weights @ flat
    covariance = (weights[:, None] * centred).T @ centred
    size, D = 1.0 / np.square(weights).sum(), flat.shape[1]
    shrinkage = D / (D + 10.0 * size)
    diagonal = np.diag(covariance) + 1e-12
    return np.linalg.cholesky((1.0 - shrinkage) * covariance + np.diag(shrinkage * diagonal))


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


def tuned(step: float, acceptance: float, wanted: float) -> float:
    """The next step length after an acceptance rate: longer if the rate is above the wanted one, else shorter."""
    return float(np.clip(step * np.exp(acceptance - wanted), 1e-6, 3.0))
