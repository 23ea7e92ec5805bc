"""The standard deviation of a prediction, calibrated on held-out rows."""

import numpy as np
import pytest

from gatewise.router.fitted_router import disagreement, PredictionScale


def test_ninety_percent_of_the_rows_lie_within():
    rng = np.random.default_rng(0)
    apart = rng.chisquare(2, 4000)
    residuals = rng.standard_t(4, 4000) * np.sqrt(0.5 + 2.0 * apart)
    scale = PredictionScale.fit(residuals, apart, np.ones(4000))
    assert np.mean(np.abs(residuals) <= 1.645 * scale.sd(apart)) == pytest.approx(0.9, abs=0.005)
    small, large = apart < 1.0, apart > 3.0
    for part in (small, large):  # also where experts agree, and where they do not
        share = np.mean(np.abs(residuals[part]) <= 1.645 * scale.sd(apart[part]))
        assert share == pytest.approx(0.9, abs=0.06)


def test_disagreement_is_a_variance():
    assert disagreement(np.array([[0.5, 0.5]]), np.array([[0.0, 2.0]])) == pytest.approx([1.0])


def test_rows_count_by_their_weights():
    """Half of the rows are five times as noisy and hardly count: intervals are those of the others."""
    rng = np.random.default_rng(1)
    wild = np.arange(4000) % 2 == 1
    residuals, weight = rng.normal(size=4000) * np.where(wild, 5.0, 1.0), np.where(wild, 1e-3, 1.0)
    scale = PredictionScale.fit(residuals, np.zeros(4000), weight)
    inside = np.abs(residuals) <= 1.645 * scale.sd(np.zeros(4000))
    assert np.average(inside, weights=weight) == pytest.approx(0.9, abs=0.005)
    assert scale.sd(np.zeros(1))[0] == pytest.approx(1.0, rel=0.1)


@pytest.mark.parametrize("factor", [0.5, 1.0, 2.0])
def test_rows_that_are_added_at_once_are_rows_added_one_by_one(factor):
    rng = np.random.default_rng(0)
    residuals, apart = factor * rng.normal(size=2000), rng.uniform(size=2000)
    at_once = one_by_one = PredictionScale(noise=0.6, weight=0.8, factor=1.0)
    at_once = at_once.continued(residuals, apart, np.ones(len(residuals)))
    for residual, spread in zip(residuals, apart, strict=True):
        one_by_one = one_by_one.continued(np.array([residual]), np.array([spread]), np.ones(1))
    assert at_once.factor == pytest.approx(one_by_one.factor, rel=1e-9)
    assert 0.8 * factor < at_once.factor < 1.25 * factor
