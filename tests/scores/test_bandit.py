"""Bandit feedback: exploration and importance weights."""

import numpy as np

from gatewise.scores.bandit import (
    begin,
    break_ties,
    draw_models,
    estimated_values,
    exploration_chances,
    update_weights,
)


def test_chances_lie_on_the_simplex_and_explore_near_the_border():
    gate = np.random.default_rng(0).dirichlet(np.ones(4), size=200)
    gate[:100] = np.array([0.97, 0.02, 0.01, 0.0])
    near, uniform = exploration_chances(gate, 0.1), exploration_chances(gate, 0.1, near_border=False)
    for chances in (near, uniform):
        np.testing.assert_allclose(chances.sum(axis=1), 1.0)
        assert (chances >= 0).all()
    away = 1.0 - near[np.arange(200), gate.argmax(axis=1)]
    assert away[100:].mean() > 3 * away[:100].mean()
    assert (away > 0).all()
    assert near[0, 3] == 0.0
    np.testing.assert_allclose(away.mean(), 0.1)
    alone = exploration_chances(break_ties(np.tile([1.0, 0.0, 0.0], (5, 1)), np.tile([0.5, 0.1, 0.3], (5, 1))), 0.1)
    np.testing.assert_allclose(alone, np.tile([0.9, 0.0, 0.1], (5, 1)), atol=1e-6)


def test_estimated_values_are_unbiased():
    rng = np.random.default_rng(1)
    scores, forecasts, chances = np.array([0.2, 0.9, 0.4]), np.array([[0.5, 0.5, 0.5]]), np.array([[0.7, 0.2, 0.1]])
    n = 40_000
    models = draw_models(np.tile(chances, (n, 1)), rng)
    np.testing.assert_allclose(np.bincount(models) / n, chances[0], atol=0.01)
    values = estimated_values(np.tile(forecasts, (n, 1)), models, scores[models], chances[0, models])
    np.testing.assert_allclose(values.mean(axis=0), scores, atol=0.03)


def test_the_better_candidate_takes_the_weight():
    state = begin(np.array([0.5, 0.5]), 0)
    for _ in range(50):
        state = update_weights(state, np.tile([0.0, 1.0], (20, 1)))
    assert np.exp(state.log_weights[1]) > 0.99
    assert state.n_seen == 1000


def test_one_estimate_moves_a_weight_by_a_factor_of_e_at_most():
    values = np.zeros((1, 50))
    values[0, 0] = 1000.0
    state = update_weights(begin(np.full(50, 0.02), 0), values)
    assert (
        0.5 < state.log_weights[0] - state.log_weights[1] < 1.0 + 0.05
    )  # the deviation from the mean, not from zero


def test_no_estimate_leaves_the_state():
    state = update_weights(begin(np.array([0.5, 0.5]), 10), np.array([[1.0, 0.0]]))
    again = update_weights(state, np.empty((0, 2)))
    np.testing.assert_array_equal(again.sums, state.sums)
    assert again[2:] == state[2:]


def test_one_huge_estimate_does_not_decide():
    state = update_weights(begin(np.array([0.5, 0.5]), 0), np.array([[1000.0, 0.0]]))
    assert 0.5 < np.exp(state.log_weights[0]) < 0.95
    for _ in range(3000):
        state = update_weights(state, np.array([[0.0, 1.0]]))
    assert np.exp(state.log_weights[1]) > 0.5
