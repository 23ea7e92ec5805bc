"""Exponential weights by price, decisions, frontier, verdict."""

import numpy as np
import pytest

from gatewise.scores.cost_frontier import (
    band_factor,
    mean_error,
    measure_frontier,
    price_for_budget,
    price_for_score,
    variance_of_fits,
)
from gatewise.scores.fitted_routes import HeldOutDecisions, weigh
from gatewise.scores.price_weights import held_out_votes, learn_weights, nearest_price, price_grid, RATES, votes
from gatewise.scores.route_test import largest_p_value, RoutePValues
from gatewise.scores.route_verdict import reach_verdict
from tests.scores.designs import folds_of


def test_weights_are_exponential_in_the_sum_of_values():
    rng = np.random.default_rng(0)
    values, folds = rng.normal(size=(60, 4)), folds_of(60)
    found = learn_weights(values, folds)
    slow = np.exp(found.rate * (values.sum(axis=0) - values.sum(axis=0).max()))
    np.testing.assert_allclose(found.weights, slow / slow.sum())
    for rows, weights in zip(folds, found.without_fold, strict=True):
        rest = np.delete(values, rows, axis=0).sum(axis=0)
        slow = np.exp(found.rate * (rest - rest.max()))
        np.testing.assert_allclose(weights, slow / slow.sum())
    picked = rng.integers(0, 2, size=(2, 60))
    gate = held_out_votes(found, picked, folds, 2)
    for rows, weights in zip(folds, found.without_fold, strict=True):
        np.testing.assert_allclose(gate[rows], votes(weights, picked[:, rows], 2))


def test_the_rate_is_the_one_whose_weights_of_other_folds_have_the_largest_value_on_a_fold():
    rng = np.random.default_rng(4)
    values, folds = rng.normal([0.0, 0.05, 0.1], 1.0, size=(80, 3)), folds_of(80)
    unit = np.sqrt(8.0 * np.log(3) / 80) / np.ptp(values)

    def value(rate):
        total = 0.0
        for rows in folds:
            rest = np.delete(values, rows, axis=0).sum(axis=0)
            weights = np.exp(rate * (rest - rest.max()))
            total += values[rows].sum(axis=0) @ weights / weights.sum()
        return total

    assert learn_weights(values, folds).rate == pytest.approx(max(RATES * unit, key=value))


def test_the_rate_is_low_among_equals_and_high_with_a_leader():
    rng = np.random.default_rng(1)
    noise = rng.choice([0.0, 1.0], size=(2000, 5))
    leader = noise.copy()
    leader[:, 0] = rng.random(2000) < 0.8
    folds = folds_of(2000)
    assert learn_weights(leader, folds).weights[0] > 0.99
    assert learn_weights(leader, folds).rate > learn_weights(noise, folds).rate


def test_votes_lie_on_the_simplex():
    rng = np.random.default_rng(0)
    gate = votes(rng.dirichlet(np.ones(7)), rng.integers(0, 3, size=(4, 20)), 3)
    np.testing.assert_allclose(gate.sum(axis=1), 1.0)
    assert (gate >= 0).all()


def test_prices_reach_from_no_price_to_one_that_only_cost_matters_at():
    scores, costs = np.array([[0.2, 0.9]] * 10), np.array([[1.0, 5.0]] * 10)
    prices = price_grid(scores, costs)
    assert prices[0] == 0.0
    assert 0.9 - prices[-1] * 5.0 < 0.2 - prices[-1] * 1.0
    assert [nearest_price(prices, price) for price in prices] == list(range(len(prices)))


