"""Particles against fine grids, quadrature and the laws that their moves must keep."""

from dataclasses import replace
from functools import partial
from itertools import product
from math import lgamma

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import kstest

from gatewise.aggregation.gate_candidates import gate_candidates
from gatewise.aggregation.ordered import epoch_means
from gatewise.aggregation.particles import moves, smc
from gatewise.aggregation.particles.domains import Box, Simplices
from gatewise.aggregation.particles.forms import form_of
from gatewise.aggregation.particles.likelihood import Calibration, Likelihood, power_of
from gatewise.aggregation.particles.particle_run import Particles, run_particles
from gatewise.gates import KernelGate, LinearGate
from gatewise.nets import ListNet
from tests.aggregation.reference_net import net_predictions


class Gaussian:
    def log_density(self, z):
        return -0.5 * np.square(z) - 0.5 * np.log(2 * np.pi)


class Laplace:
    def log_density(self, z):
        return -np.sqrt(2.0) * np.abs(z) - 0.5 * np.log(2.0)


class StudentT:
    def log_density(self, z, df=5.0):
        peak = lgamma((df + 1) / 2) - lgamma(df / 2) - 0.5 * np.log(np.pi * (df - 2))
        return peak - (df + 1) / 2 * np.log1p(np.square(z) / (df - 2))


class Uniform:
    def log_density(self, z):
        return np.where(np.abs(z) <= np.sqrt(3.0), -np.log(2 * np.sqrt(3.0)), -np.inf)


NOISES = (Gaussian(), Laplace(), StudentT())
RADIUS = 3.0


def stream(n=60, M=2, d=1, sd=0.5, seed=0):
    """Experts that change with every observation: F has no structure the particles could rely on."""
    rng = np.random.default_rng(seed)
    X, F = rng.uniform(-1, 1, (n, d)), rng.normal(scale=1.5, size=(n, M))
    theta = rng.uniform(-2, 2, (M - 1, d + 1))
    y = (LinearGate(M).weights(X, theta) * F).sum(axis=1) + sd * rng.normal(size=n)
    return X, y, F


def grid_truth(gate, thetas, X, y, F, noise, sigma):
    """Online predictions, log_z and mean weights over a list of candidates; sigma a number or one for each."""
    forecasts = np.einsum("snm,nm->sn", gate.weights(X, thetas), F)
    scale = np.broadcast_to(sigma, len(thetas))[:, None]
    log_density = noise.log_density((y - forecasts) / scale) - np.log(scale)
    before = np.cumsum(log_density, axis=1) - log_density
    log_weights = before - logsumexp(before, axis=0)
    weights = np.exp(log_weights)
    return (weights * forecasts).sum(axis=0), logsumexp(log_weights + log_density, axis=0), weights.mean(axis=1)


def box_grid(per_axis=60):
    axis = RADIUS * ((2 * np.arange(per_axis) + 1) / per_axis - 1)
    return np.array(list(product(axis, axis))).reshape(-1, 1, 2)


def mean_gate(result, gate, X):
    """The aggregated gate averaged over the stream, (Q, M): n^-1 sum_t sum_s w_st g(x; theta_s)."""
    n = result.predictions.size
    return sum((e.stop - e.start) / n * gate.mean_weights(X, e.theta, e.weights) for e in result.epochs)


def rms(values):
    return float(np.sqrt(np.mean(np.square(values))))


@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: type(noise).__name__)
def test_two_parameters_equal_a_fine_grid(noise):
    X, y, F = stream()
    gate = LinearGate(2)
    online, log_z, _ = grid_truth(gate, box_grid(), X, y, F, noise, 0.5)
    result = run_particles(Particles(2000), gate, X, y, F, noise, 0.5, rng=0)
    assert rms(result.predictions - online) < 0.02 * 0.5
    assert abs(result.log_z.sum() - log_z.sum()) < 0.3
    assert result.acceptance.mean() > 0.6
    assert (result.acceptance > 0.2).all()


