"""Mean score against mean cost over all prices, from held-out decisions, with intervals and a band."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import special

from gatewise.arrays import Floats, Integers
from gatewise.scores.fitted_routes import HeldOutDecisions
from gatewise.stats import Interval

LEVEL = 0.9
ALPHA = 0.05  # of the test that fits differ
N_DRAWS = 500  # of the multiplier bootstrap behind the band


@dataclass(frozen=True)
class FrontierPoint:
    """What a price promises: mean score and cost, and the fraction of the best single model's cost that it saves.

    The intervals hold for each point by itself; ``band`` is one for the score that holds for all prices at once.
    """

    price: float
    score: Interval
    cost: Interval
    saving: Interval
    band: Interval


@dataclass(frozen=True)
class Frontier:
    """The points of all prices, from 0 upwards, beside the best single model's mean score and cost."""

    points: tuple[FrontierPoint, ...]
    best_single: str
    single_score: Interval
    single_cost: Interval

    def __iter__(self) -> Iterator[FrontierPoint]:
        return iter(self.points)

    def __len__(self) -> int:
        return len(self.points)


def measure_frontier(
    held_out: HeldOutDecisions,
    prices: Floats,
    names: tuple[str, ...],
    n_queries: int | None = None,
    level: float = LEVEL,
) -> Frontier:
    """The frontier with intervals for the means over ``n_queries`` fresh queries; None for the means in the long run.

    The error of a mean of held-out values is that of `mean_error`. A saving is a ratio of means, 1 - cost / cost of
    the best single model, with the error of its linearisation.
    """
    places = range(len(prices))
    scores, costs = (np.stack(part, axis=1) for part in zip(*(held_out.values(p) for p in places), strict=True))
    best = int(held_out.scores.mean(axis=0).argmax())
    own_score, own_cost = held_out.scores[:, best], held_out.costs[:, best]
    half, wide = z_value(level), band_factor(scores, level)

    def mean(values: Floats, factor: float = half) -> Interval:
        return _interval(float(values.mean()), factor * mean_error(values, held_out.fold, n_queries))

    def saving(values: Floats) -> Interval:
        base = float(own_cost.mean())
        if base == 0.0:
            return Interval(0.0, 0.0, 0.0)
        ratio = float(values.mean()) / base
        linear = (values - ratio * own_cost) / base
        return _interval(1.0 - ratio, half * mean_error(linear, held_out.fold, n_queries))

    points = tuple(
        FrontierPoint(float(price), mean(score), mean(cost), saving(cost), mean(score, wide))
        for price, score, cost in zip(prices, scores.T, costs.T, strict=True)
    )
    return Frontier(points, names[best], mean(own_score), mean(own_cost))


def mean_error(values: Floats, fold: Integers, n_queries: int | None = None) -> float:
    """The standard error of the mean of held-out values (n,) as a forecast of that over fresh queries.

    Its square is s^2 / n, plus s^2 / n_queries for a finite number of them. One fit will decide on fresh queries, so
    what the means of the K folds, each decided on by a fit of its own, vary beyond s^2 K / n is added if it is more
    than chance gives in 5 % of the cases (chi-squared, K - 1 degrees of freedom).

    >>> round(mean_error(np.tile([0.0, 1.0], 50), np.repeat(np.arange(5), 20)), 4)
    0.0503
    """
    n, counts = len(values), np.bincount(fold)
    variance = float(values.var(ddof=1)) if n > 1 else float("inf")
    means = np.bincount(fold, weights=values) / counts
    between, chance = float(means.var(ddof=1)), variance * float(np.mean(1.0 / counts))
    differ = between * (len(counts) - 1) > chance * float(special.chdtri(len(counts) - 1, ALPHA))
    fits = between - chance if differ else 0.0
    fresh = 0.0 if n_queries is None else 1.0 / n_queries
    return float(np.sqrt(variance * (1.0 / n + fresh) + fits))


def _interval(value: float, half: float) -> Interval:
    return Interval(value, value - half, value + half)


def band_factor(values: Floats, level: float) -> float:
    """How many standard errors a band over the columns of values (n, P) needs to hold all means at once.

    The ``level`` quantile of the largest standardised mean of values times independent signs.
    """
    n = len(values)
    centred = values - values.mean(axis=0)
    deviation = centred.std(axis=0)
    kept = deviation > 0.0
    if not kept.any():
        return z_value(level)
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(N_DRAWS, n))
    means = signs @ (centred[:, kept] / deviation[kept]) / np.sqrt(n)
    return float(np.quantile(np.abs(means).max(axis=1), level))


def z_value(level: float) -> float:
    """The two-sided quantile of the normal distribution.

    >>> round(z_value(0.9), 3)
    1.645
    """
    return float(special.ndtri(0.5 + level / 2.0))


def price_for_budget(held_out: HeldOutDecisions, budget: float) -> int:
    """The place of the lowest price whose held-out mean cost is at most the budget."""
    costs = held_out.means[1]
    within = np.flatnonzero(costs <= budget)
    if not len(within):
        raise ValueError(f"budget={budget:g} is below {costs.min():.4g}, the least mean cost that a price reaches")
    return int(within[0])


def price_for_score(held_out: HeldOutDecisions, score: float) -> int:
    """The place of the price of least held-out mean cost whose held-out mean score is at least ``score``."""
    scores, costs = held_out.means
    reached = np.flatnonzero(scores >= score)
    if not len(reached):
        raise ValueError(f"score={score:g} is above {scores.max():.4g}, the largest mean score that a price reaches")
    return int(reached[costs[reached].argmin()])
