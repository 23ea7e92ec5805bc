"""Margins, changes of the active set, anti-concentration and the modulus (`def:parameter` to `pro:continuity`)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatewise import KernelGate, LinearGate, QuadraticGate
from gatewise.geometry import (
    active_set_changes,
    active_sets_differ,
    anti_concentration,
    border_margin,
    continuity_modulus,
    slope_separation,
    top_k_margin,
)


@given(st.integers(0, 10_000), st.integers(1, 4))
def test_no_move_of_the_scores_by_less_than_half_the_margin_changes_the_active_set(seed, k):
    rng = np.random.default_rng(seed)
    X, gate, theta = rng.normal(size=(20, 2)), LinearGate(4, k=k), rng.normal(size=(3, 3))
    margin = top_k_margin(gate.scores(X, theta), k)
    other = theta + rng.normal(scale=0.3, size=theta.shape)
    moved = np.abs(gate.scores(X, theta) - gate.scores(X, other)).max(axis=1)
    changed = active_sets_differ(gate.active(X, theta), gate.active(X, other))
    assert not changed[moved < margin / 2].any()


@given(st.integers(0, 10_000), st.integers(1, 3))
def test_the_border_margin_is_the_distance_to_a_change(seed, k):
    rng = np.random.default_rng(seed)
    X, gate, theta = rng.normal(size=(10, 2)), LinearGate(4, k=k), rng.normal(size=(3, 3))
    margin, before = border_margin(gate, X, theta), np.sort(gate.active(X, theta))
    angles = np.linspace(0, 2 * np.pi, 721)
    circle = np.column_stack([np.cos(angles), np.sin(angles)])
    for scale, changes in ((0.999, False), (1.01, True)):
        around = (X[:, None] + scale * margin[:, None, None] * circle).reshape(-1, 2)
        after = np.sort(gate.active(around, theta)).reshape(10, 721, k)
        assert ((after != before[:, None]).any(axis=(1, 2)) == changes).all()


def test_margins_without_a_border_are_infinite():
    assert np.isinf(top_k_margin([[1.0, 2.0]], 2)).all()
    assert np.isinf(border_margin(LinearGate(2, k=2), [[1.0]], [[1.0, 0.0]])).all()
    assert np.isinf(border_margin(LinearGate(2, k=1), [[1.0]], [[0.0, 1.0]])).all()  # equal slopes


def test_slope_separation_counts_the_reference():
    assert slope_separation(LinearGate(3), [[3.0, 4.0, 9.0], [3.0, 4.5, 0.0]], d=2) == pytest.approx(0.5)
    assert slope_separation(LinearGate(3), [[0.0, 0.1, 9.0], [3.0, 4.5, 0.0]], d=2) == pytest.approx(0.1)
    assert slope_separation(LinearGate(2, intercept=False), [[3.0, 4.0]], d=2) == pytest.approx(5.0)


def test_changes_of_the_active_set_against_the_closed_form():
    """Scores x + a and 0: moving (slope, intercept) to (1 + u, v) moves the threshold from 0 to -v / (1 + u)."""
    X = np.linspace(-1, 1, 40_001)[:, None]
    rng = np.random.default_rng(5)
    deltas = np.array([0.0, 0.05, 0.2])
    curve = active_set_changes(LinearGate(2, k=1), X, [[1.0, 0.0]], deltas, n_directions=30, seed=5)
    u = rng.normal(size=(30, 2))
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    exact = np.abs(deltas[:, None] * u[:, 1] / (1 + deltas[:, None] * u[:, 0])) / 2
    np.testing.assert_allclose(curve.mean, exact.mean(axis=1), atol=1e-4)
    np.testing.assert_allclose(curve.worst, exact.max(axis=1), atol=1e-4)


def test_any_score_gate_has_a_change_curve():
    X = np.random.default_rng(0).uniform(-1, 1, size=(500, 2))
    gate = QuadraticGate(3, k=2)
    theta = np.random.default_rng(1).normal(size=gate.theta_shape(2))
    curve = active_set_changes(gate, X, theta, [0.0, 0.1, 1.0])
    assert curve.mean[0] == curve.worst[0] == 0
    assert curve.mean[1] < curve.mean[2]
    assert (curve.mean <= curve.worst).all()


@pytest.mark.parametrize(
    ("draw", "exact"),
    [
        (lambda rng: rng.uniform(size=(40_000, 1)), 2.0),
        (lambda rng: rng.uniform(-1, 1, size=(40_000, 2)), np.sqrt(2)),  # across the diagonal
        (lambda rng: rng.normal(size=(40_000, 3)), np.sqrt(2 / np.pi)),
    ],
)
def test_anti_concentration_of_known_distributions(draw, exact):
    found = anti_concentration(draw(np.random.default_rng(2)))
    assert found.low <= exact
    assert found.value == pytest.approx(exact, rel=0.08)
    assert found.low <= found.value <= found.high
    assert np.linalg.norm(found.direction) == pytest.approx(1.0)


def test_a_point_mass_has_no_anti_concentration_and_scaling_divides_it():
    X = np.random.default_rng(3).normal(size=(2000, 2))
    lumps = np.vstack([X, np.zeros((500, 2))])
    assert np.isinf(anti_concentration(lumps).value)
    plain, scaled = anti_concentration(X, seed=4), anti_concentration(10 * X, seed=4)
    assert scaled.value == pytest.approx(plain.value / 10)
    along = anti_concentration(X * [1.0, 0.01], directions=[[0.0, 2.0]])
    assert along.value == pytest.approx(100 * np.sqrt(2 / np.pi), rel=0.2)


@pytest.mark.parametrize(("k", "phi"), [(1, "exp"), (2, "exp"), (2, "sigmoid"), (4, "exp")])
def test_the_modulus_stays_below_its_bound(k, phi):
    rng = np.random.default_rng(6)
    X = rng.uniform(-1, 1, size=(4000, 2))
    gate = LinearGate(4, k=k, phi=phi)
    for _ in range(40):
        theta = rng.normal(size=(3, 3))
        direction = rng.normal(size=(3, 3))
        for delta in (0.001, 0.03, 1.0):
            other = theta + delta * direction / np.linalg.norm(direction)
            found = continuity_modulus(gate, X, theta, other, anti_concentration=np.sqrt(2))
            assert found.delta == pytest.approx(delta)
            assert found.measured <= found.bound


def test_top_1_moves_like_the_root_of_delta_and_dense_like_delta():
    """Halving the exponent is what `pro:continuity` says of sparse gates; a dense gate is Lipschitz."""
    X = np.random.default_rng(7).uniform(-1, 1, size=(200_000, 1))
    deltas = np.array([0.02, 0.08, 0.32])
    for k, exponent in ((1, 0.5), (None, 1.0)):
        gate = LinearGate(2, k=k)
        measured = [
            continuity_modulus(gate, X, [[1.0, 0.0]], [[1.0, t]], anti_concentration=1.0).measured for t in deltas
        ]
        assert np.polyfit(np.log(deltas), np.log(measured), 1)[0] == pytest.approx(exponent, abs=0.03)


def test_one_sided_bound_fails_without_separation():
    with pytest.raises(ValueError, match="its separation r is 0"):
        continuity_modulus(LinearGate(2), [[1.0]], [[0.0, 1.0]], [[0.1, 1.0]], anti_concentration=1.0)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: top_k_margin([[1.0, 2.0]], 3), ValueError, "k must be a whole number from 1 to 2"),
        (lambda: slope_separation(QuadraticGate(2), [[1.0, 1.0, 1.0]], 1), TypeError, "gate must be a LinearGate"),
        (lambda: slope_separation(LinearGate(2), np.zeros((4, 1, 2)), 1), ValueError, "theta must be one parameter"),
        (lambda: active_sets_differ([[0]], [[0, 1]]), ValueError, "must both have shape"),
        (lambda: anti_concentration(np.zeros((10, 1))), ValueError, "X must have at least 80 rows"),
        (lambda: anti_concentration(np.zeros((100, 1)), directions=[[0.0]]), ValueError, "without a zero row"),
        (lambda: anti_concentration(np.zeros((100, 1)), min_share=2), ValueError, "min_share must lie strictly"),
        (
            lambda: active_set_changes(KernelGate(2, mesh=1.0), [[0.5]], [[1.0, 0.0], [0.0, 1.0]], [0.1]),
            ValueError,
            "theta must hold a simplex vector",
        ),
    ],
)
def test_bad_input_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call()
