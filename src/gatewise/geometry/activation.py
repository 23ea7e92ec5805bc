"""How many experts to activate: the Top-1 barrier region by region, and a recommended K."""

from dataclasses import dataclass
from math import comb

import numpy as np
from numpy.typing import ArrayLike

from gatewise.arrays import as_between, as_count, Floats, Indices
from gatewise.geometry.checked_inputs import as_labels
from gatewise.geometry.mixtures import best_mixtures, MAX_SUBSETS, n_sets
from gatewise.geometry.regions import squared_losses
from gatewise.kernels import top_k
from gatewise.stats import Interval, mean_interval


@dataclass(frozen=True)
class RegionBarrier:
    """One region: its best pair with weights, and how much better the pair is than one expert, integrated over it.

    ``barrier`` compares the pair with the pointwise best single expert, delta_r of `ass:two-expert-combination`.
    With noise in y it is a lower bound: the best expert for a noisy response flatters Top-1. ``gain`` compares it
    with the region's best single expert, what a gate that knows the region achieves.
    """

    region: int
    n_rows: int
    pair: tuple[int, int]
    weights: tuple[float, float]
    barrier: Interval
    gain: Interval


@dataclass(frozen=True)
class Activation:
    """The barriers of all regions, their sum, the steps from K to K + 1, and the K to use.

    ``steps[i]`` is the fall of the mean loss when i + 2 experts are active in place of i + 1. ``k`` is the smallest
    number of experts beyond which the upper end of no gain's interval exceeds the tolerance (see `activation`):
    further gains are shown to be negligible. ``k_low`` is the same with the lower ends: beyond it no gain is shown.
    """

    regions: tuple[RegionBarrier, ...]
    barrier: Interval
    steps: tuple[Interval, ...]
    k: int
    k_low: int


def activation(
    predictions: ArrayLike,
    y: ArrayLike,
    regions: ArrayLike,
    *,
    k_max: int | None = None,
    level: float = 0.95,
    tolerance: float = 0.01,
    seed: int | np.random.Generator = 0,
) -> Activation:
    """How many experts K to mix on each region: compares the best fixed mixtures of 1, 2, ..., k_max experts.

    ``predictions`` (n, M) or (n, M, q) of experts and responses ``y`` (n,) or (n, q), on rows that the experts were
    not fitted on; ``y`` may be the regression function itself. ``regions`` (n,) is any partition that does not come
    from these responses. Mixtures are fitted on one random half of the rows and measured on the other, both ways.
    The Top-1 barrier of a region (`prop: Top-1 mixing`) is the squared error that the best single expert of every row
    has beyond the region's best pair. The intervals that compare two K hold together with probability ``level``. A
    gain counts only above ``tolerance`` times the loss with K = 1. ``k_max`` is 3 unless given, and 2 where there are
    too many triples to try.

    >>> rng = np.random.default_rng(0)
    >>> signs = rng.choice([-1.0, 1.0], size=(400, 1))
    >>> found = activation(np.hstack([signs, -signs]), np.zeros(400), np.zeros(400, dtype=int))
    >>> found.k, found.regions[0].weights, found.barrier.value  # the half-half mixture is exact
    (2, (0.5, 0.5), 1.0)
    """
    losses = squared_losses(predictions, y)
    n, n_experts = losses.shape
    residuals = (np.asarray(predictions, float) - np.asarray(y, float)[:, None]).reshape(n, n_experts, -1)
    labels = as_labels(regions, "regions", n)
    k_max, level = _largest(k_max, n_experts), as_between(level, "level")
    if not tolerance >= 0:
        raise ValueError(f"tolerance must be 0 or above, not {tolerance!r}")
    half = np.random.default_rng(seed).permutation(n) % 2
    curve = _cross_fitted(residuals, labels, half, k_max)  # (n, k_max)
    single = losses.min(axis=1)
    each = 1.0 - (1.0 - level) / comb(k_max, 2)
    steps = tuple(mean_interval(curve[:, k - 1] - curve[:, k], each) for k in range(1, k_max))
    return Activation(
        tuple(_region(r, labels, residuals, single, curve, level) for r in np.unique(labels)),
        mean_interval(single - curve[:, 1], level),
        steps,
        *_recommended(curve, each, tolerance),
    )


def _largest(k_max: int | None, n_experts: int) -> int:
    if k_max is not None:
        return as_count(k_max, "k_max", low=2, high=n_experts)
    return 3 if n_experts > 2 and n_sets(n_experts, 3) <= MAX_SUBSETS else 2


def _gram(residuals: Floats) -> Floats:
    return np.asarray(np.einsum("njq,nkq->jk", residuals, residuals) / max(len(residuals), 1))


def _cross_fitted(residuals: Floats, labels: Indices, half: Indices, k_max: int) -> Floats:
    """Held-out losses (n, k_max) of the best mixture of 1, ..., k_max experts, fitted to the other half of the rows.

    Mixtures are fitted region by region; where the other half has no row of a region, to all rows of that half.
    """
    curve = np.empty((len(labels), k_max))
    for side in (0, 1):
        for region in np.unique(labels[half == side]):
            here = (half == side) & (labels == region)
            fit = (half != side) & (labels == region)
            mixtures = best_mixtures(_gram(residuals[fit if fit.any() else half != side]), k_max)
            weights = np.stack([mixture.weights for mixture in mixtures])  # (k_max, M)
            curve[here] = (np.einsum("kj,njq->nkq", weights, residuals[here]) ** 2).sum(axis=2)
    return curve


def _region(
    region: int, labels: Indices, residuals: Floats, single: Floats, curve: Floats, level: float
) -> RegionBarrier:
    here = labels == region
    weights = best_mixtures(_gram(residuals[here]), 2)[1].weights
    first, second = sorted(top_k(weights, 2).tolist())
    # Integrals over the region, so that they add up to the integral over all rows: rows elsewhere count zero.
    return RegionBarrier(
        region=int(region),
        n_rows=int(here.sum()),
        pair=(first, second),
        weights=(float(weights[first]), float(weights[second])),
        barrier=mean_interval(np.where(here, single - curve[:, 1], 0.0), level),
        gain=mean_interval(np.where(here, curve[:, 0] - curve[:, 1], 0.0), level),
    )


def _recommended(curve: Floats, level: float, tolerance: float) -> tuple[int, int]:
    """(k, k_low): the smallest K beyond which no gain exceeds ``tolerance`` times the loss with K = 1.

    For k the gains are the upper ends of their intervals, which is the safe side, for k_low the lower ends.
    """
    k_max = curve.shape[1]
    worth = tolerance * float(curve[:, 0].mean())
    surely = possibly = k_max
    for k in range(k_max - 1, 0, -1):
        gains = [mean_interval(curve[:, k - 1] - curve[:, more], level) for more in range(k, k_max)]
        if surely == k + 1 and all(gain.low <= worth for gain in gains):
            surely = k
        if possibly == k + 1 and all(gain.high <= worth for gain in gains):
            possibly = k
    return max(surely, possibly), surely
