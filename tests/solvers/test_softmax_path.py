"""Penalised softmax gates about a reference, for every loss."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize
from scipy.special import softmax

from gatewise.gates import LinearGate
from gatewise.gates.feature_maps import CoordinateFeatures
from gatewise.losses import DoubleExponential, LogLoss, ResidualLoss, ScoreLoss, StudentT
from gatewise.solvers.softmax_path import _PathProblem, gate_paths, PathRequest, stack_weights


def objective(theta, features, F, y, base, spread, weight, linear, linear_spread):
    """The penalised least squares as the docstring states it, by loops."""
    M, p = F.shape[1], features.shape[1]
    coefficients, b = theta[: M * p].reshape(M, p), theta[M * p :]
    sigma2 = np.average((y - F @ base) ** 2, weights=weight)
    total = (theta[: M * p] ** 2).sum() / (2 * spread**2) + (b**2).sum() / (2 * linear_spread**2)
    for i in range(len(y)):
        g = softmax([np.log(base[m]) + features[i] @ coefficients[m] for m in range(M)])
        total += weight[i] * (y[i] - g @ F[i] - linear[i] @ b) ** 2 / (2 * sigma2)
    return total


@pytest.fixture
def problem(sample):
    inputs, F, y = sample
    features = CoordinateFeatures.fit(LinearGate, inputs, F, 0).features(inputs, F)[:60]
    rng = np.random.default_rng(5)
    return features, F[:60], y[:60], np.array([0.5, 0.3, 0.2]), rng.uniform(0.5, 2, 60), rng.normal(size=(60, 2))


def calibrated(y, F, base, weight):
    return ResidualLoss(y).calibrated(F @ base, weight)


def path_problem(features, F, linear, loss, base, weight, exact=True):
    penalty = np.repeat([2.0**-2, 0.7**-2], [9, 2])
    quadratic = loss.quadratic() if exact else None
    weighted = None if quadratic is None else (quadratic[0], weight / quadratic[1])
    return _PathProblem(features, F, linear, loss, np.log(base), weight, penalty, weighted)


def path_of(features, F, y, base, spreads, **keywords):
    weight = keywords.pop("sample_weight", np.ones(len(y)))
    request = PathRequest(features, spreads, **keywords)
    return gate_paths([request], F, calibrated(y, F, base, weight), base, weight)[0]


def test_value_and_gradient_are_those_of_the_formula(problem):
    features, F, y, base, weight, linear = problem
    ours = path_problem(features, F, linear, calibrated(y, F, base, weight), base, weight)
    theta = np.random.default_rng(0).normal(size=11)
    naive = (features, F, y, base, 2.0, weight, linear, 0.7)
    assert ours.at(theta).value == pytest.approx(objective(theta, *naive))
    slope = approx_fprime(theta, lambda t: objective(t, *naive), 1e-7)
    np.testing.assert_allclose(ours.gradient(ours.at(theta), theta), slope, atol=1e-4)


LOSSES = {
    "gaussian": lambda y: ResidualLoss(y, variance=0.5),
    "double exponential": lambda y: ResidualLoss(y, DoubleExponential(), 0.5),
    "student": lambda y: ResidualLoss(y, StudentT(6.0), 0.5),
    "log": lambda y: LogLoss(),
    "score": lambda y: ScoreLoss(),
}


@pytest.mark.parametrize("name", LOSSES)
def test_gradient_and_hessian_are_derivatives_for_every_loss(problem, name):
    features, F, y, base, weight, linear = problem
    F = np.exp(0.3 * F)  # positive, as densities are
    ours = path_problem(features, F, 0.1 * np.abs(linear), LOSSES[name](y), base, weight, exact=False)
    theta = 0.3 * np.abs(np.random.default_rng(1).normal(size=11))
    slope = approx_fprime(theta, lambda t: ours.at(t).value, 1e-7)
    np.testing.assert_allclose(ours.gradient(ours.at(theta), theta), slope, atol=2e-4)
    hessian = np.array(
        [approx_fprime(theta, lambda t, j=j: ours.gradient(ours.at(t), t)[j], 1e-6) for j in range(11)]
    )
    np.testing.assert_allclose(ours.hessian(ours.at(theta)), hessian, atol=2e-3)


def test_a_quadratic_loss_is_the_same_by_its_own_methods(problem):
    features, F, y, base, weight, linear = problem
    loss = calibrated(y, F, base, weight)
    one, two = (path_problem(features, F, linear, loss, base, weight, exact) for exact in (True, False))
    theta = np.random.default_rng(2).normal(size=11)
    np.testing.assert_allclose(one.gradient(one.at(theta), theta), two.gradient(two.at(theta), theta))
    np.testing.assert_allclose(one.hessian(one.at(theta)), two.hessian(two.at(theta)))
    zero = np.zeros(11)
    assert one.at(theta).value - one.at(zero).value == pytest.approx(two.at(theta).value - two.at(zero).value)


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_falls_along_the_path(problem, name):
    features, F, y, base, weight, _ = problem
    F = np.exp(0.3 * F)
    loss = LOSSES[name](y)
    (path,) = gate_paths([PathRequest(features, (0.3, 3.0))], F, loss, base, weight)
    losses = [weight @ loss.value(F @ base)]
    for theta in path.theta:
        g = softmax(np.log(base) + features @ theta.T, axis=1)
        losses.append(weight @ loss.value((g * F).sum(axis=1)))
    assert losses[2] < losses[1] < losses[0]


@pytest.mark.parametrize("name", LOSSES)
def test_constant_weights_are_as_good_as_any(problem, name):
    _, F, y, _, weight, _ = problem
    F = np.exp(0.3 * F)
    loss = ResidualLoss(y) if name in ("gaussian", "double exponential", "student") else LOSSES[name](y)
    found = stack_weights(F, loss, weight)
    others = np.random.default_rng(0).dirichlet(np.ones(3), 500)
    assert found.sum() == pytest.approx(1.0)
    assert weight @ loss.value(F @ found) <= min(weight @ loss.value(F @ other) for other in others) + 1e-2


@pytest.mark.parametrize("spread", [0.3, 3.0])
def test_the_path_reaches_what_another_solver_reaches(problem, spread):
    features, F, y, base, weight, linear = problem
    path = path_of(features, F, y, base, [spread], linear=linear, linear_spread=0.7, sample_weight=weight)
    naive = (features, F, y, base, spread, weight, linear, 0.7)
    found = objective(np.concatenate([path.theta[0].ravel(), path.linear[0]]), *naive)
    slow = minimize(objective, np.zeros(11), args=naive, method="L-BFGS-B")
    assert found <= slow.fun + 1e-3


def test_relabelling_experts_relabels_the_gate(problem):
    features, F, y, base, _, _ = problem
    order = [2, 0, 1]
    one = path_of(features, F, y, base, [1.0]).theta[0]
    two = path_of(features, F[:, order], y, base[order], [1.0]).theta[0]
    np.testing.assert_allclose(two, one[order], atol=1e-4)


def test_units_of_the_response_do_not_matter(problem):
    features, F, y, base, _, _ = problem
    one, two = (path_of(features, c * F, c * y, base, [0.3, 3.0]).theta for c in (1.0, 1e6))
    np.testing.assert_allclose(one, two, atol=1e-5)


def test_a_reference_without_error_is_kept():
    F = np.random.default_rng(0).normal(size=(20, 2))
    path = path_of(np.ones((20, 1)), F, F @ [0.5, 0.5], np.array([0.5, 0.5]), [1.0])
    assert not path.theta.any()
