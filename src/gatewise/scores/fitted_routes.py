"""The fit as a whole: forecasts of scores and costs on held-out rows, weights by price, held-out decisions."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from gatewise.arrays import Floats, Indices, Integers
from gatewise.scores.cost_model import CostModel, fit_costs, held_out_costs
from gatewise.scores.prepared_folds import PreparedFolds
from gatewise.scores.price_weights import (
    candidate_values,
    choices,
    FoldWeights,
    held_out_votes,
    learn_weights,
    price_grid,
    PriceWeights,
    votes,
)
from gatewise.scores.queries import Queries
from gatewise.scores.ridge_members import fit_ridge, LinearMember, spectrum
from gatewise.scores.score_list import (
    fit_members,
    FittedScores,
    MemberPlan,
    stack_weights,
    with_blends,
)
from gatewise.scores.tried_scores import ScoreTable


@dataclass(frozen=True, eq=False)
class HeldOutDecisions:
    """Held-out rows: scores and costs (n, M), and for each of P prices the model that is decided on, (P, n).

    Every decision is by members and weights that were learned without the row's fold. ``expected`` (n, M) are the
    forecast scores, ``fold`` (n,) the number of the fold. ``cost_of_fit`` (P,) are the mean costs of what the fit to
    all rows decides on the same rows. ``observed`` are the least and the largest score that was given; where not
    every model was tried the scores are pseudo-scores, and may lie beyond.
    """

    scores: Floats
    costs: Floats
    decisions: Integers
    expected: Floats
    fold: Integers
    cost_of_fit: Floats
    observed: tuple[float, float]

    def values(self, place: int) -> tuple[Floats, Floats]:
        """The scores and the costs (n,) of the decisions at a price of the grid."""
        rows = np.arange(len(self.scores))
        chosen = self.decisions[place]
        return self.scores[rows, chosen], self.costs[rows, chosen]

    @cached_property
    def means(self) -> tuple[Floats, Floats]:
        """The mean scores and the mean costs (P,) of the decisions at every price."""
        found = [self.values(place) for place in range(len(self.decisions))]
        return np.array([score.mean() for score, _ in found]), np.array([cost.mean() for _, cost in found])


@dataclass(frozen=True, eq=False)
class FittedRoutes:
    """A fitted router: score models, the level of scores that all models share, costs, weights, held-out rows."""

    names: tuple[str, ...]
    scores: FittedScores
    level: LinearMember | None
    mean_level: float
    costs: CostModel
    weights: PriceWeights
    held_out: HeldOutDecisions

    @property
    def candidates(self) -> tuple[str, ...]:
        """All candidates in words, (M + J + 2,)."""
        return (*self.names, *self.scores.names, "mean of all", "stack of all")

    def gate_weights(self, queries: Queries, price: float) -> Floats:
        """The weight of every model, (n, M): that of the candidates which pick it."""
        picked = choices(self.scores.forecasts(queries), self.costs.forecast(queries), price)
        return votes(self.weights.at(price), picked, len(self.names))

    def reweighed(self, weights: Floats) -> Self:
        """The router with other weights (S,) at price 0."""
        found = self.weights.weights.copy()
        found[0] = weights
        return replace(self, weights=self.weights._replace(weights=found))

    def expected_scores(self, queries: Queries) -> Floats:
        """Forecast scores (n, M): the stack's, beside the level that all models share."""
        level = self.mean_level if self.level is None else self.level.forecast(queries)
        return np.asarray(self.scores.forecasts(queries)[-1] + level)


def fit_level(queries: Queries, scores: Floats) -> LinearMember | None:
    """A ridge regression of the mean score over all models: the difficulty of a query."""
    if not queries.full.shape[1]:
        return None
    return LinearMember("full", None, fit_ridge(spectrum(queries.full), scores.mean(axis=1, keepdims=True)))


def fit_routes(
    plans: Sequence[MemberPlan], forecasts: Floats, prepared: PreparedFolds, table: ScoreTable, n_jobs: int | None
) -> FittedRoutes:
    """Fit the list to a table of scores; ``prepared`` has the queries and the rows that were held out in turn.

    ``forecasts`` (J, n, M) are the held-out forecasts of the members, in the order of the plans.
    """
    queries, folds, scores = prepared.queries, prepared.held_out, table.scores
    stack = stack_weights(forecasts, scores)
    forecasts = with_blends(forecasts, stack)
    level = prepared.linear(scores.mean(axis=1, keepdims=True))
    cost_forecasts = held_out_costs(prepared, table.costs, table.by_query)
    weights, decisions = weigh(forecasts, cost_forecasts, scores, table.costs, folds)
    fold = np.empty(len(queries), dtype=np.int64)
    for number, rows in enumerate(folds):
        fold[rows] = number
    members = FittedScores(tuple(plan.name for plan in plans), fit_members(plans, queries, scores, n_jobs), stack)
    costs = fit_costs(queries, table.costs, table.by_query)
    spent = _costs_of_fit(members.forecasts(queries), costs.forecast(queries), weights, table.costs)
    held_out = HeldOutDecisions(scores, table.costs, decisions, forecasts[-1] + level, fold, spent, table.observed)
    return FittedRoutes(
        table.names, members, fit_level(queries, scores), float(scores.mean()), costs, weights, held_out
    )


def _costs_of_fit(forecasts: Floats, cost_forecasts: Floats, weights: PriceWeights, costs: Floats) -> Floats:
    """The mean costs (P,) of the decisions at every price on the rows of the fit, with costs (n, M)."""
    rows, found = np.arange(len(costs)), []
    for price, own in zip(weights.prices, weights.weights, strict=True):
        picked = choices(forecasts, cost_forecasts, float(price))
        found.append(costs[rows, votes(own, picked, costs.shape[1]).argmax(axis=1)].mean())
    return np.array(found)


def weigh(
    forecasts: Floats, cost_forecasts: Floats, scores: Floats, costs: Floats, folds: Sequence[Indices]
) -> tuple[PriceWeights, Integers]:
    """Weights of all candidates at every price, and the held-out decisions (P, n)."""
    prices = price_grid(scores, costs)
    found: list[FoldWeights] = []
    decisions = np.empty((len(prices), len(scores)), dtype=np.int64)
    for place, price in enumerate(prices):
        picked = choices(forecasts, cost_forecasts, float(price))
        learned = learn_weights(candidate_values(picked, scores - price * costs), folds)
        decisions[place] = held_out_votes(learned, picked, folds, scores.shape[1]).argmax(axis=1)
        found.append(learned)
    weights = np.stack([one.weights for one in found])
    return PriceWeights(prices, weights, np.array([one.rate for one in found])), decisions
