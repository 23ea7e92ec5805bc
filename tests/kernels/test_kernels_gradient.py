"""The compiled sums and gradients against plain NumPy, finite differences and the gates themselves."""

import numpy as np
import pytest

from gatewise.gates import KernelGate, LinearGate
from gatewise.kernels.gradient import NO_SLOPES, softmax_residuals, softmax_value_and_grad
from gatewise.kernels.linear_residuals import linear_residuals, linear_value_and_grad
from gatewise.kernels.loss_kinds import ABSOLUTE, GIVEN, OUTCOME, SQUARE

KINDS = {"square": SQUARE, "absolute": ABSOLUTE, "log": OUTCOME}


def naive(theta, features, y, F, loss):
    """Value and gradient, array by array: (S, n, M) of everything."""
    scores = np.concatenate([np.einsum("smp,np->snm", theta, features), np.zeros((len(theta), len(y), 1))], axis=2)
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))
    weights /= weights.sum(axis=2, keepdims=True)
    forecast = np.einsum("snm,nm->sn", weights, F)
    residual = y - forecast
    slopes = {"square": lambda r: 2 * r, "absolute": np.sign, "log": lambda r: -1 / r}
    values = {"square": np.square, "absolute": np.abs, "log": lambda r: -np.log(-r)}
    slope = slopes[loss](residual)
    pull = -slope[:, :, None] * weights * (F - forecast[:, :, None])
    value = values[loss](residual).sum(axis=1)
    return value, np.einsum("snm,np->smp", pull[:, :, :-1], features)


def value_and_grad(theta, features, y, F, loss="square"):
    value, grad = np.empty(len(theta)), np.empty(theta.shape)
    softmax_value_and_grad(theta, features, y, F, KINDS[loss], NO_SLOPES, value, grad)
    return value, grad


def problem(S, M, p, n, seed=0):
    rng = np.random.default_rng(seed)
    theta, features = rng.normal(size=(S, M - 1, p)), rng.normal(size=(n, p))
    return theta, features, rng.normal(size=n), rng.normal(size=(n, M))


def probabilities(theta, features, y, F):
    """The problem with responses 0 and probabilities F, as the log loss takes them."""
    return theta, features, np.zeros_like(y), np.exp(-np.abs(F))


