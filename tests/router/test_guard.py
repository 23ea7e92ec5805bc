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
    assert guard.voters.tolist() == [0, 1, 2]


def test_experts_that_leave_the_range_together_are_trusted(known):
    F, y = known
    guard = ForecastGuard.fit(F, y)
    found, aside = guard.apply(F[:3] + 30.0)
    assert not aside.any()
    np.testing.assert_array_equal(found, F[:3] + 30.0)
    far, aside = guard.apply(F[:3] + 1000.0)  # a wrong input may lead all experts there
    assert aside.all()
    assert ((guard.low <= far) & (far <= guard.high)).all()


def test_a_stale_expert_does_not_outvote_two_that_agree(known):
    F, y = known
    guard = ForecastGuard.fit(F, y)
    row = np.array([[30.0, 30.3, 0.0]])
    assert not guard.apply(row)[1].any()
    copies = ForecastGuard.fit(F, y, np.array([0, 2]))  # the second expert makes the forecasts of the first
    assert copies.apply(row)[1].tolist() == [[True, False, False]]


def _plainly_aside(guard, row, m):
    """The rule for one forecast, word for word."""
    if guard.low[m] <= row[m] <= guard.high[m]:
        return False
    room = 10.0 * guard.width
    seen = [k for k in guard.voters if k != m and guard.low[k] - room[k] <= row[k] <= guard.high[k] + room[k]]
    if not guard.low[m] - room[m] <= row[m] <= guard.high[m] + room[m] or not seen:
        return True
    others = sorted(row[k] for k in seen)
    middle = others[(len(others) - 1) // 2], others[len(others) // 2]
    return min(abs(row[m] - one) for one in middle) > guard.far[m]


@pytest.mark.parametrize("n_experts", [1, 2, 3, 4, 5])
def test_the_rule_word_for_word(n_experts):
    rng = np.random.default_rng(n_experts)
    y = rng.normal(size=80)
    guard = ForecastGuard.fit(y[:, None] + 0.5 * rng.normal(size=(80, n_experts)), y)
    common = rng.choice([0.0, 25.0, 1e3], size=(200, 1)) * (rng.uniform(size=(200, n_experts)) < 0.6)
    F = common + rng.normal(size=(200, n_experts)) + np.where(rng.uniform(size=(200, n_experts)) < 0.1, np.inf, 0.0)
    found, aside = guard.apply(F)
    assert aside.tolist() == [[_plainly_aside(guard, row, m) for m in range(n_experts)] for row in F]
    np.testing.assert_array_equal(found[~aside], F[~aside])
    for i, m in np.argwhere(aside):
        others = [F[i, k] for k in range(n_experts) if k != m and not aside[i, k]]
        assert found[i, m] == (np.median(others) if others else np.clip(F[i, m], guard.low[m], guard.high[m]))


def test_ranges_follow_responses_that_drift(known):
    F, y = known
    guard = ForecastGuard.fit(F, y)
    drift = np.linspace(0.0, 200.0, 200)
    rows, responses, weight = F + drift[:, None], y + drift, np.ones(200)
    rows[:, 2] = F[:, 2]  # it stays where it was
    rows[50, 0] = responses[60] = 1e6  # a wild forecast, and a wild response
    found, after = guard.continued(rows, responses, weight)
    expected = rows.copy()
    expected[50, 0] = np.median(rows[50, 1:])
    np.testing.assert_allclose(found, expected)
    assert (after.high[:2] > 180.0).all()
    assert after.high[2] == guard.high[2]
    assert (after.high < 1e3).all()
    np.testing.assert_array_equal(after.low, guard.low)
    one_by_one, now = [], guard
    for i in range(200):
        kept, now = now.continued(rows[i : i + 1], responses[i : i + 1], weight[i : i + 1])
        one_by_one.append(kept[0])
    np.testing.assert_array_equal(one_by_one, found)
    np.testing.assert_array_equal(now.high, after.high)
    assert (guard.continued(rows, responses, 0.0 * weight)[1].high == guard.high).all()


def test_a_row_is_judged_by_what_was_known_before_it(known):
    F, y = known
    rows = F[:4].copy()
    rows[1:, 0] += 40.0  # the first expert alone follows the responses
    found, _ = ForecastGuard.fit(F, y).continued(rows, np.append(y[0], y[1:4] + 40.0), np.ones(4))
    expected = rows.copy()
    expected[1, 0] = rows[1, 1:].mean()
    np.testing.assert_allclose(found, expected)


def test_units_and_order_do_not_matter(known):
    F, y = known
    wild = F.copy()
    wild[7, 0] = 500.0
    plain, _ = ForecastGuard.fit(F, y).apply(wild)
    moved, _ = ForecastGuard.fit(3.0 * F[:, ::-1] + 5.0, 3.0 * y + 5.0).apply(3.0 * wild[:, ::-1] + 5.0)
    np.testing.assert_allclose((moved[:, ::-1] - 5.0) / 3.0, plain)
