"""The box's prior and coordinates in compiled code against NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gatewise.aggregation.particles.domains import Box

positions = arrays(np.float64, (3, 2, 9), elements=st.floats(-30.0, 30.0))


@given(positions, st.floats(0.1, 1e3))
def test_theta_and_its_gradient(position, radius):
    box = Box(radius)
    theta, ratio = box.theta(position), np.tanh(0.5 * position)
    np.testing.assert_allclose(theta, radius * ratio, rtol=1e-12, atol=1e-14 * radius)
    grad = np.cos(np.arange(theta.size)).reshape(theta.shape)
    expected = 0.5 * radius * (1.0 - ratio**2) * grad - ratio
    np.testing.assert_allclose(box.position_gradient(theta, grad), expected, rtol=1e-9, atol=1e-12 * radius)


@given(arrays(np.float64, (3, 2, 9), elements=st.floats(-8.0, 8.0)))
def test_log_prior_is_the_logistic_density(position):
    box = Box(2.0)
    expected = (np.log(4.0) - np.abs(position) - 2.0 * np.log1p(np.exp(-np.abs(position)))).sum(axis=(1, 2))
    np.testing.assert_allclose(box.log_prior(box.theta(position)), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 7, 11), (2, 4, 100)])
def test_many_small_factors_do_not_underflow(shape):
    box = Box(3.0)
    value = box.log_prior(box.theta(np.full(shape, 30.0)))
    np.testing.assert_allclose(value, shape[1] * shape[2] * (np.log(4.0) - 30.0), rtol=1e-3)


def test_at_a_wall_the_density_is_zero():
    box = Box(1.0)
    assert (box.log_prior(np.ones((2, 1, 3))) == -np.inf).all()
