"""Bounds beside the losses that they bound, and plans for kernel gates."""

import numpy as np
import pytest
from scipy.special import expit, softmax

from gatewise import theory
from gatewise.geometry import box_quadrature, local_affine_softmax


@pytest.mark.parametrize("margin", [0.0, 0.1])
def test_the_threshold_loss_against_a_plain_sum_over_all_experts(margin):
    M = 50
    x = (np.arange(20_000) + 0.5) / 10_000 - 1
    B = np.log(M)
    scores = np.column_stack([B - B * x, B + B * x, np.zeros(len(x)), np.full((len(x), M - 3), -B)])
    gaps = ((softmax(scores, axis=1) - np.eye(M)[(x > 0).astype(int)]) ** 2).sum(axis=1)
    exact = theory.threshold_gate_loss(M, margin)
    assert exact == pytest.approx(np.where(np.abs(x) >= margin, gaps, 0.0).mean(), rel=1e-3)
    low, high = theory.threshold_loss(M)
    assert exact <= (high if margin == 0 else theory.threshold_interior_loss(M, margin))
    assert margin > 0 or exact >= low


def test_the_disk_loss_against_quadrature():
    M, c_0 = 20, 0.8
    X, mass = box_quadrature([-2.0, -2.0], [2.0, 2.0], 300, inside=lambda Z: (Z**2).sum(axis=1) <= 4.0)
    square, reach, bend = (X**2).sum(axis=1), np.log(M), c_0 * np.log(M)
    tilt, level = bend * (1 - square), reach - bend
    scores = np.column_stack([level + tilt, level - tilt, 0 * square, np.tile(0 * square - reach, (M - 3, 1)).T])
    own, radius = (square > 1).astype(int), np.sqrt(square)
    gaps = ((softmax(scores, axis=1) - np.eye(M)[own]) ** 2).sum(axis=1)
    expected = (mass * np.where(np.abs(radius - 1) >= 0.25, gaps, 0.0)).sum()
    exact = theory.disk_quadratic_gate_loss(M, 1.0, 2.0, 0.25, c_0)
    assert exact == pytest.approx(expected, rel=0.03)
    assert exact <= theory.disk_quadratic_loss(M, 1.0, 2.0, 0.25, c_0)


@pytest.mark.parametrize(("inner", "margin"), [(1.0, 0.25), (1.6, 0.1)])
def test_the_linear_loss_on_the_disk_is_that_of_the_best_of_many_gates(inner, margin):
    """Random two-expert gates on a fine grid: none is below it, and the best comes near."""
    X, mass = box_quadrature([-2.0, -2.0], [2.0, 2.0], 120, inside=lambda Z: (Z**2).sum(axis=1) <= 4.0)
    radius = np.sqrt((X**2).sum(axis=1))
    kept = np.abs(radius - inner) >= margin
    sign = np.where(radius > inner, -1.0, 1.0)[kept]
    rng = np.random.default_rng(0)
    slopes, levels = rng.exponential(1.0, 400), rng.normal(scale=2.0, size=400)
    wrong = expit(sign * (levels[:, None] + slopes[:, None] * X[kept, 0]))
    losses = 2 * (wrong**2) @ mass[kept]
    exact = theory.disk_linear_gate_loss(inner, 2.0, margin)
    assert 0.98 * exact <= losses.min() <= 1.1 * exact
    assert exact >= theory.disk_linear_floor(inner, 2.0, margin)


@pytest.mark.parametrize(("M", "amplitude", "frequency"), [(50, 0.0, 0.0), (300, 1.0, 2.0)])
def test_the_error_of_the_oscillation_is_that_of_the_mixture(M, amplitude, frequency):
    omega = 2 * np.pi * frequency

    def truth(X):
        return amplitude * np.sin(omega * X[:, 0]) + X[:, 0] ** 2

    def tilt(X):
        return amplitude * omega * np.cos(omega * X[:, 0]) + 2 * X[:, 0]

    X = (np.arange(1000)[:, None] + 0.5) / 1000
    for box in (1.0, 4.0):
        model = local_affine_softmax(truth, tilt, M, 1 / np.sqrt(box * np.log(M)))
        exact = theory.oscillation_gate_loss(M, amplitude, frequency, box)
        assert exact == pytest.approx(np.mean((model.predict(X) - truth(X)) ** 2), rel=1e-4)
        assert exact <= theory.oscillation_risk(M, amplitude, frequency, constant=1 / box**2)


def test_few_centres_stand_for_many():
    few, more = (theory.examples.MOST_CENTERS, 16_000)
    with pytest.MonkeyPatch.context() as patch:
        least = theory.oscillation_gate_loss(10**100, 1.0, 2.0)
        patch.setattr(theory.examples, "MOST_CENTERS", more)
        assert theory.oscillation_gate_loss(10**100, 1.0, 2.0) == pytest.approx(least, rel=230 / few**2)


def test_the_decomposition_holds_and_half_of_its_second_constant_fails():
    """Two experts at +-A, the truth at one of them, a gate that is wrong by w: risk 4 A^2 w^2, loss 2 w^2."""
    w, A = 0.3, 2.0
    risk, loss = (2 * A * w) ** 2, 2 * w**2
    assert risk <= theory.assignment_bound([0.0], loss, A)
    assert theory.assignment_bound([0.1, 0.2], 0.0, A) == pytest.approx(0.6)
    assert theory.assignment_bound([0.0], 1.0, 3.0) == 72.0


def test_the_regional_selection_bound_takes_the_best_class():
    bound = theory.regional_selection_risk([0.1], [0.5, 0.2], [0.01, 0.4], n=100)
    assert bound == pytest.approx(0.1 + 0.51 + np.log(2) / 100)
    with pytest.raises(ValueError, match="one entry for each of two classes or more, not 1 and 2"):
        theory.regional_selection_risk([0.1], [0.5], [0.01, 0.4], n=100)


def test_the_planned_mesh_is_the_least_of_the_curve_and_falls_with_n():
    plans = [theory.kernel_plan(n, 1, n_experts=2, boundary=2.0, constant=0.01) for n in (10**3, 10**5)]
    for plan in plans:
        assert plan.best.bound == min(point.bound for point in plan.points)
        assert plan.best.learning == pytest.approx(
            theory.kernel_cost(plan.mesh, 2, 1, 10**3 if plan is plans[0] else 10**5)
        )
    assert plans[1].mesh < plans[0].mesh
    free = theory.kernel_plan(10**6, 1, lipschitz=4.0, noise=0.2, constant=1e-3)
    assert free.n_experts > 1
    with pytest.raises(ValueError, match="n_experts and boundary belong together"):
        theory.kernel_plan(100, 1, n_experts=2)
