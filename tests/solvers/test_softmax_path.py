"""Penalised softmax gates about a reference, for every loss, against a plain objective and another minimiser."""

from itertools import chain

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import softmax

from gatewise.gates import LinearGate
from gatewise.gates.feature_maps import CoordinateFeatures
from gatewise.losses import DoubleExponential, LogLoss, ResidualLoss, ScoreLoss, StudentT
from gatewise.noise import Custom
from gatewise.solvers import softmax_path
from gatewise.solvers.softmax_path import ACCURACY, gate_paths, PathRequest, RowSample, sample_paths, stack_weights

LOSSES = {
    "gaussian": lambda y: ResidualLoss(y, variance=0.5),
    "double exponential": lambda y: ResidualLoss(y, DoubleExponential(), 0.5),
    "student": lambda y: ResidualLoss(y, StudentT(6.0), 0.5),
    "log": lambda y: LogLoss(),
    "score": lambda y: ScoreLoss(),
}
SMOOTH = [name for name in LOSSES if name != "double exponential"]


def mixture(theta, b, features, F, base, linear):
    """The mixture as the docstring states it, row by row."""
    z = np.empty(len(F))
    for i in range(len(F)):
        g = softmax([np.log(base[m]) + features[i] @ theta[m] for m in range(F.shape[1])])
        z[i] = g @ F[i] + linear[i] @ b
    return z


class Twin:
    """The objective by NumPy, and its minimum by scipy, started where a fit ended."""

    def __init__(self, features, F, loss, base, weight, linear, spread, linear_spread):
        self.given = features, F, base, linear
        self.loss, self.weight, self.spreads = loss, weight, (spread, linear_spread)

    def parts(self, flat):
        M, p = self.given[1].shape[1], self.given[0].shape[1]
        return flat[: M * p].reshape(M, p), flat[M * p :]

    def __call__(self, flat):
        features, F, base, linear = self.given
        theta, b = self.parts(flat)
        g = softmax(np.log(base) + features @ theta.T, axis=1)
        z = (g * F).sum(axis=1) + linear @ b
        value = self.weight @ self.loss.value(z)
        value += 0.5 * (theta**2).sum() / self.spreads[0] ** 2 + 0.5 * (b**2).sum() / self.spreads[1] ** 2
        s = self.weight * self.loss.slope(z)
        tilts = g * (F - (g * F).sum(axis=1)[:, None])
        theta_slope = (tilts * s[:, None]).T @ features + theta / self.spreads[0] ** 2
        return value, np.concatenate([theta_slope.ravel(), linear.T @ s + b / self.spreads[1] ** 2])

    def minimum(self, path, number=0):
        start = np.concatenate([path.theta[number].ravel(), path.linear[number]])
        options = {"gtol": 1e-9, "maxiter": 2000}
        return start, minimize(self, start, jac=True, method="BFGS", options=options)


@pytest.fixture
def problem(sample):
    inputs, F, y = sample
    features = CoordinateFeatures.fit(LinearGate, inputs, F, 0).features(inputs, F)[:60]
    rng = np.random.default_rng(5)
    return features, F[:60], y[:60], np.array([0.5, 0.3, 0.2]), rng.uniform(0.5, 2, 60), rng.normal(size=(60, 2))


def random_problem(seed, n=150, M=6, p=4):
    rng = np.random.default_rng(seed)
    features, F = rng.normal(size=(n, p)), rng.normal(size=(n, M))
    y = (softmax(features @ rng.normal(size=(p, M)), axis=1) * F).sum(axis=1) + 0.3 * rng.normal(size=n)
    return features, F, y, rng.dirichlet(np.ones(M)) * 0.9 + 0.1 / M, rng.uniform(0.5, 2, n), F - F.mean(axis=0)


