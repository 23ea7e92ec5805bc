"""Least squares by many starts against brute force and what must hold at a minimum."""

import numpy as np
import pytest

from gatewise.aggregation.erm import least_squares, net_least_squares
from gatewise.gates import FeatureGate, KernelGate, LinearGate, QuadraticGate


def data(n=150, M=3, d=2, sd=0.3, seed=0):
    rng = np.random.default_rng(seed)
    X, F = rng.uniform(-1, 1, (n, d)), rng.normal(size=(n, M))
    theta = rng.uniform(-2, 2, (M - 1, d + 1))
    return X, (LinearGate(M).weights(X, theta) * F).sum(axis=1) + sd * rng.normal(size=n), F, theta


def mse(gate, X, y, F, theta):
    return float(np.mean((y - (gate.weights(X, theta) * F).sum(axis=1)) ** 2))


@pytest.mark.parametrize(
    "gate",
    [LinearGate(3), LinearGate(3, intercept=False), QuadraticGate(3), FeatureGate(3, transform=np.tanh)],
    ids=["linear", "no intercept", "quadratic", "features"],
)
def test_nothing_in_the_box_is_better(gate):
    X, y, F, theta = data()
    found = least_squares(gate, X, y, F, radius=2.5)
    assert found.mse == pytest.approx(mse(gate, X, y, F, found.theta))
    assert np.abs(found.theta).max() <= 2.5
    rng = np.random.default_rng(1)
    near = np.clip(found.theta + 0.01 * rng.normal(size=(50, *found.theta.shape)), -2.5, 2.5)
    far = rng.uniform(-2.5, 2.5, (500, *found.theta.shape))
    assert min(mse(gate, X, y, F, other) for other in [*near, *far]) >= found.mse - 1e-10
    if isinstance(gate, LinearGate) and gate.intercept:
        assert found.mse <= mse(gate, X, y, F, theta)


def test_a_fine_grid_finds_nothing_better():
    X, y, F, _ = data(M=2, d=1)
    axis = np.linspace(-2.0, 2.0, 81)
    grid = np.array([[[a, b]] for a in axis for b in axis])
    residuals = y - np.einsum("snm,nm->sn", LinearGate(2).weights(X, grid), F)
    best = (residuals**2).mean(axis=1).min()
    found = least_squares(LinearGate(2), X, y, F, radius=2.0)
    assert best - 0.01 < found.mse <= best


def test_local_optima_are_counted():
    X, y, F, _ = data()
    found = least_squares(LinearGate(3), X, y, F, radius=6.0, n_starts=30)
    assert found.n_starts == 30 == found.hits.sum()
    assert (np.diff(found.mses) > 0).all()
    assert len(found.optima) == len(found.mses) == len(found.hits)
    assert found.gap == (found.mses[1] - found.mses[0] if len(found.mses) > 1 else np.inf)
    np.testing.assert_array_equal(found.optima[0], found.theta)


def test_a_seed_fixes_the_result():
    X, y, F, _ = data()
    first, second = (least_squares(LinearGate(3), X, y, F, radius=3.0, n_starts=4, rng=7) for _ in range(2))
    np.testing.assert_array_equal(first.theta, second.theta)


def test_two_optima_are_told_apart():
    """One feature of sign s: score a s fits the left half or the right, but b is bound to opposite signs."""
    X = np.array([[-1.0], [1.0], [3.0], [-3.0]])
    y, F = np.array([1.0, 1.0, -1.0, -0.9]), np.tile([1.0, -1.0], (4, 1))
    found = least_squares(LinearGate(2), X, y, F, radius=20.0, n_starts=40)
    assert len(found.mses) >= 2
    assert found.gap > 1e-3


class TestEdges:
    def test_one_row(self):
        found = least_squares(LinearGate(2), [[1.0]], [0.5], [[0.0, 1.0]], radius=1.0)
        assert found.mse < 1e-12

    def test_constant_response(self):
        X, _, F, _ = data()
        assert np.isfinite(least_squares(LinearGate(3), X, np.ones(150), F, radius=2.0).mse)

    def test_experts_that_agree(self):
        X, y, F, _ = data()
        found = least_squares(LinearGate(3), X, y, np.repeat(F[:, :1], 3, axis=1), radius=2.0)
        assert len(found.mses) == 1
        assert found.gap == np.inf
        assert not found.theta.any()

    def test_scores_of_a_million(self):
        X, y, F, _ = data()
        found = least_squares(LinearGate(3), 1e6 * X, y, F, radius=2.0, n_starts=5)
        assert np.isfinite(found.theta).all()

    def test_top_k_is_an_error_that_names_the_remedy(self):
        X, y, F, _ = data()
        with pytest.raises(ValueError, match=r"Top-K gate .* Particles"):
            least_squares(LinearGate(3, k=2), X, y, F, radius=2.0)

    def test_kernel_gate_is_an_error_that_names_the_remedy(self):
        X, y, F, _ = data()
        with pytest.raises(ValueError, match="convex"):
            least_squares(KernelGate(3, mesh=0.5), X, y, F, radius=2.0)

    def test_other_transformations_are_an_error(self):
        X, y, F, _ = data()
        with pytest.raises(ValueError, match="phi='exp'"):
            least_squares(LinearGate(3, phi="sigmoid"), X, y, F, radius=2.0)

    def test_shapes_are_checked(self):
        X, y, F, _ = data()
        with pytest.raises(ValueError, match="F must have shape"):
            least_squares(LinearGate(3), X, y, F[:, :2], radius=2.0)


def test_least_squares_over_a_net_is_the_smallest_of_its_errors():
    rng = np.random.default_rng(5)
    X, y, F = rng.normal(size=(80, 2)), rng.normal(size=80), rng.normal(size=(80, 3))
    for gate in (LinearGate(3, intercept=False), LinearGate(3, k=1, intercept=False)):
        net = gate.net([-1.0, 0.0, 2.0], d=2, min_separation=0.5)
        thetas = np.concatenate(list(net.blocks()))
        errors = np.mean((y - np.einsum("snm,nm->sn", gate.weights(X, thetas), F)) ** 2, axis=1)
        errors[~net.allowed()] = np.inf
        found = net_least_squares(gate, net, X, y, F)
        assert found.mse == pytest.approx(errors.min())
        np.testing.assert_array_equal(found.theta, thetas[np.argmin(errors)])
        assert found.candidate == np.argmin(errors)
