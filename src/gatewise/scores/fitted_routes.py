"""The fit as a whole: forecasts of scores and costs on held-out rows, weights by price, held-out decisions."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np

from gatewise.arrays import Floats, Indices, Integers
from gatewise.scores.price_weights import (
    candidate_values,
    choices,
    FoldWeights,
    learn_weights,
    price_grid,
    PriceWeights,
    votes,
)
from gatewise.scores.queries import Queries
from gatewise.scores.ridge_members import fit_linear, LinearMember
from gatewise.scores.score_list import (
    fit_members,
    FittedScores,
    MemberPlan,
    stack_weights,
    with_blends,
)
from gatewise.scores.tried_scores import ScoreTable


class HeldOutDecisions(NamedTuple):
    """Held-out rows: scores and costs (n, M), and for each of P prices the model that is decided on, (P, n).

    Every decision is by members and weights that were learned without the row's fold. ``expected`` (n, M) are the
    forecast scores, ``fold`` (n,) the number of the fold.
    """

    scores: Floats
    costs: Floats
    decisions: Integers
    expected: Floats
    fold: Integers

    def values(self, place: int) -> tuple[Floats, Floats]:
        """The scores and the costs (n,) of the decisions at a price of the grid."""
        rows = np.arange(len(self.scores))
        chosen = self.decisions[place]
        return self.scores[rows, chosen], self.costs[rows, chosen]


@dataclass(frozen=True, eq=False)
class CostModel:
    """Costs of M models: the same for every query, or forecast from its features relative to the mean cost."""

    mean: Floats  # (M,)
    member: LinearMember | None

    def forecast(self, queries: Queries) -> Floats:
        """Costs (n, M), never negative."""
        if self.member is None:
            return np.array(np.broadcast_to(self.mean, (len(queries), len(self.mean))))
        return np.maximum(self.mean * self.member.forecast(queries), 0.0)


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


def fit_costs(queries: Queries, costs: Floats, by_query: bool) -> CostModel:
    """Mean costs, and a ridge regression of relative costs if they differ by query."""
    mean = costs.mean(axis=0)
    if not by_query or not queries.full.shape[1]:
        return CostModel(mean, None)
    relative = costs / np.where(mean > 0.0, mean, 1.0)
    return CostModel(mean, fit_linear(queries, relative, "full"))


def fit_level(queries: Queries, table: ScoreTable) -> LinearMember | None:
    """A ridge regression of the mean score over all models: the difficulty of a query."""
    if not queries.full.shape[1]:
        return None
    return fit_linear(queries, table.scores.mean(axis=1, keepdims=True), "full")


def fit_routes(
    plans: Sequence[MemberPlan],
    forecasts: Floats,
    queries: Queries,
    table: ScoreTable,
    folds: Sequence[Indices],
    seed: int,
    n_jobs: int | None,
) -> FittedRoutes:
    """Fit the list to queries and a table of scores; ``folds`` are the rows that were held out in turn.

    ``forecasts`` (J, n, M) are the held-out forecasts of the members, in the order of the plans.
    """
    centred = table.centred
    stack = stack_weights(forecasts, centred, seed)
    forecasts = with_blends(forecasts, stack)
    cost_forecasts, level = _held_out_costs_and_level(queries, table, folds)
    weights, decisions = weigh(forecasts, cost_forecasts, table.scores, table.costs, folds)
    fold = np.empty(len(queries), dtype=np.int64)
    for number, rows in enumerate(folds):
        fold[rows] = number
    members = FittedScores(tuple(plan.name for plan in plans), fit_members(plans, queries, centred, n_jobs), stack)
    return FittedRoutes(
        table.names,
        members,
        fit_level(queries, table),
        float(table.scores.mean()),
        fit_costs(queries, table.costs, table.by_query),
        weights,
        HeldOutDecisions(table.scores, table.costs, decisions, forecasts[-1] + level, fold),
    )


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
        for rows, weights in zip(folds, learned.without_fold, strict=True):
            decisions[place, rows] = votes(weights, picked[:, rows], scores.shape[1]).argmax(axis=1)
        found.append(learned)
    weights = np.stack([one.weights for one in found])
    return PriceWeights(prices, weights, np.array([one.rate for one in found])), decisions


def _held_out_costs_and_level(queries: Queries, table: ScoreTable, folds: Sequence[Indices]) -> tuple[Floats, Floats]:
    """Cost forecasts (n, M) and levels (n, 1) of every row by fits to the other folds."""
    costs, level = np.empty_like(table.costs), np.empty((len(queries), 1))
    for held_out in folds:
        rest = np.setdiff1d(np.arange(len(queries)), held_out)
        costs[held_out] = fit_costs(queries[rest], table.costs[rest], table.by_query).forecast(queries[held_out])
        fit = fit_level(queries[rest], table[rest])
        level[held_out] = table.scores[rest].mean() if fit is None else fit.forecast(queries[held_out])
    return costs, level