def path_of(features, F, y, base, spreads, **keywords):
    weight = keywords.pop("sample_weight", np.ones(len(y)))
    loss = ResidualLoss(y).calibrated(F @ base, weight)
    return gate_paths([PathRequest(features, spreads, **keywords)], F, loss, base, weight)[0]


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("corrected", [False, True])
def test_a_fit_is_a_minimum_to_the_stated_accuracy(name, corrected):
    features, F, y, base, weight, linear = random_problem(1)
    loss = LOSSES[name](y)
    if name in ("log", "score"):
        F, linear = np.exp(0.5 * F), 0.05 * np.abs(linear)
    linear = linear if corrected else linear[:, :0]
    request = PathRequest(features, (0.5, 5.0), linear if corrected else None, 0.7)
    (path,) = gate_paths([request], F, loss, base, weight)
    for number, spread in enumerate(request.spreads):
        twin = Twin(features, F, loss, base, weight, linear, spread, 0.7)
        start, best = twin.minimum(path, number)
        assert 0 <= twin(start)[0] - best.fun <= 0.5 * ACCURACY**2 * weight.sum()
        change = mixture(*twin.parts(start), *twin.given) - mixture(*twin.parts(best.x), *twin.given)
        sigma = np.sqrt(0.5) if isinstance(loss, ResidualLoss) else F.std()
        assert np.sqrt(np.average(change**2, weights=weight)) <= ACCURACY * sigma


@pytest.mark.parametrize("spread", [0.3, 3.0])
def test_the_path_reaches_what_another_solver_reaches_from_zero(problem, spread):
    features, F, y, base, weight, linear = problem
    path = path_of(features, F, y, base, [spread], linear=linear, linear_spread=0.7, sample_weight=weight)
    loss = ResidualLoss(y).calibrated(F @ base, weight)
    twin = Twin(features, F, loss, base, weight, linear, spread, 0.7)
    found = twin(np.concatenate([path.theta[0].ravel(), path.linear[0]]))[0]
    slow = minimize(twin, np.zeros(11), jac=True, method="L-BFGS-B")
    assert found <= slow.fun + 1e-3


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_falls_along_the_path(problem, name):
    features, F, y, base, weight, _ = problem
    F = np.exp(0.3 * F)
    loss = LOSSES[name](y)
    (path,) = gate_paths([PathRequest(features, (0.3, 3.0))], F, loss, base, weight)
    losses = [weight @ loss.value(F @ base)]
    losses += [weight @ loss.value(mixture(theta, [], features, F, base, np.zeros((60, 0)))) for theta in path.theta]
    assert losses[2] < losses[1] < losses[0]


def test_a_kink_in_the_loss_is_no_obstacle():
    features, F, y, base, weight, _ = random_problem(2)
    loss = LOSSES["double exponential"](y)
    (path,) = gate_paths([PathRequest(features, (0.5,))], F, loss, base, weight)
    twin = Twin(features, F, loss, base, weight, np.zeros((150, 0)), 0.5, 1.0)
    start = path.theta[0].ravel()
    rng = np.random.default_rng(0)
    near = min(twin(start + size * rng.normal(size=start.size))[0] for size in np.geomspace(1e-5, 1, 300))
    slow = minimize(lambda flat: twin(flat)[0], start, method="Powell", options={"maxiter": 20})
    assert twin(start)[0] <= min(near, slow.fun) + 0.01


def test_a_noise_of_ones_own_gives_what_the_compiled_loss_gives():
    features, F, y, base, weight, linear = random_problem(3)
    own = Custom(lambda z: -0.5 * z**2 - 0.5 * np.log(2 * np.pi))
    request = PathRequest(features, (0.3, 2.0), linear)
    losses = ResidualLoss(y, variance=0.2), ResidualLoss(y, own, 0.2)
    one, two = (gate_paths([request], F, loss, base, weight)[0] for loss in losses)
    np.testing.assert_allclose(one.theta, two.theta, atol=1e-3)
    np.testing.assert_allclose(one.linear, two.linear, atol=1e-3)


@pytest.mark.parametrize("name", LOSSES)
def test_constant_weights_are_as_good_as_any(problem, name):
    _, F, y, _, weight, _ = problem
    F = np.exp(0.3 * F)
    loss = ResidualLoss(y) if name in ("gaussian", "double exponential", "student") else LOSSES[name](y)
    (found,) = stack_weights(F, loss, weight[None])
    others = np.random.default_rng(0).dirichlet(np.ones(3), 500)
    assert found.sum() == pytest.approx(1.0)
    assert weight @ loss.value(F @ found) <= min(weight @ loss.value(F @ other) for other in others) + 1e-2


