"""Does routing pay? A tested headline from held-out decisions, and how many queries it would take to tell."""

from dataclasses import dataclass
from math import ceil, isfinite

import numpy as np
from scipy import special

from gatewise.arrays import Floats
from gatewise.scores.fitted_routes import HeldOutDecisions
from gatewise.stats import Interval, mean_and_error, student_interval

ALPHA = 0.05
N_COST_TESTS = 5  # prices at which routing for cost is tested
POWER_AT = 0.8  # what "enough queries" means


@dataclass(frozen=True)
class RouteVerdict:
    """What a fit found about routing.

    headline
        "route": on held-out queries routing scores more than every single model, by a test at level 5 %. "route for
        cost only": it does not, but at some price the score less price times cost is larger than that of every single
        model. Else "use MODEL for everything".
    best_single
        The model of largest mean score.
    gain
        The router's mean held-out score less that of the best single model, with a 95 % interval.
    p_value
        Of the hypothesis that some single model is at least as good: the largest of the one-sided p-values against
        all of them. The test is made with the members of the list that are linear in the scores, which hundreds of
        simulated tables can be fitted with.
    cost_p_value
        The same at a price, the smallest of N_COST_TESTS prices times their number; 1 without costs.
    enough_queries
        How many queries would show a gain of this size with a chance of 80 %; None if there is no gain to show.
    """

    headline: str
    best_single: str
    gain: Interval
    p_value: float
    cost_p_value: float
    enough_queries: int | None

    @property
    def routes(self) -> bool:
        """Whether routing is shown to raise the score."""
        return self.headline == "route"

    def __str__(self) -> str:
        low, high = (f"{end:+.4f}" for end in (self.gain.low, self.gain.high))
        p = "< 0.001" if self.p_value < 0.001 else f"= {self.p_value:.3f}"
        return f"{self.headline}; gain over {self.best_single} {self.gain.value:+.4f} ({low} to {high}), p {p}"


def reach_verdict(held_out: HeldOutDecisions, prices: Floats, names: tuple[str, ...], p_value: float) -> RouteVerdict:
    """The verdict from held-out decisions, and the p-value of the test of linear members (`LinearFolds.p_value`)."""
    n = len(held_out.scores)
    best = int(held_out.scores.mean(axis=0).argmax())
    value = held_out.values(0)[0]
    mean, error = mean_and_error(value - held_out.scores[:, best])
    cost_p = _cost_p_value(held_out, prices)
    headline = f"use {names[best]} for everything"
    if p_value <= ALPHA:
        headline = "route"
    elif cost_p <= ALPHA:
        headline = "route for cost only"
    gain = student_interval(mean, error, n - 1) if n > 1 else Interval(mean, -np.inf, np.inf)
    return RouteVerdict(headline, names[best], gain, p_value, cost_p, _enough(mean, error, n))


def largest_p_value(value: Floats, singles: Floats) -> float:
    """The largest one-sided p-value that values (n,) have no larger mean than each column of singles (n, M).

    Against the single model m the statistic is Student's t of the n differences. Routing pays only if it beats every
    m, so the p-value is the largest, and the level needs no correction.

    >>> largest_p_value(np.array([1.0, 1.0, 0.0]), np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 0.0]]))
    1.0
    """
    n = len(value)
    if n < 3:
        return 1.0
    differences = value[:, None] - singles
    means, errors = differences.mean(axis=0), differences.std(axis=0, ddof=1) / np.sqrt(n)
    same = errors == 0.0
    if (means[same] <= 0.0).any():
        return 1.0
    statistic = np.where(same, np.inf, means / np.where(same, 1.0, errors))
    return float(special.stdtr(n - 1, -statistic.min()))


def _cost_p_value(held_out: HeldOutDecisions, prices: Floats) -> float:
    """The p-value that at one of a few prices the router's value is above that of every single model's."""
    if len(prices) == 1:
        return 1.0
    places = np.unique(np.linspace(1, len(prices) - 1, N_COST_TESTS + 2).round().astype(int)[1:-1])
    found = []
    for place in places:
        price = prices[place]
        scores, costs = held_out.values(int(place))
        found.append(largest_p_value(scores - price * costs, held_out.scores - price * held_out.costs))
    return min(1.0, len(places) * min(found))


def _enough(mean: float, error: float, n: int) -> int | None:
    """The number of queries at which a gain of this size is shown with the chance POWER_AT."""
    if mean <= 0.0 or not isfinite(error):
        return None
    quantiles = float(special.ndtri(1.0 - ALPHA) + special.ndtri(POWER_AT))
    return ceil(n * (quantiles * error / mean) ** 2)
