"""Standard errors, quantiles and intervals: what weights mean, and how often an interval holds the truth."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from gatewise.stats import (
    adjusted_p_values,
    mean_and_error,
    mean_interval,
    share_bounds,
    student_interval,
    upper_mean_bound,
    weighted_quantile,
)

VALUES = np.random.default_rng(0).normal(3.0, 2.0, size=40)


def test_equal_weights_are_no_weights():
    plain = mean_and_error(VALUES)
    assert plain == pytest.approx((VALUES.mean(), VALUES.std(ddof=1) / np.sqrt(40)))
    assert mean_and_error(VALUES, np.full(40, 7.0)) == pytest.approx(plain)


def test_rows_without_weight_are_not_there():
    weights = np.repeat([1.0, 0.0], 20)
    assert mean_and_error(VALUES, weights) == pytest.approx(mean_and_error(VALUES[:20]))


def test_the_error_of_a_weighted_mean_is_its_standard_deviation():
    rng = np.random.default_rng(1)
    weights = rng.uniform(0.1, 3.0, size=60)
    found = np.array([mean_and_error(rng.normal(size=60), weights) for _ in range(4000)])
    assert np.sqrt((found[:, 1] ** 2).mean()) == pytest.approx(found[:, 0].std(), rel=0.05)


@pytest.mark.parametrize("weights", [None, np.array([2.0])])
def test_one_value_says_nothing_about_the_error(weights):
    assert mean_and_error(np.array([4.0]), weights) == (4.0, np.inf)
    assert mean_interval(np.array([4.0])) == (4.0, -np.inf, np.inf)


@pytest.mark.parametrize("level", [0.01, 0.3, 0.5, 0.9, 1.0])
def test_whole_weights_are_repeated_values(level):
    counts = np.random.default_rng(2).integers(1, 5, size=40)
    repeated = np.repeat(VALUES, counts)
    exact = np.quantile(repeated, level, method="inverted_cdf")
    assert weighted_quantile(VALUES, counts.astype(float), level) == exact


def test_students_interval_holds_the_mean_as_often_as_it_says():
    rng = np.random.default_rng(3)
    intervals = np.array([mean_interval(rng.normal(size=5), 0.8) for _ in range(4000)])
    assert ((intervals[:, 1] <= 0) & (intervals[:, 2] >= 0)).mean() == pytest.approx(0.8, abs=0.02)
    value, error = mean_and_error(VALUES)
    assert student_interval(value, error, 39, 0.8) == mean_interval(VALUES, 0.8)


@given(st.integers(0, 10_000), st.integers(2, 12))
def test_adjusted_p_values_are_those_of_scipy(seed, count):
    p = np.random.default_rng(seed).uniform(size=count) ** 4  # small ones: large ones all become 1
    np.testing.assert_allclose(adjusted_p_values(p), stats.false_discovery_control(p, method="by"))


def test_intervals_are_those_of_scipy():
    values = np.random.default_rng(0).normal(size=30)
    exact = stats.ttest_1samp(values, 0).confidence_interval(0.9)
    np.testing.assert_allclose(mean_interval(values, 0.9)[1:], exact)
    for hits in (0, 3, 30):
        exact = stats.binomtest(hits, 30).proportion_ci(0.9, method="exact")
        np.testing.assert_allclose(np.ravel(share_bounds(hits, 30, 0.9)), exact)


def test_the_bound_of_a_skewed_mean_solves_halls_cubic_equation():
    """t + q t^2 / 3 + q^2 t^3 / 27 + q / (6 n), t the distance in deviations, is Student's quantile over sqrt(n)."""
    values = np.random.default_rng(3).exponential(size=12)
    mean, deviation = values.mean(), values.std(ddof=1)
    q, t = np.mean(((values - mean) / deviation) ** 3), (mean - upper_mean_bound(values)) / deviation
    left = t + q * t**2 / 3 + q**2 * t**3 / 27 + q / (6 * 12)
    assert left == pytest.approx(-stats.t.ppf(0.95, 11) / np.sqrt(12))