def test_the_gap_falls_with_more_particles():
    X, y, F = stream()
    online = grid_truth(LinearGate(2), box_grid(), X, y, F, Gaussian(), 0.5)[0]
    gaps = [
        np.mean(
            [
                rms(run_particles(Particles(n), LinearGate(2), X, y, F, Gaussian(), 0.5, rng=s).predictions - online)
                for s in (0, 1, 2)
            ]
        )
        for n in (100, 1600)
    ]
    assert gaps[1] < 0.5 * gaps[0]


@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: type(noise).__name__)
def test_calibrated_scale_belongs_to_the_particle(noise):
    X, y, F = stream(n=80)
    calibration = Calibration(X[:20], y[:20], F[:20], low=0.4, high=1.0)
    gate, thetas = LinearGate(2), box_grid()
    residuals = y[:20] - np.einsum("snm,nm->sn", gate.weights(X[:20], thetas), F[:20])
    sigma = np.clip(np.sqrt((residuals**2).mean(axis=1)), 0.4, 1.0)
    online, log_z, _ = grid_truth(gate, thetas, X[20:], y[20:], F[20:], noise, sigma)
    result = run_particles(Particles(2000), gate, X[20:], y[20:], F[20:], noise, calibration, rng=0)
    assert rms(result.predictions - online) < 0.03 * 0.5
    assert abs(result.log_z.sum() - log_z.sum()) < 0.3


@pytest.mark.parametrize("gate", [LinearGate(2, k=1), LinearGate(2, phi="sigmoid")], ids=["top-1", "sigmoid"])
def test_gates_without_gradient_walk(gate):
    X, y, F = stream()
    online, log_z, _ = grid_truth(gate, box_grid(), X, y, F, Gaussian(), 0.5)
    result = run_particles(Particles(1000), gate, X, y, F, Gaussian(), 0.5, rng=0)
    assert rms(result.predictions - online) < 0.04 * 0.5
    assert abs(result.log_z.sum() - log_z.sum()) < 0.3


def test_kernel_gate_equals_a_fine_grid():
    X, y, F = stream()
    gate = KernelGate(2, mesh=2.0, low=-1.0, high=1.0)  # two centres
    axis = (2 * np.arange(80) + 1) / 160
    first = np.array(list(product(axis, axis)))  # (S, C)
    thetas = np.stack([first, 1 - first], axis=1)
    online, log_z, shares = grid_truth(gate, thetas, X, y, F, Gaussian(), 0.5)
    result = run_particles(Particles(2000), gate, X, y, F, Gaussian(), 0.5, rng=0)
    assert rms(result.predictions - online) < 0.02 * 0.5
    assert abs(result.log_z.sum() - log_z.sum()) < 0.3
    np.testing.assert_allclose(mean_gate(result, gate, X[:9]), gate.mean_weights(X[:9], thetas, shares), atol=0.02)


def test_time_averages_equal_those_of_a_fine_grid():
    X, y, F = stream()
    gate, query = LinearGate(2), np.linspace(-1, 1, 7)[:, None]
    shares = grid_truth(gate, box_grid(), X, y, F, Gaussian(), 0.5)[2]
    result = run_particles(Particles(2000), gate, X, y, F, Gaussian(), 0.5, rng=0)
    mean = mean_gate(result, gate, query)
    np.testing.assert_allclose(mean, gate.mean_weights(query, box_grid(), shares), atol=0.02)
    np.testing.assert_allclose(mean.sum(axis=1), 1.0)


@pytest.mark.parametrize("gate", [LinearGate(2), KernelGate(2, mesh=2.0, low=-1.0, high=1.0)], ids=["soft", "kernel"])
def test_the_history_tells_every_online_prediction(gate):
    X, y, F = stream()
    result = run_particles(Particles(300), gate, X, y, F, Gaussian(), 0.5, rng=0)
    assert [epoch.start for epoch in result.epochs][1:] == [epoch.stop for epoch in result.epochs][:-1]
    assert len(result.epochs) == len(result.acceptance) + 1 > 2
    for epoch in result.epochs:
        rows = slice(epoch.start, epoch.stop)
        cuts = np.arange(epoch.start, epoch.stop + 1)  # a stretch for every observation
        candidates = gate_candidates(gate, ListNet(epoch.theta))
        weights = epoch_means(epoch, candidates, gate.features(X[rows]), y[rows], F[rows], Gaussian(), cuts)
        forecasts = np.einsum("snm,nm->sn", gate.weights(X[rows], epoch.theta), F[rows])
        np.testing.assert_allclose((weights * forecasts.T).sum(axis=1), result.predictions[rows])
        np.testing.assert_allclose(weights.mean(axis=0), epoch.weights)


