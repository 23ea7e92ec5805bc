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

    One fit will decide on fresh queries, and those of the folds differ from it. For scores what they differ by is
    `variance_of_fits`; for costs it is seen on the same rows, by the decisions of the fit to all rows
    (``cost_of_fit``). A saving is a ratio of means, 1 - cost / cost of the best single model, with the error of its
    linearisation.
    """
    places = range(len(prices))
    scores, costs = (np.stack(part, axis=1) for part in zip(*(held_out.values(p) for p in places), strict=True))
    best = int(held_out.scores.mean(axis=0).argmax())
    own_score, own_cost = held_out.scores[:, best], held_out.costs[:, best]
    base, half, wide = float(own_cost.mean()), z_value(level), band_factor(scores, level)

    def mean(values: Floats, fits: float = 0.0, factor: float = half) -> Interval:
        return _interval(float(values.mean()), factor * mean_error(values, n_queries, fits))

    def saving(values: Floats, fits: float) -> Interval:
        if base == 0.0:
            return Interval(0.0, 0.0, 0.0)
        ratio = float(values.mean()) / base
        linear = (values - ratio * own_cost) / base
        return _interval(1.0 - ratio, half * mean_error(linear, n_queries, fits / base**2))

    def point(place: int) -> FrontierPoint:
        score, cost = scores[:, place], costs[:, place]
        by_fold = variance_of_fits(score, held_out.fold)
        by_fit = float(held_out.cost_of_fit[place] - cost.mean()) ** 2
        intervals = mean(score, by_fold), mean(cost, by_fit), saving(cost, by_fit), mean(score, by_fold, wide)
        return FrontierPoint(float(prices[place]), *intervals)

    return Frontier(tuple(point(p) for p in places), names[best], mean(own_score), mean(own_cost))


def mean_error(values: Floats, n_queries: int | None = None, fits: float = 0.0) -> float:
    """The standard error of the mean of held-out values (n,) as a forecast of that over fresh queries.

    Its square is s^2 / n, plus s^2 / n_queries for a finite number of them, plus the variance ``fits`` of what one
    fit does differently from those that decided on the held-out rows.

    >>> round(mean_error(np.tile([0.0, 1.0], 50)), 4)
    0.0503
    """
    n = len(values)
    variance = float(values.var(ddof=1)) if n > 1 else float("inf")
    fresh = 0.0 if n_queries is None else 1.0 / n_queries
    return float(np.sqrt(variance * (1.0 / n + fresh) + fits))


def variance_of_fits(values: Floats, fold: Integers) -> float:
    """What the means of K folds, each decided on by a fit of its own, vary beyond s^2 K / n.

    It is zero unless it is more than chance gives in 5 % of the cases (chi-squared, K - 1 degrees of freedom).

    >>> variance_of_fits(np.tile([0.0, 1.0], 50), np.repeat(np.arange(5), 20))
    0.0
    """
    counts = np.bincount(fold)
    means = np.bincount(fold, weights=values) / counts
    between, chance = float(means.var(ddof=1)), float(values.var(ddof=1)) * float(np.mean(1.0 / counts))
    differ = between * (len(counts) - 1) > chance * float(special.chdtri(len(counts) - 1, ALPHA))
    return between - chance if differ else 0.0


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
