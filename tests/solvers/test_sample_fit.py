"""Fits see the same bits whatever the units of the response and the order of the experts are."""

import numpy as np
import pytest
from scipy.special import softmax

from gatewise.losses import LogLoss, ResidualLoss
from gatewise.noise import StudentT
from gatewise.solvers.softmax_path import FitFrame, GRID, PathRequest, rounded, RowSample, sample_paths

n, M = 300, 4


def problem(seed):
    """Many kernels and a wide spread: a fit whose end hangs on the last bits."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, (n, 2))
    centers = rng.uniform(-2, 2, (25, 2))
    features = softmax(-2.0 * ((x[:, None] - centers) ** 2).sum(axis=2), axis=1)
    F = rng.normal(size=(n, M)) + x[:, :1]
    y = np.where(x[:, 0] > 0, F[:, 0], F[:, 1]) + 0.3 * rng.normal(size=n)
    return features, F, y


def path_of(features, F, y, unit=1.0, shift=0.0, order=None, noise=None):
    order = np.arange(M) if order is None else np.array(order)
    F, y = unit * F[:, order] + shift, unit * y + shift
    loss = ResidualLoss(y) if noise is None else ResidualLoss(y, noise)
    reference = np.array([0.4, 0.3, 0.2, 0.1])[order]
    sample = RowSample(reference, np.ones(n), 0.5 * unit, np.arange(n), np.append(0.0, F.mean(axis=0)))
    linear = np.column_stack([np.full(n, unit), F])
    request = PathRequest(features, (1.0, 30.0), linear, ks=(2,))
    ((found,),) = sample_paths([request], F, loss, [sample])
    back = np.argsort(order)
    coefficients = found.path.linear[:, np.append(0, 1 + back)]
    return found.path.theta[:, back], coefficients, (found.mixtures - shift) / unit


@pytest.mark.parametrize("noise", [None, StudentT(5.0)], ids=["gaussian", "student"])
@pytest.mark.parametrize("seed", range(3))
def test_units_shift_and_order_change_no_bit_of_a_fit(seed, noise):
    given = problem(seed)
    theta, linear, mixtures = path_of(*given, noise=noise)
    for change in ({"unit": 1000.0}, {"unit": 1e-5}, {"shift": 1e4}, {"order": [2, 0, 3, 1]}):
        other = path_of(*given, noise=noise, **change)
        np.testing.assert_array_equal(other[0], theta)
        np.testing.assert_array_equal(other[1], linear)
        np.testing.assert_allclose(other[2], mixtures, atol=1e-10)


def test_probabilities_are_not_rounded():
    F = np.array([[1e-9, 0.5], [0.25, 1e-7]])
    frame = FitFrame.of(F, np.empty((2, 0)), LogLoss(), 1.0, np.ones(2))
    np.testing.assert_array_equal(frame.forecasts(F), F)
    assert frame.loss(LogLoss(), np.arange(2)) == LogLoss()


def test_rows_without_weight_do_not_move_the_frame():
    y, weight = np.array([1.0, 3.0, 1e9]), np.array([1.0, 1.0, 0.0])
    assert FitFrame.of(np.ones((1, 2)), np.empty((1, 0)), ResidualLoss(y), 0.5, weight).center == 2.0


def test_rounding_is_to_the_nearest_multiple():
    values = np.random.default_rng(0).normal(size=100)
    assert np.abs(rounded(values) - values).max() <= GRID / 2
    np.testing.assert_array_equal(rounded(values) / GRID, np.rint(values / GRID))