def test_relabelling_experts_relabels_the_gate():
    features, F, y, base, _, _ = random_problem(4)
    order = [2, 0, 1, 5, 4, 3]
    one = path_of(features, F, y, base, [0.3, 1.0]).theta
    two = path_of(features, F[:, order], y, base[order], [0.3, 1.0]).theta
    np.testing.assert_allclose(two, one[:, order], atol=1e-5)


def test_a_copy_of_an_expert_gets_the_gate_of_the_expert():
    features, F, y, base, _, _ = random_problem(5)
    doubled, half = np.column_stack([F, F[:, 0]]), np.append(base, base[0] / 2)
    half[0] /= 2
    theta = path_of(features, doubled, y, half, [1.0]).theta[0]
    np.testing.assert_allclose(theta[0], theta[-1], atol=1e-6)


@pytest.mark.parametrize("factor", [1e6, 1e-9])
def test_units_of_the_response_do_not_matter(problem, factor):
    features, F, y, base, _, _ = problem
    one, two = (path_of(features, c * F, c * y, base, [0.3, 3.0]).theta for c in (1.0, factor))
    np.testing.assert_allclose(one, two, atol=1e-7)


def test_a_reference_without_error_is_kept():
    F = np.random.default_rng(0).normal(size=(20, 2))
    path = path_of(np.ones((20, 1)), F, F @ [0.5, 0.5], np.array([0.5, 0.5]), [1.0])
    assert not path.theta.any()


def test_spreads_may_stand_in_any_order(problem):
    features, F, y, base, _, _ = problem
    one, two = (path_of(features, F, y, base, spreads).theta for spreads in ((0.3, 1.0, 3.0), (3.0, 0.3, 1.0)))
    np.testing.assert_array_equal(one, two[[1, 2, 0]])


def folds(seed=6):
    features, F, y, base, weight, linear = random_problem(seed)
    requests = [PathRequest(features, (0.3, 3.0), ks=(1, 2)), PathRequest(features[:, :2], (1.0,), linear, 0.5)]
    part = np.arange(len(y)) // 64  # a fold is a tile, which is passed over
    asked = [np.flatnonzero(part == j) for j in range(3)]
    shift, unit = 0.1 * np.arange(linear.shape[1]), np.linspace(0.5, 1.0, linear.shape[1])
    samples = [RowSample(base, weight * (part != j), 0.3**0.5, asked[j], shift, unit) for j in range(3)]
    return requests, F, ResidualLoss(y, variance=0.3), samples


def test_samples_at_once_are_the_samples_one_by_one():
    requests, F, loss, samples = folds()
    for sample, paths in zip(samples, sample_paths(requests, F, loss, samples), strict=True):
        (alone,) = sample_paths(requests, F, loss, [sample])
        for one, two in zip(paths, alone, strict=True):
            np.testing.assert_array_equal(one.path.theta, two.path.theta)
            np.testing.assert_array_equal(one.path.linear, two.path.linear)
            np.testing.assert_array_equal(one.mixtures, two.mixtures)


def with_all_rows(samples, follows):
    whole = samples[0]._replace(sample_weight=sum(one.sample_weight for one in samples) / 2)
    return [*samples, whole._replace(follows=follows)]


@pytest.mark.parametrize("name", ["gaussian", "student"])
def test_all_rows_follow_their_folds_to_the_same_minimum_in_fewer_steps(name, monkeypatch):
    requests, F, loss, samples = folds()
    loss, tried, judge = LOSSES[name](loss.y), [], softmax_path.foreign_derivatives

    def counted(*args):  # compiled code asks for them at every parameter that it tries
        tried.append(follows)
        return judge(*args)

    monkeypatch.setattr(softmax_path, "foreign_derivatives", counted)
    found = []
    for follows in (False, True):
        found.append(sample_paths(requests, F, loss, with_all_rows(samples, follows), 1))
    for cold, warm in zip(*(paths[-1] for paths in found), strict=True):
        np.testing.assert_allclose(warm.path.theta, cold.path.theta, atol=2e-3)
        np.testing.assert_allclose(warm.path.linear, cold.path.linear, atol=2e-3)
    for cold, warm in zip(*(chain(*paths[:-1]) for paths in found), strict=True):
        np.testing.assert_array_equal(warm.path.theta, cold.path.theta)
    if name == "student":
        assert 0 < tried.count(True) < tried.count(False)