def test_predictions_come_from_the_past():
    X, y, F = stream()
    early = run_particles(Particles(200), LinearGate(2), X[:30], y[:30], F[:30], Gaussian(), 0.5, rng=0)
    changed = np.append(y[:29], 7.0)
    late = run_particles(Particles(200), LinearGate(2), X[:30], changed, F[:30], Gaussian(), 0.5, rng=0)
    np.testing.assert_array_equal(early.predictions, late.predictions)


@pytest.mark.parametrize(
    "gate", [LinearGate(3), LinearGate(3, k=2), KernelGate(3, mesh=1.0)], ids=["soft", "top", "kernel"]
)
def test_a_seed_fixes_the_result_whatever_the_threads(gate):
    X, y, F = stream(n=25, M=3)
    one, two, three = (
        run_particles(Particles(300), gate, X, y, F, Gaussian(), 0.5, rng=5, n_threads=threads)
        for threads in (1, 2, 3)
    )
    assert len(one.acceptance) > 0
    for other in (two, three):
        np.testing.assert_array_equal(one.predictions, other.predictions)
        np.testing.assert_array_equal(one.epochs[-1].theta, other.epochs[-1].theta)


@pytest.mark.parametrize(
    "gate", [LinearGate(3), LinearGate(3, k=1), KernelGate(3, mesh=1.0)], ids=["soft", "top", "kernel"]
)
def test_prior_moves_keep_the_uniform_law(gate):
    """Without a row the target is the prior: coordinates of theta stay uniform, or Beta(1, M - 1) on a simplex."""
    rng = np.random.default_rng(3)
    form = form_of(gate)
    domain = Simplices() if isinstance(gate, KernelGate) else Box(2.0)
    nothing = form.rows(np.zeros((0, 1)), np.zeros(0), np.zeros((0, 3)))
    problem = smc.ParticleProblem(domain, Likelihood.build(form, Gaussian(), 1.0), nothing, 0.5, 5, None)
    state = smc.init(problem, 4000, gate.theta_shape(1), rng)
    before = state.theta
    state, acceptance = smc.move(problem, state, 0, 1.0, rng)
    assert acceptance > 0.2
    assert np.mean(np.abs(state.theta - before)) > 0.1
    law = ("beta", (1, 2)) if isinstance(gate, KernelGate) else ("uniform", (-2.0, 4.0))
    for coordinate in state.theta.reshape(4000, -1).T:
        assert kstest(coordinate, law[0], args=law[1]).pvalue > 1e-3


@pytest.mark.parametrize("one_move", [moves.hamiltonian, moves.random_walk])
def test_moves_keep_a_law_that_leans_on_a_wall(one_move):
    """theta with density exp(theta) on [-1, 1], a wall at its top, has the mean coth(1) - 1."""
    rng = np.random.default_rng(4)
    box = Box(1.0)

    def target(position):
        theta = box.theta(position)
        return theta.sum(axis=(1, 2)) + box.log_prior(theta), box.position_gradient(theta, np.ones(theta.shape))

    u = rng.uniform(size=(20_000, 1, 2))
    theta = np.log(u * (np.e - 1 / np.e) + 1 / np.e)
    chains = moves.start(2 * np.arctanh(theta), target)
    for _ in range(5):
        chains, share = one_move(chains, target, 2.0 * np.eye(2), 0.5, rng)
        assert 0.3 < share < 1.0
    assert abs(box.theta(chains.position).mean() - (1 / np.tanh(1.0) - 1)) < 0.01


