"""The best mixture of at most K experts on a set of rows, over all choices of the experts (`eq:bestexpert`)."""

from itertools import combinations
from math import comb
from typing import NamedTuple

import numpy as np

from gatewise.arrays import as_count, Floats, Indices

MAX_SUBSETS = 200_000


class Mixture(NamedTuple):
    """Weights (M,) on the simplex with at most K positive entries, and the mean loss on the rows it was fitted on."""

    weights: Floats
    loss: float


def n_sets(n_experts: int, k_max: int) -> int:
    """How many sets of 1 to k_max experts there are.

    >>> n_sets(4, 2)
    10
    """
    return sum(comb(n_experts, k) for k in range(1, k_max + 1))


def best_mixtures(gram: Floats, k_max: int) -> list[Mixture]:
    """The best mixture of at most 1, ..., k_max experts: min w'Gw over the simplex with so many positive entries.

    G[j, k] is the mean of (f_j - y) . (f_k - y), so w'Gw is the mean squared error of the mixture. On a set J of
    experts and without signs the best weights are G_J^{-1} 1, scaled to sum one. The best with signs uses a set
    on which these are positive; so the minimum over all sets where they are is exact.

    >>> [mixture.loss for mixture in best_mixtures(np.array([[1.0, -1.0], [-1.0, 1.0]]), 2)]
    [1.0, 0.0]
    """
    n_experts = len(gram)
    k_max = as_count(k_max, "k_max", high=n_experts)
    if n_sets(n_experts, k_max) > MAX_SUBSETS:
        raise ValueError(f"k_max = {k_max} of {n_experts} experts makes more than {MAX_SUBSETS:,} sets; take fewer")
    found: list[Mixture] = []
    for k in range(1, k_max + 1):
        sets = np.array(list(combinations(range(n_experts), k)), dtype=np.intp)
        best = _best_of(gram, sets)
        # A set on which a weight is not positive is beaten by a smaller set.
        if found and (best is None or best.loss >= found[-1].loss):
            best = found[-1]
        assert best is not None
        found.append(best)
    return found


def _best_of(gram: Floats, sets: Indices) -> Mixture | None:
    """The best of the sets (q, k) with positive weights, None where there is none."""
    blocks = gram[sets[:, :, None], sets[:, None, :]]  # (q, k, k)
    # Experts that agree make a block singular: a tiny ridge then divides their weight equally.
    ridge = np.maximum(1e-12 * np.trace(blocks, axis1=1, axis2=2), 1e-300)[:, None, None]
    ones = np.ones((*sets.shape, 1))
    weights = np.linalg.solve(blocks + ridge * np.eye(sets.shape[1]), ones)[..., 0]
    total = weights.sum(axis=1, keepdims=True)
    weights = weights / np.where(total != 0, total, 1.0)
    positive = (weights > 0).all(axis=1)
    if not positive.any():
        return None
    values = np.einsum("qj,qjk,qk->q", weights, blocks, weights)
    best = int(np.where(positive, values, np.inf).argmin())
    full = np.zeros(len(gram))
    full[sets[best]] = weights[best]
    return Mixture(full, max(float(values[best]), 0.0))
