"""The gates of the paper's proofs, against what they promise."""

import numpy as np
import pytest

import gatewise as gw
from gatewise import geometry, theory

rng = np.random.default_rng(0)
DIRECTIONS = np.array([[1.0, 0.2, 0.1], [-0.8, 0.7, 0.0], [-0.3, -0.9, 0.0]])
X = rng.uniform(-1.0, 1.0, size=(3000, 2))
ROWS = np.column_stack([X, np.ones(3000)])
REGION = (ROWS @ DIRECTIONS.T).argmax(axis=1)
NORM = float(np.sqrt(3.0))


def test_oracle_kernel_weights_against_the_definition():
    gate = gw.KernelGate(3, mesh=0.25)
    targets = rng.dirichlet(np.ones(3), size=2)

    def regions(Z):
        return (Z[:, 0] + Z[:, 1] > 1.0).astype(int)

    theta = geometry.oracle_kernel_weights(gate, 2, regions, targets)
    for c, center in enumerate(gate.centers(2)):
        np.testing.assert_array_equal(theta[:, c], targets[int(center.sum() > 1.0)])
    built = geometry.oracle_kernel_gate(regions, 2, 0.25, targets)
    np.testing.assert_array_equal(built.theta, theta)


def test_the_loss_of_the_oracle_kernel_gate_falls_with_the_mesh_and_keeps_to_its_bound():
    def disk(Z):
        return (np.hypot(Z[:, 0] - 0.5, Z[:, 1] - 0.5) > 0.3).astype(int)

    Z, mass = geometry.box_quadrature(0.0, [1.0, 1.0], 80)
    losses = []
    for mesh in (0.1, 0.05, 0.025):
        built = geometry.oracle_kernel_gate(disk, 2, mesh, np.eye(2))
        losses.append(geometry.assignment_loss(built.weights(Z), disk(Z), mass=mass).value)
        assert losses[-1] <= theory.kernel_loss(mesh, 2, 2, boundary=4 * np.pi * 0.3)
    assert np.polyfit(np.log([0.1, 0.05, 0.025]), np.log(losses), 1)[0] == pytest.approx(1.0, abs=0.2)


@pytest.mark.parametrize("n_experts", [3, 10, 60])
def test_the_separated_gate_realises_the_regions_and_its_idle_experts_never_lead(n_experts):
    built = geometry.separated_top1_gate(DIRECTIONS, n_experts, input_norm=np.sqrt(2.0))
    np.testing.assert_array_equal(built.weights(X).argmax(axis=1), built.specialists[REGION])
    assert np.abs(built.theta).max() <= 1.0
    assert built.gate.separation(built.theta) > 0.0


@pytest.mark.slow
def test_the_separation_of_idle_experts_falls_no_faster_than_the_order_says():
    gaps = [
        geometry.separated_top1_gate(DIRECTIONS, M, np.sqrt(2.0)).gate.separation(
            geometry.separated_top1_gate(DIRECTIONS, M, np.sqrt(2.0)).theta
        )
        for M in (50, 800)
    ]
    assert np.log(gaps[1] / gaps[0]) / np.log(16) == pytest.approx(-0.5, abs=0.2)


@pytest.mark.parametrize("n_experts", [100, pytest.param(10_000, marks=pytest.mark.slow)])
def test_the_soft_gate_keeps_to_its_bound(n_experts):
    built = geometry.soft_region_gate(DIRECTIONS, n_experts, NORM)
    g = built.weights(X)
    loss = float(((g - np.eye(n_experts)[built.specialists[REGION]]) ** 2).sum(axis=1).mean())
    norms = np.linalg.norm(DIRECTIONS, axis=1).max()
    ordered = np.sort(ROWS @ DIRECTIONS.T / norms, axis=1)
    margin = ordered[:, -1] - ordered[:, -2]
    density = max((margin < t).mean() / t for t in (0.05, 0.1, 0.2))
    assert 0.0 < loss <= theory.soft_assignment_error(3, n_experts, density, NORM)


def test_the_soft_mixture_gate_has_the_weights_of_each_region():
    pairs = np.array([[0.3, 0.7], [0.5, 0.5], [0.8, 0.2]])
    built = geometry.soft_mixture_gate(DIRECTIONS, pairs, 2000, NORM)
    g = built.weights(X)
    targets = np.zeros((3, 2000))
    for r, (specialists, pair) in enumerate(zip(built.specialists, pairs, strict=True)):
        targets[r, specialists] = pair
        own = g[:, specialists]
        np.testing.assert_allclose(own / own.sum(axis=1, keepdims=True), np.tile(pair, (len(X), 1)), rtol=1e-9)
    loss = float(((g - targets[REGION]) ** 2).sum(axis=1).mean())
    assert loss < theory.soft_mixture_error(3, 2000, 1.5, NORM, log_weight=-np.log(0.2))
    assert loss < 0.5 * ((g - targets[(REGION + 1) % 3]) ** 2).sum(axis=1).mean()


def test_local_tangents_come_near_a_smooth_function():
    errors = []
    Z = np.linspace(0.2, 0.8, 50)[:, None]
    for width in (0.1, 0.05):
        model = geometry.local_affine_softmax(
            lambda V: np.sin(3 * V[:, 0]), lambda V: 3 * np.cos(3 * V[:, 0]), 200, width
        )
        errors.append(np.abs(model.predict(Z) - np.sin(3 * Z[:, 0])).max())
    assert errors[0] / errors[1] == pytest.approx(4.0, rel=0.15)
    assert errors[1] <= 9 * 0.05**2


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: geometry.separated_top1_gate([[1.0, 0.0]], 3, 1.0), r"directions must be \(R, d \+ 1\)"),
        (lambda: geometry.separated_top1_gate(DIRECTIONS, 2, 1.0), "n_experts must be a whole number at least 3"),
        (lambda: geometry.soft_region_gate(DIRECTIONS, 5, 1.0, box=2.0), "box must be above 2"),
        (lambda: geometry.soft_mixture_gate(DIRECTIONS, np.ones((3, 2)), 9, 1.0), "each row with sum 1"),
    ],
)
def test_bad_constructions_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