@pytest.mark.parametrize("one_move", [moves.hamiltonian, moves.random_walk])
@pytest.mark.parametrize("step", [0.2, 0.6])
def test_moves_keep_the_variance_of_a_normal_law(one_move, step):
    """40,000 coordinates drawn from the law itself: after six moves their variance is within four standard errors."""
    rng = np.random.default_rng(7)

    def target(position):
        return -0.5 * np.square(position).sum(axis=(1, 2)), -position

    chains = moves.start(rng.normal(size=(20_000, 1, 2)), target)
    for _ in range(6):
        chains, _ = one_move(chains, target, np.eye(2), step, rng)
    assert abs(chains.position.var() - 1.0) < 4.0 * np.sqrt(2.0 / 40_000)


def test_chains_forget_where_they_started():
    """A correlated normal law, reached from a single point."""
    rng = np.random.default_rng(6)
    root = np.array([[1.0, 0.0], [0.9, 0.4]])
    precision = np.linalg.inv(root @ root.T)

    def target(position):
        flat = position.reshape(-1, 2)
        return -0.5 * np.einsum("si,ij,sj->s", flat, precision, flat), (-flat @ precision).reshape(position.shape)

    chains = moves.start(np.full((5000, 1, 2), 2.0), target)
    for _ in range(30):
        chains, _ = moves.hamiltonian(chains, target, root, 0.3, rng)
    np.testing.assert_allclose(np.cov(chains.position.reshape(-1, 2).T), root @ root.T, atol=0.08)
    again = moves.covariance_root(chains.position, np.full(5000, 1 / 5000))
    np.testing.assert_allclose(again @ again.T, root @ root.T, atol=0.08)


def test_an_observation_that_few_survive_enters_in_portions():
    X, y, F = stream(n=12)
    F[4] = [30.0, -30.0]  # sixty noise SD apart
    y[4] = 3.0
    online, log_z, _ = grid_truth(LinearGate(2), box_grid(200), X, y, F, Gaussian(), 0.5)
    result = run_particles(Particles(1000), LinearGate(2), X, y, F, Gaussian(), 0.5, rng=0)
    assert result.ess.min() >= 0.25 * 1000
    assert rms(result.predictions[5:] - online[5:]) < 0.1 * 0.5
    assert abs(result.log_z.sum() - log_z.sum()) < 0.4


@pytest.mark.parametrize("gate", [LinearGate(3), KernelGate(3, mesh=1.0)], ids=["softmax", "kernel"])
@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: type(noise).__name__)
@pytest.mark.parametrize("calibrated", [False, True], ids=["known", "calibrated"])
@pytest.mark.parametrize("least", [1.0, 0.1], ids=["whole", "powers"])
def test_gradient_of_the_posterior(gate, noise, calibrated, least):
    X, y, F = stream(n=30, M=3)
    scale = Calibration(X[:10], y[:10], F[:10], 0.01, 10.0) if calibrated else 0.7
    form = form_of(gate)
    domain = Simplices() if isinstance(gate, KernelGate) else Box(3.0)
    likelihood, rows = Likelihood.build(form, noise, scale), form.rows(X[10:], y[10:], F[10:])
    rows = rows._replace(power=np.random.default_rng(8).uniform(least, 1.0, 20))
    target = partial(smc.log_posterior, domain, likelihood, rows, 0.3)
    position = domain.draw(np.random.default_rng(6), 4, gate.theta_shape(1))
    value, grad = target(position)
    theta = domain.theta(position)
    densities = likelihood.log_densities(form.residuals(theta, rows), likelihood.scales(theta))
    expected = densities[:, :-1] @ rows.power[:-1] + 0.3 * rows.power[-1] * densities[:, -1]
    np.testing.assert_allclose(value - domain.log_prior(theta), expected, rtol=1e-9)
    for place in np.ndindex(position.shape[1:]):
        step = np.zeros(position.shape)
        step[(slice(None), *place)] = 1e-6
        slope = (target(position + step)[0] - target(position - step)[0]) / 2e-6
        np.testing.assert_allclose(grad[(slice(None), *place)], slope, rtol=2e-5, atol=2e-5)


