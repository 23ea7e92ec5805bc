"""Active sets of a size that depends on the input."""

import numpy as np
import pytest

from gatewise.gates.active_sets import (
    AccumulatedWeight,
    by_count,
    CountByRegion,
    FixedCount,
    restricted,
    WithinMargin,
)

rng = np.random.default_rng(0)
WEIGHTS = rng.dirichlet(np.ones(4) * 0.5, size=60)
RULES = [FixedCount(2), AccumulatedWeight(0.8), WithinMargin(1.0)]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_the_active_set_is_the_largest_weights_and_the_rest_sums_to_one(rule):
    active = rule.active(WEIGHTS, None)
    assert active[np.arange(60), WEIGHTS.argmax(axis=1)].all()
    smallest_in = np.where(active, WEIGHTS, np.inf).min(axis=1)
    largest_out = np.where(active, -np.inf, WEIGHTS).max(axis=1)
    assert (smallest_in >= largest_out).all()
    g = restricted(WEIGHTS, active)
    np.testing.assert_allclose(g.sum(axis=1), 1.0)
    assert (g[~active] == 0.0).all()


def test_accumulated_weight_takes_no_expert_too_many():
    active = AccumulatedWeight(0.8).active(WEIGHTS, None)
    mass = np.where(active, WEIGHTS, 0.0)
    assert (mass.sum(axis=1) >= 0.8 - 1e-9).all()
    assert (mass.sum(axis=1) - np.where(active, WEIGHTS, np.inf).min(axis=1) < 0.8).all()
    exact = AccumulatedWeight(0.5).active(np.array([[0.5, 0.25, 0.25], [0.25, 0.25, 0.5]]), None)
    assert exact.sum(axis=1).tolist() == [1, 1]


def test_margin_against_the_definition():
    active = WithinMargin(1.0).active(WEIGHTS, None)
    np.testing.assert_array_equal(active, np.log(WEIGHTS.max(axis=1, keepdims=True) / WEIGHTS) <= 1.0)


def test_counts_by_region_and_weights_that_are_zero():
    class Halves:
        def apply(self, X):
            return (X[:, 0] > 0).astype(int)

    X = rng.normal(size=(60, 2))
    active = CountByRegion(Halves(), np.array([1, 3])).active(WEIGHTS, X)
    np.testing.assert_array_equal(active.sum(axis=1), np.where(X[:, 0] > 0, 3, 1))
    np.testing.assert_allclose(restricted(np.array([[0.0, 0.0]]), np.array([[True, True]])), 0.5)
    assert by_count(np.array([[0.5, 0.5]]), np.array([1])).tolist() == [[True, False]]
