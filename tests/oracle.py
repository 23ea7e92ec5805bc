"""The obvious twin of the aggregation kernels: plain NumPy over an (S, n) array, for small S."""

from itertools import product

import numpy as np
from scipy.special import logsumexp, softmax

from gatewise.kernels import top_k
from gatewise.kernels.net.factor_scores import empty_scores
from gatewise.kernels.simd.tile import TILE


def gates(scores, values, k):
    """Top-k weights (..., M) of scores (..., M): exp(values) over the k largest scores, ties to the smaller index."""
    active = np.zeros(scores.shape, dtype=bool)
    np.put_along_axis(active, top_k(scores, k), True, axis=-1)
    return softmax(np.where(active, values, -np.inf), axis=-1)


def product_scores(factors):
    """(S, n, M) from M-1 factors (G_m, n): C order, the last factor fastest, and 0 for the reference."""
    rows = [np.stack([*combination, np.zeros_like(combination[0])], axis=-1) for combination in product(*factors)]
    return np.array(rows)


def list_scores(theta, features):
    """(S, n, M) from theta (S, M-1, p) and features (n, p)."""
    free = np.einsum("smp,np->snm", theta, features)
    return np.concatenate([free, np.zeros((*free.shape[:2], 1))], axis=-1)


def residuals(gate, y, F):
    """(S, n) from gate (S, n, M)."""
    return y - (gate * F).sum(axis=-1)


def aggregate(residual, sigma, log_density, log_prior=None, power=1.0):
    """Weights before each observation and after the last (S, n + 1), and log Z (n + 1,); power (n,) of densities."""
    n_candidates = len(residual)
    prior = np.full(n_candidates, -np.log(n_candidates)) if log_prior is None else log_prior
    scale = np.broadcast_to(sigma, n_candidates)[:, None]
    increments = (log_density(residual / scale) - np.log(scale)) * power
    log_weights = prior[:, None] + np.concatenate(
        [np.zeros((n_candidates, 1)), np.cumsum(increments, axis=1)], axis=1
    )
    log_z = logsumexp(log_weights, axis=0)
    return np.exp(log_weights - log_z), log_z


def lay_out(parts, keep):
    """Scores (G_m, n) of the points of every factor as `factor_scores` lays them out."""
    n = parts[0].shape[1]
    scores = empty_scores([len(part) for part in parts], n, keep)
    scores.prefix[:-1, :n] = np.concatenate([*parts[:-1], np.empty((0, n))])
    for point, row in enumerate(parts[-1]):
        scores.last[point // TILE, :, point % TILE] = row
    return scores