@pytest.fixture
def held_out():
    rng = np.random.default_rng(3)
    n = 500
    chance = rng.random((n, 3)) * 0.3 + np.array([0.6, 0.4, 0.2])
    scores, costs = (rng.random((n, 3)) < chance).astype(float), np.tile([9.0, 3.0, 1.0], (n, 1))
    forecasts = (chance - chance.mean(axis=1, keepdims=True))[None]
    weights, decisions = weigh(forecasts, costs, scores, costs, folds_of(n))
    fold = np.empty(n, dtype=np.int64)
    for number, part in enumerate(folds_of(n)):
        fold[part] = number
    spent = np.array([costs[np.arange(n), decided].mean() + 0.3 for decided in decisions])
    return HeldOutDecisions(scores, costs, decisions, chance, fold, spent, (0.0, 1.0)), weights


def test_a_higher_price_costs_less(held_out):
    rows, weights = held_out
    costs = [rows.values(place)[1].mean() for place in range(len(weights.prices))]
    assert costs[0] > costs[-1] == 1.0
    assert np.mean(np.diff(costs) <= 0.05) == 1.0
    place = price_for_budget(rows, 4.0)
    assert costs[place] <= 4.0 < costs[place - 1]
    with pytest.raises(ValueError, match=r"budget=0\.5 is below 1"):
        price_for_budget(rows, 0.5)
    with pytest.raises(ValueError, match="score=2 is above"):
        price_for_score(rows, 2.0)
    place = price_for_score(rows, 0.6)
    assert rows.values(place)[0].mean() >= 0.6


def test_the_frontier_is_what_the_decisions_gave(held_out):
    rows, weights = held_out
    found = measure_frontier(rows, weights.prices, ("a", "b", "c"), n_queries=100)
    score, cost = rows.values(4)
    point = found.points[4]
    assert point.score.value == score.mean()
    half = 1.6448536 * mean_error(score, 100, variance_of_fits(score, rows.fold))
    np.testing.assert_allclose(point.score.high - score.mean(), half, rtol=1e-6)
    np.testing.assert_allclose(point.saving.value, 1 - cost.mean() / rows.costs[:, 0].mean())
    assert point.band.low < point.score.low
    np.testing.assert_allclose(point.cost.high - cost.mean(), 1.6448536 * mean_error(cost, 100, 0.3**2), rtol=1e-6)
    assert found.best_single == "a"


def test_fits_that_differ_widen_the_interval():
    rng = np.random.default_rng(0)
    fold = np.repeat(np.arange(5), 200)
    values = rng.normal(size=1000)
    assert mean_error(values, 1000) == pytest.approx(values.std(ddof=1) * np.sqrt(2 / 1000), rel=1e-9)
    assert variance_of_fits(values, fold) == 0.0
    shift = np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
    assert variance_of_fits(values + shift[fold], fold) == pytest.approx(shift.var(ddof=1), rel=0.2)
    assert mean_error(values, None, 0.04) == pytest.approx(0.2, rel=0.02)


def test_a_band_holds_all_means_at_once():
    """Ten independent columns of normal values: the band needs the quantile of the largest of ten."""
    values = np.random.default_rng(0).normal(size=(3000, 10))
    assert abs(band_factor(values, 0.9) - 2.56) < 0.15


def test_the_verdict_needs_a_gain_over_every_single_model():
    rng = np.random.default_rng(0)
    scores = rng.choice([0.0, 1.0], size=(400, 3))
    assert largest_p_value(scores.max(axis=1), scores) < 1e-6
    assert largest_p_value(scores[:, 0], scores) == 1.0  # no better than the first: it is the first
    p = [largest_p_value(scores.max(axis=1), scores[:, [m]]) for m in range(3)]
    np.testing.assert_allclose(largest_p_value(scores.max(axis=1), scores), max(p))


def test_headlines(held_out):
    rows, _ = held_out
    names = ("a", "b", "c")
    assert reach_verdict(rows, names, RoutePValues(0.01, 1.0)).headline == "route"
    assert reach_verdict(rows, names, RoutePValues(0.2, 0.01)).headline == "route for cost only"
    found = reach_verdict(rows, names, RoutePValues(0.5, 0.5))
    assert found.headline == "use a for everything"
    assert not found.routes
    assert "gain over a" in str(found)
