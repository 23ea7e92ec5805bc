"""Local descent on arrays: its gradient, its box, and how ends are told apart."""

import numpy as np
import pytest

from gatewise.kernels.gradient import NO_SLOPES, softmax_value_and_grad
from gatewise.kernels.loss_kinds import SQUARE
from gatewise.solvers.local_descent import descend, descend_from, mse_and_grad


def data(n=150, p=3, M=3, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, p)), rng.normal(size=n), rng.normal(size=(n, M)), rng.normal(size=(M - 1, p))


def test_one_candidate_equals_the_kernel_of_many():
    features, y, F, theta = data()
    value, grad = mse_and_grad(theta, features, y, F)
    values, grads = np.empty(1), np.empty((1, *theta.shape))
    softmax_value_and_grad(theta[None], features, y, F, SQUARE, NO_SLOPES, values, grads)
    np.testing.assert_allclose(value, values[0] / 150, rtol=1e-12)
    np.testing.assert_allclose(grad, grads[0] / 150, atol=1e-12)


def test_an_end_is_in_the_box_and_no_slope_leads_further_down():
    features, y, F, theta = data()
    end, mse = descend(np.clip(theta, -0.5, 0.5), features, y, F, radius=0.5)
    value, grad = mse_and_grad(end, features, y, F)
    assert mse == pytest.approx(value)
    assert np.abs(end).max() <= 0.5
    inside = np.abs(end) < 0.5
    np.testing.assert_allclose(grad[inside], 0.0, atol=1e-5)
    assert (grad[~inside] * end[~inside] <= 1e-6).all()


def test_equal_starts_are_one_optimum():
    features, y, F, theta = data()
    found = descend_from(np.stack([theta, theta, theta]), features, y, F, radius=3.0)
    assert (found.hits.tolist(), found.gap, found.n_starts) == ([3], np.inf, 3)


def test_an_error_that_is_not_finite_is_named():
    features, y, F, theta = data()
    with np.errstate(over="ignore", invalid="ignore"), pytest.raises(ValueError, match="not finite"):
        descend_from(theta[None], features, 1e200 * y, F, radius=3.0)
