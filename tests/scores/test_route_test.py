"""The test behind the verdict: what it finds, and how often it is wrong where nothing can be routed."""

import numpy as np
import pytest

from gatewise.scores.prepared_folds import PreparedFolds
from gatewise.scores.queries import QueryReader
from gatewise.scores.route_test import routing_p_values
from tests.scores.designs import folds_of, small_table


@pytest.fixture(scope="module")
def table():
    X, chance, answers, costs = small_table(300)
    _, queries = QueryReader.fit(X, ["question"], "auto", 3, 0)
    return PreparedFolds.prepare(queries, folds_of(300), 0), chance, answers, np.tile(costs, (300, 1))


def test_a_gain_is_found_and_noise_is_none(table):
    prepared, _, answers, costs = table
    assert routing_p_values(prepared, answers, costs, by_query=False).score < 1e-3
    mixed = answers[np.random.default_rng(0).permutation(300)]
    assert routing_p_values(prepared, mixed, costs, by_query=False).score > 0.05
    assert routing_p_values(prepared, answers, np.ones((300, 3)), by_query=False).cost == 1.0


def test_cost_is_saved_where_a_cheap_model_is_as_good(table):
    """The dear model is never worse, and half of the queries need it: no score to gain, but cost."""
    prepared, chance, _, _ = table
    hard = chance[:, 1] > chance[:, 0]
    rng = np.random.default_rng(1)
    able = np.c_[np.full(300, 0.8), np.where(hard, 0.1, 0.8)]
    answers = (rng.random((300, 2)) < able).astype(float)
    found = routing_p_values(prepared, answers, np.tile([5.0, 1.0], (300, 1)), by_query=False)
    assert found.score > 0.05
    assert found.cost < 0.01


def test_the_p_value_for_cost_pays_for_its_five_prices(table, monkeypatch):
    prepared, _, answers, costs = table
    monkeypatch.setattr("gatewise.scores.route_test.largest_p_value", lambda *_: 0.01)
    found = routing_p_values(prepared, answers, costs, by_query=False)
    assert found == (0.01, pytest.approx(0.05))


@pytest.mark.slow
def test_the_level_holds_for_scores_and_costs(table):
    """Of 60 tables with rows permuted against the queries at most 7 are false: 5 % of them give more in one of 50."""
    prepared, _, answers, costs = table
    rng = np.random.default_rng(2)
    found = []
    for _ in range(60):
        order = rng.permutation(300)
        noise = rng.uniform(0.5, 1.5, size=(300, 1))
        found.append(routing_p_values(prepared, answers[order], costs * noise, by_query=True))
    assert sum(p.score <= 0.05 for p in found) <= 7
    assert sum(p.cost <= 0.05 for p in found) <= 7
