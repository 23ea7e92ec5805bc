"""The plain rival finds where each of two forecasts is good."""

import numpy as np

from benchmarks.error_forecasts import by_forecast_errors


def test_weights_by_forecast_errors_beat_constant_weights():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 2))
    y = np.sin(2.0 * X[:, 1])
    F = y[:, None] + rng.normal(size=(2000, 2)) * np.where(X[:, :1] > 0, [0.1, 1.0], [1.0, 0.1])
    mixture = by_forecast_errors(X[:1000], F[:1000], y[:1000])(X[1000:], F[1000:])
    assert np.mean((mixture - y[1000:]) ** 2) < 0.5 * np.mean((F[1000:].mean(axis=1) - y[1000:]) ** 2)
    same = by_forecast_errors(X, F[:, [0, 0]], y)(X, F[:, [0, 0]])
    np.testing.assert_allclose(same, F[:, 0])
