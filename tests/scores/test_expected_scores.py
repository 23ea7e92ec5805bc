"""Intervals of expected scores: how much wider than their posterior variance they have to be."""

from types import SimpleNamespace

import numpy as np
import pytest

from gatewise.scores import expected_scores


def test_the_factor_is_the_variance_that_errors_have_over_the_variance_that_is_stated(monkeypatch):
    """Forecasts are off by waves of variance 0.005, and 0.001 is stated: a factor of five. Noise does not count."""
    rng = np.random.default_rng(0)
    expected = rng.uniform(size=(20_000, 2))
    off = 0.1 * np.sin(40.0 * np.pi * expected / 10.0 + np.pi / 4)  # a few groups a wave
    scores = expected + off + rng.normal(size=expected.shape)
    routes = SimpleNamespace(held_out=SimpleNamespace(scores=scores, expected=expected))
    for stated, factor in ((0.001, 5.0), (0.1, 1.0)):
        monkeypatch.setattr(expected_scores, "_variance", lambda *_, stated=stated: np.full((20_000, 2), stated))
        assert expected_scores.calibrate(routes, None) == pytest.approx(factor, rel=0.25)
