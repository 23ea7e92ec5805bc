"""Does routing pay? A tested headline from held-out decisions, and how many queries it would take to tell."""

from dataclasses import dataclass
from math import ceil, isfinite

import numpy as np
from scipy import special

from gatewise.scores.fitted_routes import HeldOutDecisions
from gatewise.scores.route_test import RoutePValues
from gatewise.stats import Interval, mean_and_error, student_interval

ALPHA = 0.05
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
        all of them. The test is made with all members but the trees, which hundreds of simulated tables can be fitted
        with.
    cost_p_value
        The same for score less price times cost: the smallest of five prices times their number; 1 without costs.
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

    def queries_needed(self, n: int) -> str:
        """How many queries it takes to show a gain of the size found, in words, beside the n there are."""
        if self.enough_queries is None:
            return "No gain was found that more queries could show."
        if self.enough_queries <= n:
            return f"About {self.enough_queries:,} queries show a gain of this size with a chance of 80 %."
        more = f"{self.enough_queries:,}, {self.enough_queries - n:,} more than there are"
        return f"To show a gain of this size with a chance of 80 % takes about {more}."

    def __str__(self) -> str:
        low, high = (f"{end:+.4f}" for end in (self.gain.low, self.gain.high))
        p = _p_words(self.p_value)
        words = f"{self.headline}; gain over {self.best_single} {self.gain.value:+.4f} ({low} to {high}), p {p}"
        return f"{words}; for cost p {_p_words(self.cost_p_value)}" if self.cost_p_value < 1.0 else words


def _p_words(p_value: float) -> str:
    return "< 0.001" if p_value < 0.001 else f"= {p_value:.3f}"


def reach_verdict(held_out: HeldOutDecisions, names: tuple[str, ...], p_values: RoutePValues) -> RouteVerdict:
    """The verdict from held-out decisions, and the p-values of the test (`route_test`)."""
    n = len(held_out.scores)
    best = int(held_out.scores.mean(axis=0).argmax())
    value = held_out.values(0)[0]
    mean, error = mean_and_error(value - held_out.scores[:, best])
    headline = f"use {names[best]} for everything"
    if p_values.score <= ALPHA:
        headline = "route"
    elif p_values.cost <= ALPHA:
        headline = "route for cost only"
    gain = student_interval(mean, error, n - 1) if n > 1 else Interval(mean, -np.inf, np.inf)
    return RouteVerdict(headline, names[best], gain, p_values.score, p_values.cost, _enough(mean, error, n))


def _enough(mean: float, error: float, n: int) -> int | None:
    """The number of queries at which a gain of this size is shown with the chance POWER_AT."""
    if mean <= 0.0 or not isfinite(error):
        return None
    quantiles = float(special.ndtri(1.0 - ALPHA) + special.ndtri(POWER_AT))
    return ceil(n * (quantiles * error / mean) ** 2)