def test_the_order_of_experts_does_not_matter_to_a_fit_that_follows():
    requests, F, loss, samples = folds()
    samples, back = with_all_rows(samples, follows=True), np.roll(np.arange(F.shape[1]), 1)
    turned = [one._replace(reference=one.reference[back]) for one in samples]
    plain, other = (sample_paths(requests, *given)[-1] for given in ((F, loss, samples), (F[:, back], loss, turned)))
    for one, two in zip(plain, other, strict=True):
        np.testing.assert_allclose(one.path.theta[:, back], two.path.theta, atol=1e-12)
        np.testing.assert_allclose(one.mixtures, two.mixtures, atol=1e-12)


def test_rows_of_weight_zero_are_as_good_as_absent():
    requests, F, loss, samples = folds()
    for sample, paths in zip(samples, sample_paths(requests, F, loss, samples), strict=True):
        kept = sample.sample_weight > 0
        own = [r._replace(features=r.features[kept], linear=r.linear if r.linear is None else
               (r.linear[kept] - sample.center) * sample.unit) for r in requests]  # fmt: skip
        alone = gate_paths(own, F[kept], loss.part(kept), sample.reference, sample.sample_weight[kept])
        for one, two in zip(paths, alone, strict=True):
            np.testing.assert_allclose(one.path.theta, two.theta, atol=1e-3)


def test_mixtures_are_those_of_the_gates_at_the_rows_asked_for():
    requests, F, loss, samples = folds()
    for sample, paths in zip(samples, sample_paths(requests, F, loss, samples), strict=True):
        for request, one in zip(requests, paths, strict=True):
            linear = np.zeros((len(F), 0))
            if request.linear is not None:
                linear = (request.linear - sample.center) * sample.unit
            given = [array[sample.asked] for array in (request.features, F, linear)]
            for number, theta in enumerate(one.path.theta):
                z = mixture(theta, one.path.linear[number], given[0], given[1], sample.reference, given[2])
                np.testing.assert_allclose(one.mixtures[number, 0], z, rtol=1e-10)
                scores = np.log(sample.reference) + given[0] @ theta.T
                for place, k in enumerate(request.ks):
                    largest = np.argsort(-scores, axis=1, kind="stable")[:, :k]
                    inner = softmax(np.take_along_axis(scores, largest, axis=1), axis=1)
                    z = (inner * np.take_along_axis(given[1], largest, axis=1)).sum(axis=1)
                    np.testing.assert_allclose(one.mixtures[number, 1 + place], z, rtol=1e-10)


def test_a_path_of_linear_spreads_is_its_fits_one_by_one():
    _, F, y, base, weight, linear = random_problem(8)
    loss, still = ResidualLoss(y, variance=0.3), np.zeros((len(y), 0))
    (path,) = gate_paths([PathRequest(still, np.ones(2), linear, (0.2, 2.0))], F, loss, base, weight)
    for place, spread in enumerate((0.2, 2.0)):
        (alone,) = gate_paths([PathRequest(still, [1.0], linear, spread)], F, loss, base, weight)
        np.testing.assert_allclose(path.linear[place], alone.linear[0], atol=1e-5)


def test_the_number_of_threads_changes_no_bit():
    requests, F, loss, samples = folds()
    one, two = (sample_paths(requests, F, loss, samples, n_threads) for n_threads in (1, 3))
    for a, b in zip(chain(*one), chain(*two), strict=True):
        np.testing.assert_array_equal(a.path.theta, b.path.theta)
        np.testing.assert_array_equal(a.path.linear, b.path.linear)
        np.testing.assert_array_equal(a.mixtures, b.mixtures)


def test_an_expert_that_is_far_off_does_not_spoil_the_fit():
    features, F, y, base, _, _ = random_problem(7)
    wild = np.column_stack([F, 1e9 * np.sin(np.arange(len(F)))])
    floor = np.append(0.999 * base, 0.001)
    loss = ResidualLoss(y, variance=0.1)
    (path,) = gate_paths([PathRequest(features, (0.3, 3.0))], wild, loss, floor)
    assert np.isfinite(path.theta).all()
    z = [mixture(theta, [], features, wild, floor, np.zeros((len(F), 0))) for theta in path.theta]
    assert loss.value(z[1]).sum() <= loss.value(z[0]).sum() <= loss.value(wild @ floor).sum()
