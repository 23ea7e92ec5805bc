"""Forecast scores of queries with intervals for the mean score of queries like them."""

from typing import NamedTuple

import numpy as np

from gatewise.arrays import Floats
from gatewise.scores.cost_frontier import z_value
from gatewise.scores.fitted_routes import FittedRoutes
from gatewise.scores.queries import Queries
from gatewise.scores.ridge_members import LinearMember

LEVEL = 0.9
N_GROUPS = 20  # of rows with neighbouring forecasts, by which the intervals are calibrated


class ExpectedScores(NamedTuple):
    """Forecasts (n, M) and the ends of their intervals (n, M)."""

    value: Floats
    low: Floats
    high: Floats


def calibrate(routes: FittedRoutes, queries: Queries) -> float:
    """The factor of the posterior variances with which they explain the errors of held-out forecasts, at least one.

    Rows are grouped by their forecast for each model. In a group of n_g rows the squared mean error has the mean
    factor * (mean variance) + s_g^2 / n_g; the factor is the ratio of sums over all groups and models.
    """
    held_out = routes.held_out
    error = held_out.scores - held_out.expected
    variance = _variance(routes, queries)
    excess, expected = 0.0, 0.0
    for m in range(error.shape[1]):
        groups = np.array_split(np.argsort(held_out.expected[:, m], kind="stable"), min(N_GROUPS, len(error) // 10))
        for rows in groups:
            own = error[rows, m]
            excess += float(own.mean() ** 2 - own.var(ddof=1) / len(rows))
            expected += float(variance[rows, m].mean())
    return max(1.0, excess / expected) if expected > 0.0 else 1.0


def score_intervals(routes: FittedRoutes, queries: Queries, factor: float) -> ExpectedScores:
    """Forecasts with intervals +- z sqrt(factor times posterior variance), within the range of the scores given."""
    value = routes.expected_scores(queries)
    half = z_value(LEVEL) * np.sqrt(factor * _variance(routes, queries))
    return ExpectedScores(*(np.clip(end, *routes.held_out.observed) for end in (value, value - half, value + half)))


def _variance(routes: FittedRoutes, queries: Queries) -> Floats:
    """Posterior variances (n, M): the mean over the linear members, and that of the level."""
    linear = [member.variance(queries) for member in routes.scores.members if isinstance(member, LinearMember)]
    own = np.mean(linear, axis=0) if linear else np.zeros((len(queries), len(routes.names)))
    level = 0.0 if routes.level is None else routes.level.variance(queries)
    return np.asarray(own + level)
