"""A Top-K mixture of constants that approximates any Lipschitz function: the paper's own construction."""

from collections.abc import Callable
from typing import Any

import numpy as np

from gatewise.arrays import as_count, as_positive, Floats
from gatewise.experts import ConstantExpert, expert_predictions
from gatewise.gates import LinearGate
from gatewise.mixture.predictor import MixtureOfExperts


def nearest_center_moe(
    h: Callable[[Any], Any], n_experts: int, d: int, k: int = 1, radius: float = 1.0
) -> MixtureOfExperts:
    """The nearest-centre predictor for h on [0, 1]^d from M constant experts (`prop:approximation_ability`).

    The cube is cut into q^d cells, q = floor((M/K)^(1/d)). Each cell's centre c has K experts of value h(c) and
    score 2 lambda c.x - lambda |c|^2 with lambda = radius / (2 max(2, d)), so the nearest centre scores highest and
    its K copies are active. The M - K q^d experts left over are dummies of value 0 and score -radius, never
    selected. For an L-Lipschitz h the error is at most L sqrt(d) / (2 q) everywhere.

    The paper's parameters lie in the box of ``radius``. Gatewise fixes the last expert's score at 0, which means
    taking its parameters off all the others: theta then lies in the box of 2 * radius.

    >>> model = nearest_center_moe(lambda X: X[:, 0], n_experts=8, d=1, k=2)
    >>> model.predict([[0.1], [0.3], [0.9]])
    array([0.125, 0.375, 0.875])
    """
    n_experts, d = as_count(n_experts, "n_experts", low=2), as_count(d, "d")
    k, radius = as_count(k, "k", high=n_experts), as_positive(radius, "radius")
    centers = _cell_centers(cells_per_side(n_experts, d, k), d)  # (q^d, d)
    values = expert_predictions(h, centers, "the function h")
    scale = radius / (2 * max(2, d))
    score = np.column_stack([2 * scale * centers, -scale * (centers**2).sum(axis=1)])  # (q^d, d+1)
    dummy = np.append(np.zeros(d), -radius)
    parameters = np.vstack([np.repeat(score, k, axis=0), np.tile(dummy, (n_experts - k * len(centers), 1))])
    constants = np.append(np.repeat(values, k), np.zeros(n_experts - k * len(centers)))
    return MixtureOfExperts(
        LinearGate(n_experts, k=k),
        parameters[:-1] - parameters[-1],
        [ConstantExpert(float(value)) for value in constants],
    )


def cells_per_side(n_experts: int, d: int, k: int) -> int:
    """The largest q with K q^d <= M; in whole numbers, as (M/K)^(1/d) may fall short of a whole q by rounding."""
    low, high = 1, 2  # k low^d <= M; high is doubled until it is too large, and the gap halved
    while k * high**d <= n_experts:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if k * middle**d <= n_experts else (low, middle)
    return low


def _cell_centers(q: int, d: int) -> Floats:
    axis = (2 * np.arange(q) + 1) / (2 * q)
    return np.stack([grid.ravel() for grid in np.meshgrid(*[axis] * d, indexing="ij")], axis=1)
