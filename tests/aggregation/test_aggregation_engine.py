"""The engine: both kinds of candidates, every route, and its errors."""

import numpy as np
import pytest
from scipy.special import log_expit

from gatewise.aggregation.engine import (
    aggregate,
    aggregated_gate,
    calibrate,
    mean_squared_gap,
    project_l2,
    weight_path,
)
from gatewise.aggregation.gate_candidates import ListCandidates, ProductCandidates
from gatewise.aggregation.weights import after, effective_size
from gatewise.noise import DoubleExponential, Gaussian, StudentT
from tests import oracle

RNG = np.random.default_rng(0)
N, P = 30, 3
FACTORS = (RNG.normal(size=(5, P)), RNG.normal(size=(7, P)))
GRID = np.stack([np.repeat(FACTORS[0], 7, axis=0), np.tile(FACTORS[1], (5, 1))], axis=1)
FEATURES, Y, F = RNG.normal(size=(N, P)), RNG.normal(size=N), RNG.normal(size=(N, 3))
KINDS = {"product": lambda **kw: ProductCandidates(FACTORS, **kw), "list": lambda **kw: ListCandidates(GRID, **kw)}


def twin(k=3, log_phi=lambda s: s):
    scores = oracle.list_scores(GRID, FEATURES)
    gates = oracle.gates(scores, log_phi(scores), k)
    return gates, oracle.residuals(gates, Y, F)


