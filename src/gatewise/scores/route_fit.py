"""From queries and a table of scores to everything that a fitted `ScoreRouter` keeps."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gatewise.arrays import Indices
from gatewise.progress import RUNNING
from gatewise.scores.expected_scores import calibrate
from gatewise.scores.fitted_routes import fit_routes, FittedRoutes
from gatewise.scores.prepared_folds import PreparedFolds
from gatewise.scores.queries import Queries, QueryReader
from gatewise.scores.routability import measure_routability, Routability
from gatewise.scores.route_regions import category_rows, CategoryRow, route_regions, RouteRegionTable
from gatewise.scores.route_test import routing_p_values
from gatewise.scores.route_verdict import reach_verdict, RouteVerdict
from gatewise.scores.score_list import held_out_forecasts, quick_plans, tree_plans
from gatewise.scores.tried_scores import ScoreTable


class LearnedRoutes(NamedTuple):
    """The fitted routes, and what was found about them on held-out queries.

    ``routability`` is None where not every model was tried on every query; ``calibration`` is the factor of
    `expected_scores.calibrate`.
    """

    routes: FittedRoutes
    verdict: RouteVerdict
    routability: Routability | None
    calibration: float
    regions: RouteRegionTable
    categories: tuple[CategoryRow, ...]


def learn_router(
    reader: QueryReader,
    queries: Queries,
    table: ScoreTable,
    folds: Sequence[Indices],
    seed: int,
    n_jobs: int | None,
) -> LearnedRoutes:
    """Fit all members, weigh them, test whether routing pays, and describe where each model is decided on."""
    now = RUNNING.get()
    if now is not None:
        now.stage("quick members")
    prepared = PreparedFolds.prepare(queries, folds, seed, n_jobs)
    first = prepared.forecasts(table.scores, n_jobs)
    if now is not None:
        now.stage("trees")
    trees = tree_plans(seed)
    forecasts = np.concatenate([first, held_out_forecasts(trees, queries, table.scores, folds, n_jobs)])
    plans = quick_plans(queries, reader.category_names, seed) + trees
    if now is not None:
        now.stage("weights and fits to all queries")
    routes = fit_routes(plans, forecasts, prepared, table, n_jobs)
    if now is not None:
        now.stage("verdict and regions")
    held_out = routes.held_out
    p_values = routing_p_values(prepared, table.scores, table.costs, table.by_query, first)
    return LearnedRoutes(
        routes,
        reach_verdict(held_out, table.names, p_values),
        measure_routability(table.scores, float(held_out.values(0)[0].mean()), table.repeats)
        if table.complete
        else None,
        calibrate(routes, queries),
        route_regions(
            table.names, held_out.decisions[0], table.scores, reader.in_units(queries), reader.feature_names
        ),
        _by_category(reader, queries, routes),
    )


def _by_category(reader: QueryReader, queries: Queries, routes: FittedRoutes) -> tuple[CategoryRow, ...]:
    rows: list[CategoryRow] = []
    for j, (column, levels) in enumerate(zip(reader.category_names, reader.levels, strict=True)):
        decisions, scores = routes.held_out.decisions[0], routes.held_out.scores
        rows += category_rows(routes.names, column, levels, queries.codes[:, j], decisions, scores)
    return tuple(rows)
