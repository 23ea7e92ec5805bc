"""Forecasts that cannot be meant are set aside, and nothing else is."""

import numpy as np
import pytest

from gatewise.router.fitted_router import ForecastGuard


@pytest.fixture
def known():
    rng = np.random.default_rng(0)
    y = rng.normal(size=200)
    return y[:, None] + 0.5 * rng.normal(size=(200, 3)), y


def test_forecasts_like_the_held_out_ones_pass(known):
    F, y = known
    guard = ForecastGuard.fit(F, y)
    found, aside = guard.apply(F)
    assert not aside.any()
    np.testing.assert_array_equal(found, F)


@pytest.mark.parametrize("wild", [1e6, -1e6, 30.0, np.inf])
def test_a_wild_forecast_becomes_the_median_of_the_others(known, wild):
    F, y = known
    guard = ForecastGuard.fit(F, y)
    fresh = F[:5].copy()
    fresh[2, 1] = wild
    found, aside = guard.apply(fresh)
    assert aside.sum() == 1
    assert aside[2, 1]
    assert found[2, 1] == pytest.approx(np.median(fresh[2, [0, 2]]))


def test_of_two_experts_the_one_outside_of_its_own_range_is_set_aside(known):
    F, y = known
    guard = ForecastGuard.fit(F[:, :2], y)
    found, aside = guard.apply(np.array([[0.3, 1e6]]))
    assert aside.tolist() == [[False, True]]
    np.testing.assert_array_equal(found, [[0.3, 0.3]])


def test_an_expert_that_always_diverges_follows_the_others(known):
    F, y = known
    wild = np.column_stack([F, 1e10 * np.sign(y)])
    guard = ForecastGuard.fit(wild, y)
    found, aside = guard.apply(wild)
    assert aside[:, 3].all()
    assert not aside[:, :3].any()
    np.testing.assert_allclose(found[:, 3], np.median(F, axis=1))


def test_experts_that_leave_the_range_together_are_trusted(known):
    F, y = known
    guard = ForecastGuard.fit(F, y)
    found, aside = guard.apply(F[:3] + 1000.0)
    assert not aside.any() or np.isfinite(found).all()


def test_units_and_order_do_not_matter(known):
    F, y = known
    wild = F.copy()
    wild[7, 0] = 500.0
    plain, _ = ForecastGuard.fit(F, y).apply(wild)
    moved, _ = ForecastGuard.fit(3.0 * F[:, ::-1] + 5.0, 3.0 * y + 5.0).apply(3.0 * wild[:, ::-1] + 5.0)
    np.testing.assert_allclose((moved[:, ::-1] - 5.0) / 3.0, plain)
