"""Calibration and AFTER over many candidates in NumPy, for what no kernel knows: any density, loss or gate.

They see residuals in blocks (candidates (B,), residuals (B, n)) that hold every candidate once, and pass over the
blocks once for sums and once more for averages, so that no array of all candidates and rows is made. Several times
slower than the kernels.
"""

from collections.abc import Iterable
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np

from gatewise.aggregation.weights import cumulate
from gatewise.arrays import Floats, Integers
from gatewise.losses import Loss
from gatewise.noise import Noise

CandidateBlocks: TypeAlias = Iterable[tuple[Integers, Floats]]

FLOOR = -1e9  # a density of zero counts as exp(FLOOR): with all candidates at zero, their ratios stay defined


class Density(Protocol):
    """The density that a candidate's weight is multiplied by at every row, as a function of its residual."""

    def log_density(self, candidates: Integers, residual: Floats) -> Floats:
        """The log density (B, n) of candidates (B,) with these residuals (B, n)."""
        ...


class NoiseDensity(NamedTuple):
    """(log h(residual / sigma) - log sigma) * power; sigma (S,), or (1,) for all candidates alike, power (n,)."""

    noise: Noise
    sigma: Floats
    power: Floats | None = None

    def log_density(self, candidates: Integers, residual: Floats) -> Floats:
        sigma = (self.sigma[candidates] if self.sigma.size > 1 else self.sigma)[:, None]
        found = np.asarray(np.maximum(self.noise.log_density(residual / sigma), FLOOR) - np.log(sigma))
        return found if self.power is None else found * self.power


class LossDensity(NamedTuple):
    """The log density of a loss as a function of the mixture z.

    Residuals are y - z, and a loss that is not one of residuals has no y: it is stored with y = 0, so z = -residual.
    """

    loss: Loss

    def log_density(self, candidates: Integers, residual: Floats) -> Floats:  # noqa: ARG002 - a loss has no scales
        with np.errstate(invalid="ignore"):  # told below
            return np.asarray(np.maximum(self.loss.log_density(-residual.T).T, FLOOR))


def mean_square(blocks: CandidateBlocks, n_candidates: int) -> Floats:
    """Mean squared residual of every candidate, (S,)."""
    out = np.empty(n_candidates)
    for candidates, residual in blocks:
        out[candidates] = np.mean(residual**2, axis=1)
    return out


def log_weight_path(
    candidates: Integers, residual: Floats, density: Density, log_prior: Floats | None, n_candidates: int
) -> Floats:
    """Log weights before each observation and after the last, not normalised, (B, n + 1).

    log w_t = log prior + sum_{u < t} log density of observation u.
    """
    prior = np.full(len(candidates), -np.log(n_candidates)) if log_prior is None else log_prior[candidates]
    log_density = density.log_density(candidates, residual)
    if np.isnan(log_density).any():
        raise ValueError("noise or loss must return log densities, but it returned a NaN")
    return cumulate(prior, log_density, axis=1)


def sweep(
    blocks: CandidateBlocks, n: int, n_candidates: int, density: Density, log_prior: Floats | None
) -> tuple[Floats, Floats, Floats, Floats]:
    """AFTER over all candidates, block by block: (residual, top, log_mass, log_weights) as in `drivers.Sweep`.

    residual (n,) is the response less the one-step-ahead prediction; top + log_mass (n + 1,) is the log of the sum of
    all weights before each observation and after the last; log_weights (S,) are those after the last observation.
    """
    top = np.full(n + 1, -np.inf)
    mass, weighted = np.zeros(n + 1), np.zeros(n + 1)
    log_weights = np.empty(n_candidates)
    for candidates, residual in blocks:
        path = log_weight_path(candidates, residual, density, log_prior, n_candidates)
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
    blocks: CandidateBlocks,
    n_candidates: int,
    density: Density,
    log_prior: Floats | None,
    top: Floats,
    log_mass: Floats,
    edges: Integers,
    power: Floats | None = None,
) -> Floats:
    """Weights averaged over the times edges[j] <= t < edges[j + 1], each by its power (n,), (segments, S)."""
    out = np.empty((len(edges) - 1, n_candidates))
    for candidates, residual in blocks:
        path = log_weight_path(candidates, residual, density, log_prior, n_candidates)
        weights = np.exp((path - top) - log_mass)
        for j, times in enumerate(map(slice, edges[:-1], edges[1:])):
            out[j, candidates] = np.average(weights[:, times], 1, None if power is None else power[times])
    return out
