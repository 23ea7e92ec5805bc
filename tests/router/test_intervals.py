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
