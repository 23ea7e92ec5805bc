"""The net that the particles are compared with, against a plain sum over its candidates."""

from itertools import product

import numpy as np
import pytest

from gatewise.gates import LinearGate
from tests.aggregation.reference_net import net_predictions
from tests.aggregation.test_particles import Gaussian, grid_truth, stream


@pytest.mark.parametrize("n_cal", [0, 10])
def test_net_of_three_experts(n_cal):
    X, y, F = stream(n=30, M=3, d=1)
    values = np.linspace(-2, 2, 8)
    gate = LinearGate(3)
    thetas = np.array(list(product(values, repeat=4))).reshape(-1, 2, 2)
    sigma = 0.7
    if n_cal:
        residuals = y[:n_cal] - np.einsum("snm,nm->sn", gate.weights(X[:n_cal], thetas), F[:n_cal])
        sigma = np.clip(np.sqrt((residuals**2).mean(axis=1)), 0.6, 1.2)
    wanted = grid_truth(gate, thetas, X[n_cal:], y[n_cal:], F[n_cal:], Gaussian(), sigma)[0]
    found = net_predictions(values, gate.features(X), y, F, sigma=0.7, n_cal=n_cal, low=0.6, high=1.2)
    np.testing.assert_allclose(found, wanted, atol=1e-10)
