"""Costs of the models: the same for every query, or forecast from its features."""

from dataclasses import dataclass

import numpy as np

from gatewise.arrays import Floats
from gatewise.scores.prepared_folds import PreparedFolds
from gatewise.scores.queries import Queries
from gatewise.scores.ridge_members import fit_ridge, LinearMember, spectrum


@dataclass(frozen=True, eq=False)
class CostModel:
    """What M models cost: their mean costs (M,), and where costs differ by query a forecast of cost / mean cost.

    The forecast is a ridge regression on the features of the query.
    """

    mean: Floats
    member: LinearMember | None

    def forecast(self, queries: Queries) -> Floats:
        """Costs (n, M), never negative; (1, M) where they are the same for every query."""
        if self.member is None:
            return self.mean[None]
        return np.maximum(self.mean * self.member.forecast(queries), 0.0)


def fit_costs(queries: Queries, costs: Floats, by_query: bool) -> CostModel:
    """Mean costs, and a ridge regression of relative costs if they differ by query."""
    mean = costs.mean(axis=0)
    if not by_query or not queries.full.shape[1]:
        return CostModel(mean, None)
    return CostModel(mean, LinearMember("full", None, fit_ridge(spectrum(queries.full), costs / _unit(mean))))


def held_out_costs(prepared: PreparedFolds, costs: Floats, by_query: bool) -> Floats:
    """Cost forecasts (n, M) of every row by fits to the other folds; (1, M) if they do not differ by query."""
    unit = _unit(costs.mean(axis=0))
    if not by_query:
        return costs[:1]
    return np.maximum(unit * prepared.linear(costs / unit), 0.0)


def _unit(mean: Floats) -> Floats:
    return np.where(mean > 0.0, mean, 1.0)
