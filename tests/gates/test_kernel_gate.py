"""The Gaussian-kernel gate."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatewise.gates import FeatureGate, KernelGate
from tests.families import random_theta
from tests.gates.naive import naive_kernel_weights


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("kappa", [0.5, 0.75, 1.0])
def test_weights_agree_with_the_naive_sum(d, kappa):
    gate, rng = KernelGate(3, mesh=0.4, kappa=kappa, low=-1.0, high=1.0), np.random.default_rng(d)
    X, theta = rng.uniform(-1.5, 1.5, size=(40, d)), random_theta(gate, rng, d=d)
    naive = [naive_kernel_weights(x, theta, gate.centers(d), kappa * 0.4) for x in X]
    np.testing.assert_allclose(gate.weights(X, theta), naive, rtol=1e-11)


@pytest.mark.parametrize(("mesh", "side"), [(1.0, 3), (2 / 3, 4), (0.1, 21), (0.3, 7), (3.0, 1)])
def test_the_grid_has_every_centre_in_the_cube(mesh, side):
    gate = KernelGate(2, mesh=mesh, low=-1.0, high=1.0)
    centers = gate.centers(2)
    assert centers.shape == (side**2, 2)
    assert gate.n_params(2) == 2 * side**2
    assert centers.min() == -1.0
    assert centers.max() <= 1.0 + 1e-12
    np.testing.assert_array_equal(centers[0], [-1.0, -1.0])
    if side > 1:
        np.testing.assert_allclose(centers[1], [-1.0, -1.0 + mesh])  # the last coordinate runs fastest


def test_low_and_high_may_differ_by_coordinate():
    gate = KernelGate(2, mesh=1.0, low=(0.0, 10.0), high=np.array([2.0, 11.0]))
    np.testing.assert_array_equal(gate.centers(2).max(axis=0), [2.0, 11.0])
    assert gate.theta_shape(2) == (2, 6)
    with pytest.raises(ValueError, match="low has 2 coordinates, but X has 3 columns"):
        gate.theta_shape(3)


@given(st.floats(1.0, 1e12), st.floats(-1e12, 1e12))
def test_far_outside_the_cube_weights_are_a_probability_vector(x, y):
    gate = KernelGate(3, mesh=0.5)
    weights = gate.weights([[x, y]], random_theta(gate, np.random.default_rng(0)))
    assert np.isfinite(weights).all()
    assert (weights >= 0).all()
    np.testing.assert_allclose(weights.sum(), 1.0, rtol=1e-12)


def test_far_outside_the_nearest_centre_decides():
    gate = KernelGate(2, mesh=0.5)
    theta = np.vstack([np.eye(1, 3, 2), 1 - np.eye(1, 3, 2)])  # all weight of expert 0 at the last centre
    np.testing.assert_allclose(gate.weights([[1e6]], theta), [[1.0, 0.0]])


def test_one_vector_at_every_centre_is_a_global_average():
    gate = KernelGate(3, mesh=0.25)
    theta = np.tile([[0.2], [0.3], [0.5]], gate.theta_shape(2)[1])
    X = np.random.default_rng(0).uniform(size=(30, 2))
    np.testing.assert_allclose(gate.weights(X, theta), np.tile([0.2, 0.3, 0.5], (30, 1)), rtol=1e-12)


def test_hard_assignments_by_region_are_reached_away_from_the_border():
    gate = KernelGate(2, mesh=0.02, kappa=0.5)
    left = (gate.centers(1)[:, 0] < 0.5).astype(float)
    weights = gate.weights([[0.4], [0.6]], np.vstack([left, 1 - left]))
    np.testing.assert_allclose(weights, [[1.0, 0.0], [0.0, 1.0]], atol=1e-12)


def test_a_grid_that_is_too_large_names_its_count():
    with pytest.raises(ValueError, match=r"25,937,424,601 centres \(11 x .* more than 100,000"):
        KernelGate(2, mesh=0.1).theta_shape(10)


def test_theta_must_hold_simplex_vectors():
    gate = KernelGate(2, mesh=1.0)
    with pytest.raises(ValueError, match="a simplex vector per centre"):
        gate.weights([[0.0]], [[0.5, 0.5], [0.4, 0.5]])
    with pytest.raises(ValueError, match="a simplex vector per centre"):
        gate.weights([[0.0]], [[1.5, 0.5], [-0.5, 0.5]])


def test_rows_are_taken_in_blocks(monkeypatch):
    gate, rng = KernelGate(3, mesh=0.2), np.random.default_rng(0)
    X, theta = rng.uniform(size=(50, 2)), random_theta(gate, rng)
    whole = gate.weights(X, theta)
    monkeypatch.setattr("gatewise.gates.kernel.BLOCK_NUMBERS", 36 * 7)
    np.testing.assert_allclose(gate.weights(X, theta), whole, rtol=1e-14)


def test_softmax_of_the_scores_is_the_gate_even_where_a_weight_is_zero():
    gate = KernelGate(2, mesh=1.0)
    scores = gate.scores([[0.3]], [[1.0, 1.0], [0.0, 0.0]])
    np.testing.assert_array_equal(scores, [[0.0, -np.inf]])


def test_top_k_on_kernel_features_is_a_score_gate():
    kernel, rng = KernelGate(3, mesh=0.5), np.random.default_rng(0)
    gate = FeatureGate(3, k=1, transform=kernel.features)
    weights = gate.weights(rng.uniform(size=(20, 2)), random_theta(gate, rng))
    np.testing.assert_array_equal(np.sort(weights, axis=1), np.tile([0.0, 0.0, 1.0], (20, 1)))


def test_the_lattice_net_lists_every_combination():
    gate = KernelGate(2, mesh=1.0)
    net = gate.net(levels=2, d=1)
    assert net.size == 9
    thetas = np.concatenate(list(net.blocks(4)))
    for theta in thetas:
        gate.check_theta(theta, 1)
    assert len(np.unique(thetas, axis=0)) == 9
    assert gate.net(thetas=thetas[:3]).size == 3


def test_a_lattice_net_that_is_too_large_points_to_least_squares():
    with pytest.raises(ValueError, match=r"S = 66\^9 candidates.*exact least squares"):
        KernelGate(3, mesh=0.5).net(levels=10, d=2)
    with pytest.raises(ValueError, match="net takes one of"):
        KernelGate(3, mesh=0.5).net()
    with pytest.raises(ValueError, match="levels needs d"):
        KernelGate(3, mesh=0.5).net(levels=1)