def test_power_laws_are_recognised():
    assert power_of(Gaussian()).degree == 2
    assert power_of(Laplace()).degree == 1
    assert power_of(StudentT()) is None
    assert power_of(Uniform()) is None


def test_systematic_resampling_is_fair():
    log_weights = np.log(np.array([0.5, 0.3, 0.15, 0.05]))
    counts = np.zeros(4)
    for u in (np.arange(1000) + 0.5) / 1000:
        counts += np.bincount(smc.systematic(log_weights, 4, u), minlength=4)
    np.testing.assert_allclose(counts / counts.sum(), np.exp(log_weights), atol=1e-3)


def test_what_is_left_out_may_be_any(monkeypatch):
    """Seven particles from four chains of two stages: on average every particle keeps its weight."""
    form = form_of(LinearGate(2))
    likelihood = Likelihood.build(form, Gaussian(), 0.5)
    problem = smc.ParticleProblem(Box(RADIUS), likelihood, form.rows(*stream()), 1.0, 2, None)
    state = smc.init(problem, 7, (1, 2), np.random.default_rng(0))
    monkeypatch.setattr(smc, "_move_block", lambda *args: (np.repeat(args[5], 2, axis=0), 1.0, 1.0))
    rng, counts = np.random.default_rng(0), np.zeros(7)
    for _ in range(4000):
        moved, _ = smc.move(problem, state, 5, 1.0, rng)
        found = (moved.position[:, None] == state.position).all(axis=(2, 3))
        counts += found.sum(axis=0)
    np.testing.assert_allclose(counts / counts.sum(), 1.0 / 7.0, atol=0.006)


@pytest.mark.parametrize(("n", "n_moves"), [(7, 2), (100, 3), (12, 12), (9, 5)])
def test_moves_leave_as_many_particles_as_before(n, n_moves):
    X, y, F = stream()
    result = run_particles(
        Particles(n, threshold=1.0, n_moves=n_moves), LinearGate(2), X, y, F, Gaussian(), 0.5, rng=0
    )
    assert result.acceptance.size > 0
    assert {len(epoch.theta) for epoch in result.epochs} == {n}
    assert np.isfinite(result.predictions).all()


