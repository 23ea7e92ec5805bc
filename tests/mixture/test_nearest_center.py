"""The nearest-centre construction and the error it promises (`prop:approximation_ability`)."""

import numpy as np
import pytest

from gatewise import nearest_center_moe
from gatewise.mixture.nearest_center import cells_per_side


def grid(d, points):
    axis = np.linspace(0.0, 1.0, points)
    return np.stack([g.ravel() for g in np.meshgrid(*[axis] * d, indexing="ij")], axis=1)


def ramp(X):  # 1-Lipschitz; its error at the corners is the promised one
    return X.sum(axis=1) / np.sqrt(X.shape[1])


def bump(X):  # 1-Lipschitz
    return np.abs(np.linalg.norm(X - 0.4, axis=1) - 0.3)


@pytest.mark.parametrize("h", [ramp, bump])
@pytest.mark.parametrize(
    ("d", "n_experts", "points", "k", "radius"),
    [
        (1, 40, 4001, 1, 0.5),
        (1, 40, 4001, 3, 20.0),
        (2, 60, 301, 1, 20.0),
        (2, 60, 301, 2, 1.0),
        (3, 100, 61, 3, 0.5),
    ],
)
def test_the_error_is_at_most_what_is_promised(h, d, n_experts, points, k, radius):
    model = nearest_center_moe(h, n_experts, d, k, radius)
    q = int(np.floor((n_experts / k) ** (1 / d) + 1e-9))
    X = grid(d, points)
    error = np.abs(model.predict(X) - h(X)).max()
    assert error <= np.sqrt(d) / (2 * q) * (1 + 1e-9)
    if h is ramp:  # the promise is sharp
        assert error >= np.sqrt(d) / (2 * q) * 0.99


@pytest.mark.parametrize(("d", "n_experts", "k"), [(1, 10, 3), (2, 9, 1), (2, 17, 2), (3, 30, 1)])
def test_parameters_lie_in_twice_the_box_and_dummies_are_never_selected(d, n_experts, k):
    model = nearest_center_moe(ramp, n_experts, d, k, radius=1.5)
    assert np.abs(model.theta).max() <= 2 * 1.5
    assert model.theta.shape == (n_experts - 1, d + 1)
    used = k * cells_per_side(n_experts, d, k) ** d
    assert model.gate.active(grid(d, 15), model.theta).max() < used
    assert all(expert.value == 0.0 for expert in model.experts[used:])


def test_only_copies_of_one_centre_are_active_off_the_borders():
    model = nearest_center_moe(bump, 32, 2, k=2)
    X = np.random.default_rng(0).uniform(size=(500, 2))
    values = np.array([expert.value for expert in model.experts])
    chosen = values[model.gate.active(X, model.theta)]
    np.testing.assert_array_equal(chosen[:, 0], chosen[:, 1])
    np.testing.assert_allclose(model.gate_weights(X).max(axis=1), 0.5)


@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_whole_roots_are_not_lost_to_rounding(d):
    for q in range(1, 12):
        assert cells_per_side(3 * q**d, d, 3) == q
        assert cells_per_side(3 * (q + 1) ** d - 1, d, 3) == q


def test_bad_requests_are_named():
    with pytest.raises(ValueError, match="k must be a whole number from 1 to 4"):
        nearest_center_moe(ramp, 4, 1, k=5)
    with pytest.raises(ValueError, match="radius must be a finite number above 0"):
        nearest_center_moe(ramp, 4, 1, radius=0.0)
    with pytest.raises(ValueError, match=r"the function h must return shape \(4,\)"):
        nearest_center_moe(lambda X: X, 4, 1)
