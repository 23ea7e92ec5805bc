"""The operations of the kernels for what no kernel knows: a user's density or score transformation.

They see residuals in blocks (candidates (B,), residuals (B, n)) that hold every candidate once, and pass over the
blocks once for sums and once more for averages. Several times slower than the kernels, and as frugal with memory.
"""

from collections.abc import Iterable
from typing import TypeAlias

import numpy as np

from gatewise.aggregation.weights import cumulate
from gatewise.arrays import Floats, Integers
from gatewise.noise import Noise

Blocks: TypeAlias = Iterable[tuple[Integers, Floats]]

FLOOR = -1e9  # a density of zero counts as exp(FLOOR): with all candidates at zero, their ratios stay defined


def mean_square(blocks: Blocks, n_candidates: int) -> Floats:
    """Mean squared residual of every candidate, (S,)."""
    out = np.empty(n_candidates)
    for candidates, residual in blocks:
        out[candidates] = np.mean(residual**2, axis=1)
    return out


def log_weight_path(
    candidates: Integers, residual: Floats, sigma: Floats, log_prior: Floats | None, noise: Noise, n_candidates: int
) -> Floats:
    """Log weights before each observation and after the last, not normalised, (B, n + 1).

    log w_t = log prior + sum_{u < t} {log h(residual_u / sigma) - log sigma}.
    """
    prior = np.full(len(candidates), -np.log(n_candidates)) if log_prior is None else log_prior[candidates]
    scale = (sigma[candidates] if sigma.size > 1 else np.full(len(candidates), sigma[0]))[:, None]
    density = noise.log_density(residual / scale)
    if np.isnan(density).any():
        raise ValueError("noise must return log densities, but it returned a NaN")
    return cumulate(prior, np.maximum(density, FLOOR) - np.log(scale), axis=1)


def sweep(
    blocks: Blocks, n: int, n_candidates: int, sigma: Floats, log_prior: Floats | None, noise: Noise
) -> tuple[Floats, Floats, Floats, Floats]:
    """Online residuals (n,), log Z in two parts (n + 1,) and final log weights (S,), as `kernels.aggregate.sweep`."""
    top = np.full(n + 1, -np.inf)
    mass, weighted = np.zeros(n + 1), np.zeros(n + 1)
    log_weights = np.empty(n_candidates)
    for candidates, residual in blocks:
        path = log_weight_path(candidates, residual, sigma, log_prior, noise, n_candidates)
        log_weights[candidates] = path[:, -1]
        higher = np.maximum(top, path.max(axis=0))
        ground = np.where(np.isneginf(higher), 0.0, higher)  # a block without any prior weight
        factor = np.exp(top - ground)
        weights = np.exp(path - ground)
        mass = mass * factor + weights.sum(axis=0)
        weighted = weighted * factor
        weighted[:n] += np.einsum("st,st->t", weights[:, :n], residual)
        top = higher
    log_mass = np.log(mass)
    return weighted[:n] / mass[:n], top, log_mass, log_weights - top[n] - log_mass[n]


def mean_weights(
    blocks: Blocks,
    n_candidates: int,
    sigma: Floats,
    log_prior: Floats | None,
    noise: Noise,
    top: Floats,
    log_mass: Floats,
    edges: Integers,
) -> Floats:
    """Weights averaged over the times edges[j] <= t < edges[j + 1], (segments, S)."""
    out = np.empty((len(edges) - 1, n_candidates))
    for candidates, residual in blocks:
        path = log_weight_path(candidates, residual, sigma, log_prior, noise, n_candidates)
        weights = np.exp((path - top) - log_mass)
        for j in range(len(edges) - 1):
            out[j, candidates] = weights[:, edges[j] : edges[j + 1]].mean(axis=1)
    return out