@pytest.mark.parametrize("log_phi", [None, log_expit], ids=["exp", "sigmoid"])
@pytest.mark.parametrize("noise", ["gaussian", lambda z: Gaussian().log_density(z)], ids=["kernel", "callable"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [None, 2])
def test_every_route_gives_the_twin(kind, k, noise, log_phi):
    candidates = KINDS[kind](k=k, log_phi=log_phi)
    gates, residual = twin(k or 3, log_phi or (lambda s: s))
    sigma = calibrate(candidates, FEATURES, Y, F, (0.9, 1.2))
    np.testing.assert_allclose(sigma, np.sqrt(np.clip(np.mean(residual**2, axis=1), 0.81, 1.44)), rtol=1e-12)
    result = aggregate(candidates, FEATURES, Y, F, sigma, noise, edges=[0, 10, N])
    weights, log_z = oracle.aggregate(residual, sigma, Gaussian().log_density)
    online = Y - (weights[:, :N] * residual).sum(axis=0)
    np.testing.assert_allclose(result.predictions, online, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(result.log_z, log_z, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(np.exp(result.log_weights), weights[:, N], rtol=1e-9)
    np.testing.assert_allclose(result.mean_weights[1], weights[:, 10:N].mean(axis=1), rtol=1e-9)
    assert effective_size(result.log_weights) == pytest.approx(1.0 / (weights[:, N] ** 2).sum())
    gate = aggregated_gate(candidates, FEATURES, result.mean_weights[0])
    np.testing.assert_allclose(gate, np.einsum("s,snm->nm", weights[:, :10].mean(axis=1), gates), rtol=1e-9)
    path = weight_path(candidates, FEATURES, Y, F, sigma, result.log_z, [3, 0, 34], noise)
    np.testing.assert_allclose(path, weights[[3, 0, 34]], rtol=1e-9)


@pytest.mark.parametrize("log_phi", [None, log_expit], ids=["exp", "sigmoid"])
@pytest.mark.parametrize("noise", ["gaussian", lambda z: Gaussian().log_density(z)], ids=["kernel", "callable"])
@pytest.mark.parametrize("kind", KINDS)
def test_powers_on_every_route(kind, noise, log_phi):
    candidates, power = KINDS[kind](log_phi=log_phi), np.random.default_rng(3).uniform(0.05, 1.0, N)
    _, residual = twin(3, log_phi or (lambda s: s))
    weights, log_z = oracle.aggregate(residual, 0.7, Gaussian().log_density, None, power)
    result = aggregate(candidates, FEATURES, Y, F, 0.7, noise, edges=[0, 10, N], power=power)
    np.testing.assert_allclose(result.log_z, log_z, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(np.exp(result.log_weights), weights[:, N], rtol=1e-9)
    np.testing.assert_allclose(result.mean_weights[1], np.average(weights[:, 10:N], 1, power[10:]), rtol=1e-9)
    path = weight_path(candidates, FEATURES, Y, F, 0.7, result.log_z, [3, 0, 34], noise, power=power)
    np.testing.assert_allclose(path, weights[[3, 0, 34]], rtol=1e-9)


@pytest.mark.parametrize("power", [np.ones(N - 1), np.full(N, 1.5), np.zeros(N), np.full(N, np.nan)])
def test_a_power_outside_of_its_range_is_refused(power):
    with pytest.raises(ValueError, match="power must hold 30 numbers above 0 and at most 1"):
        aggregate(KINDS["list"](), FEATURES, Y, F, 1.0, power=power)


@pytest.mark.parametrize("noise", [Gaussian(), DoubleExponential(), StudentT(5.0)], ids=lambda n: type(n).__name__)
@pytest.mark.parametrize("kind", KINDS)
def test_the_compiled_weights_are_those_of_after(kind, noise):
    sigma, prior = RNG.uniform(0.5, 2.0, 35), np.log(RNG.dirichlet(np.ones(35)))
    result = aggregate(KINDS[kind](), FEATURES, Y, F, sigma, noise, prior, edges=range(N + 1))
    path = after((noise.log_density(twin()[1] / sigma[:, None]) - np.log(sigma)[:, None]).T, prior)
    np.testing.assert_allclose(result.mean_weights, path[:-1], rtol=1e-9)
    np.testing.assert_allclose(np.exp(result.log_weights), path[-1], rtol=1e-9)


@pytest.mark.parametrize("log_phi", [None, log_expit])
@pytest.mark.parametrize("kind", KINDS)
def test_projection_finds_the_nearest(kind, log_phi):
    candidates = KINDS[kind](log_phi=log_phi)
    gates, residual = twin(3, log_phi or (lambda s: s))
    area = RNG.random(N)
    squares = (area * residual**2).sum(axis=1)
    found = project_l2(candidates, FEATURES, Y, F, area)
    assert found.candidate == np.argmin(squares)
    assert found.square == pytest.approx(squares.min())
    own = (gates[11] * F).sum(axis=-1)
    assert project_l2(candidates, FEATURES, own, F).candidate == 11


def test_of_equal_candidates_the_first_is_taken_across_tiles_and_threads():
    theta = np.tile(np.random.default_rng(5).normal(size=(1, F.shape[1] - 1, FEATURES.shape[1])), (700, 1, 1))
    copies = ListCandidates(theta)
    for n_threads in (1, 2):
        assert project_l2(copies, FEATURES, Y, F, n_threads=n_threads).candidate == 0
    assert project_l2(copies, FEATURES, Y, F, allowed=np.arange(700) >= 300).candidate == 300


@pytest.mark.parametrize("concentration", [1.0, 0.01], ids=["all candidates", "a few"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_gap_is_the_weighted_mean_of_squares(kind, concentration):
    weights = np.random.default_rng(3).dirichlet(np.full(35, concentration))
    found = mean_squared_gap(KINDS[kind](), FEATURES, Y, F, weights)
    np.testing.assert_allclose(found, weights @ twin()[1] ** 2, rtol=1e-7)


def test_a_density_of_zero_everywhere_keeps_the_ratios():
    def narrow(z):  # total 1, mean 0, variance 1, and nothing beyond sqrt(3)
        return np.where(np.abs(z) <= np.sqrt(3.0), -np.log(2.0 * np.sqrt(3.0)), -np.inf)

    class Narrow:
        log_density = staticmethod(narrow)

    far = Y + 1e6
    result = aggregate(KINDS["product"](), FEATURES, far, F, 1.0, Narrow())
    np.testing.assert_allclose(result.mean_weights[0], 1.0 / 35.0)
    gaussian = aggregate(KINDS["product"](), FEATURES, far, F, 1.0)
    assert np.isfinite(gaussian.predictions).all()
    assert gaussian.mean_weights.sum() == pytest.approx(1.0)


def spoiled(array, value):
    copy = np.array(array)
    copy.flat[3] = value
    return copy


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("name", ["features", "y", "F"])
def test_what_is_not_finite_is_named(name, value):
    arrays = {"features": FEATURES, "y": Y, "F": F}
    arrays[name] = spoiled(arrays[name], value)
    with pytest.raises(ValueError, match=f"{name} must be finite"):
        aggregate(KINDS["product"](), **arrays, sigma=1.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sigma": 0.0}, "sigma must be finite and above 0"),
        ({"sigma": np.ones(3)}, r"sigma must be a number or have shape \(35,\)"),
        ({"log_prior": np.zeros(3)}, r"log_prior must have shape \(35,\)"),
        ({"log_prior": np.full(35, -np.inf)}, "finite for at least one"),
        ({"edges": [0, 5, 5]}, "edges must rise"),
        ({"y": np.zeros(0)}, "y must have at least one row"),
        ({"F": F[:, :2]}, r"F must have shape \(30, 3\)"),
        ({"sigma": 1e-200}, "density overflows"),
    ],
)
def test_errors_name_the_argument(arguments, message):
    given = {"features": FEATURES, "y": Y, "F": F, "sigma": 1.0} | arguments
    with pytest.raises(ValueError, match=message):
        aggregate(KINDS["product"](), **given)


@pytest.mark.parametrize("bounds", [(0.0, 1.0), (2.0, 1.0), (1.0, np.inf)])
def test_crossed_bounds(bounds):
    with pytest.raises(ValueError, match="0 < low <= high < inf"):
        calibrate(KINDS["product"](), FEATURES, Y, F, bounds)


def test_other_errors():
    candidates = KINDS["list"]()
    with pytest.raises(ValueError, match="quadrature must hold 30"):
        project_l2(candidates, FEATURES, Y, F, -np.ones(N))
    with pytest.raises(ValueError, match="target must be finite"):
        project_l2(candidates, FEATURES, spoiled(Y, np.nan), F)
    with pytest.raises(ValueError, match=r"weights must have shape \(35,\)"):
        aggregated_gate(candidates, FEATURES, np.ones(2))
    with pytest.raises(ValueError, match="chosen must be a vector"):
        weight_path(candidates, FEATURES, Y, F, 1.0, np.zeros(N + 1), [35])
    with pytest.raises(ValueError, match="scores overflow"):
        calibrate(ListCandidates(GRID * 1e200), FEATURES * 1e200, Y, F, (0.1, 1.0))
    with pytest.raises(ValueError, match="returned a NaN"):
        aggregate(candidates, FEATURES, Y, F, 1.0, _broken())
    with pytest.raises(ValueError, match="log_phi must be finite"):
        calibrate(KINDS["product"](log_phi=lambda s: np.where(s > 0, 0.0, -np.inf)), FEATURES, Y, F, (0.1, 1.0))


def _broken():
    class Broken:
        def log_density(self, z):
            return np.full_like(z, np.nan)

    return Broken()