@pytest.mark.parametrize("loss", KINDS)
@pytest.mark.parametrize(("S", "M", "p", "n"), [(1, 2, 1, 1), (3, 3, 3, 7), (64, 4, 4, 8), (150, 8, 11, 33)])
def test_equals_plain_numpy(S, M, p, n, loss):
    args = problem(S, M, p, n)
    args = probabilities(*args) if loss == "log" else args
    value, grad = value_and_grad(*args, loss=loss)
    wanted_value, wanted_grad = naive(*args, loss)
    np.testing.assert_allclose(value, wanted_value, rtol=1e-12)
    np.testing.assert_allclose(grad, wanted_grad, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("loss", KINDS)
def test_gradient_is_the_slope_of_the_value(loss):
    args = problem(2, 3, 4, 20)
    theta, features, y, F = probabilities(*args) if loss == "log" else args
    grad = value_and_grad(theta, features, y, F, loss=loss)[1]
    for place in np.ndindex(theta.shape[1:]):
        step = np.zeros(theta.shape)
        step[(slice(None), *place)] = 1e-6
        up = value_and_grad(theta + step, features, y, F, loss=loss)[0]
        down = value_and_grad(theta - step, features, y, F, loss=loss)[0]
        np.testing.assert_allclose((up - down) / 2e-6, grad[(slice(None), *place)], rtol=1e-5, atol=1e-6)


def test_given_slopes_pull_back_as_the_loss_does():
    theta, features, y, F = problem(70, 3, 3, 9)
    residuals = np.empty((70, 9))
    softmax_residuals(theta, features, y, F, 3, residuals)
    value, grad = np.empty(70), np.empty(theta.shape)
    softmax_value_and_grad(theta, features, y, F, GIVEN, 2 * residuals, value, grad)
    np.testing.assert_allclose(grad, value_and_grad(theta, features, y, F)[1], rtol=1e-12)


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_residuals_of_top_k_gates(k):
    rng = np.random.default_rng(1)
    X, y, F = rng.normal(size=(13, 2)), rng.normal(size=13), rng.normal(size=(13, 4))
    theta = np.round(rng.normal(size=(70, 3, 3)))  # whole numbers, so that scores tie
    X = np.round(X)
    gate = LinearGate(4, k=k)
    out = np.empty((70, 13))
    softmax_residuals(theta, gate.features(X), y, F, k, out)
    np.testing.assert_allclose(out, y - np.einsum("snm,nm->sn", gate.weights(X, theta), F), atol=1e-12)


def test_a_candidate_has_the_same_bits_wherever_it_stands():
    theta, features, y, F = problem(200, 5, 6, 37)
    value, grad = value_and_grad(theta, features, y, F)
    for part in (slice(0, 1), slice(13, 101), slice(77, 200)):
        alone = value_and_grad(np.ascontiguousarray(theta[part]), features, y, F)
        np.testing.assert_array_equal(alone[0], value[part])
        np.testing.assert_array_equal(alone[1], grad[part])


def test_huge_scores_are_finite():
    theta, features, y, F = problem(3, 3, 2, 5)
    value, grad = value_and_grad(1e6 * theta, features, y, F)
    assert np.isfinite(value).all()
    assert np.isfinite(grad).all()
    hard = LinearGate(3, k=1, intercept=False).weights(features, theta)
    np.testing.assert_allclose(value, ((y - np.einsum("snm,nm->sn", hard, F)) ** 2).sum(axis=1))


def test_a_nan_stays_a_nan():
    theta, features, y, F = problem(2, 3, 2, 5)
    y[3] = np.nan
    assert np.isnan(value_and_grad(theta, features, y, F)[0]).all()


def test_no_rows_no_value():
    theta, features, y, F = problem(2, 3, 2, 0)
    value, grad = value_and_grad(theta, features, y, F)
    assert not value.any()
    assert not grad.any()


@pytest.mark.parametrize(
    ("loss", "slope"), [(SQUARE, lambda r: 2 * r), (ABSOLUTE, np.sign), (OUTCOME, lambda r: -1 / r)]
)
def test_linear_predictors(loss, slope):
    rng = np.random.default_rng(2)
    gate, X, y, F = KernelGate(3, mesh=0.5), rng.uniform(size=(11, 1)), rng.normal(size=11), rng.normal(size=(11, 3))
    if loss == OUTCOME:
        y, F = np.zeros(11), np.exp(-np.abs(F))
    theta = rng.dirichlet(np.ones(3), (80, 3)).swapaxes(1, 2).copy()  # (S, M, C)
    design = (F[:, :, None] * gate.features(X)[:, None, :]).reshape(11, -1)
    residuals, value, grad = np.empty((80, 11)), np.empty(80), np.empty((80, 1, 9))
    linear_residuals(theta.reshape(80, 1, 9), design, y, residuals)
    np.testing.assert_allclose(residuals, y - np.einsum("snm,nm->sn", gate.weights(X, theta), F), atol=1e-12)
    linear_value_and_grad(theta.reshape(80, 1, 9), design, y, loss, NO_SLOPES, value, grad)
    value_of = {SQUARE: np.square, ABSOLUTE: np.abs, OUTCOME: lambda r: -np.log(-r)}[loss]
    np.testing.assert_allclose(value, value_of(residuals).sum(axis=1))
    np.testing.assert_allclose(grad[:, 0], -slope(residuals) @ design, atol=1e-12)
    again = np.empty_like(grad)
    linear_value_and_grad(theta.reshape(80, 1, 9), design, y, GIVEN, slope(residuals), value, again)
    np.testing.assert_allclose(again, grad, atol=1e-12)