class TestEdges:
    def test_one_row(self):
        X, y, F = stream(n=1)
        result = run_particles(Particles(50), LinearGate(2), X, y, F, Gaussian(), 0.5, rng=0)
        assert result.predictions.shape == (1,)
        np.testing.assert_allclose(result.predictions[0], (mean_gate(result, LinearGate(2), X) * F).sum())

    def test_experts_that_agree(self):
        X, y, F = stream()
        F[:, 1] = F[:, 0]
        result = run_particles(Particles(100), LinearGate(2), X, y, F, Gaussian(), 0.5, rng=0)
        np.testing.assert_allclose(result.predictions, F[:, 0])
        np.testing.assert_allclose(result.ess, 100)

    def test_constant_response(self):
        X, _, F = stream()
        F[:, 0] = 2.0
        calibration = Calibration(X[:20], np.full(20, 2.0), F[:20], 0.05, 1.0)
        result = run_particles(
            Particles(300), LinearGate(2), X[20:], np.full(40, 2.0), F[20:], Gaussian(), calibration, rng=0
        )
        assert rms(result.predictions[20:] - 2.0) < rms(F[40:, 1] - 2.0) / 2

    def test_densities_that_are_zero_in_floating_point(self):
        X, y, F = stream()
        y[5] = 1e4  # every density is exp(-2e8) there
        online = grid_truth(LinearGate(2), box_grid(), X, y, F, Gaussian(), 0.5)[0]
        result = run_particles(Particles(1000), LinearGate(2), X, y, F, Gaussian(), 0.5, rng=0)
        assert np.isfinite(result.log_z).all()
        assert rms(result.predictions[:6] - online[:6]) < 0.1

    @pytest.mark.parametrize("noise", [Gaussian(), Uniform()])
    def test_densities_that_are_zero(self, noise):
        X, y, F = stream()
        y[5] = 1e200
        result = run_particles(Particles(100, threshold=1.0), LinearGate(2), X, y, F, noise, 2.0, rng=0)
        assert result.log_z[5] == -np.inf
        assert np.isfinite(result.predictions).all()
        assert result.acceptance[-1] > 0.05  # a row that no particle allows does not stop the moves

    def test_scores_of_a_million(self):
        X, y, F = stream()
        result = run_particles(Particles(200), LinearGate(2), 1e6 * X, y, F, Gaussian(), 0.5, rng=0)
        assert np.isfinite(result.predictions).all()
        assert np.isfinite(result.log_z).all()

    def test_scores_that_overflow_are_an_error(self):
        _, y, F = stream()
        with pytest.raises(ValueError, match="not a number"):
            run_particles(
                Particles(200),
                LinearGate(3),
                np.full((60, 1), 1e308),
                y,
                np.column_stack([F, y]),
                Gaussian(),
                0.5,
                rng=0,
            )

    @pytest.mark.parametrize("name", ["X", "y", "F"])
    def test_a_nan_is_an_error(self, name):
        data = dict(zip("XyF", stream(), strict=True))
        data[name].flat[3] = np.nan
        with pytest.raises(ValueError, match=f"{name} must be finite"):
            run_particles(Particles(10), LinearGate(2), data["X"], data["y"], data["F"], Gaussian(), 0.5, rng=0)

    def test_shapes_are_checked(self):
        X, y, F = stream()
        with pytest.raises(ValueError, match="F must have shape"):
            run_particles(Particles(10), LinearGate(3), X, y, F, Gaussian(), 0.5, rng=0)
        with pytest.raises(ValueError, match="F must have shape"):
            run_particles(
                Particles(10), LinearGate(2), X, y, F, Gaussian(), Calibration(X, y, F[:, :1], 0.1, 1.0), rng=0
            )
        with pytest.raises(ValueError, match="low and high must satisfy 0 < low <= high"):
            Calibration(X, y, F, 1.0, 0.1)

    @pytest.mark.parametrize(
        ("field", "value"), [("n", 1), ("radius", 0.0), ("threshold", 0.0), ("n_moves", 0), ("n_moves", 11)]
    )
    def test_descriptions_are_checked(self, field, value):
        with pytest.raises(ValueError, match=f"{field} must be"):
            replace(Particles(10), **{field: value})


@pytest.mark.slow
@pytest.mark.parametrize("calibrated", [False, True], ids=["known", "calibrated"])
def test_six_parameters_equal_a_net_of_sixteen_million(calibrated):
    from benchmarks.particles import three_experts

    X, y, F = three_experts(n=1000, sd=1.0)
    gate, n_cal = LinearGate(3), 200 if calibrated else 0
    values = RADIUS * ((2 * np.arange(16) + 1) / 16 - 1)
    options = {"n_cal": n_cal, "low": 0.5, "high": 2.0} if calibrated else {"sigma": 1.0}
    net = net_predictions(values, gate.features(X), y, F, **options)
    scale = Calibration(X[:n_cal], y[:n_cal], F[:n_cal], 0.5, 2.0) if calibrated else 1.0
    gaps = []
    for n in (100, 500, 2500):
        result = run_particles(
            Particles(n), gate, X[n_cal:], y[n_cal:], F[n_cal:], Gaussian(), scale, rng=0, n_threads=2
        )
        gaps.append(rms(result.predictions - net))
    assert gaps[1] < 0.03
    assert gaps[0] > gaps[1] > gaps[2]


@pytest.mark.slow
def test_seventy_seven_parameters():
    from benchmarks.particles import eight_experts

    X, y, F = eight_experts(n=200, sd=0.5)
    first, second = (
        run_particles(Particles(2000), LinearGate(8), X, y, F, Gaussian(), 0.5, rng=seed, n_threads=2)
        for seed in (0, 1)
    )
    assert rms(first.predictions - second.predictions) < 0.08 * 0.5
