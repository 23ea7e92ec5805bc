"""Worked examples, kernel bounds and shared rates against closed forms and quadrature."""

from math import exp, log, pi, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

from gatewise import KernelGate, theory
from gatewise.theory.shared_rates import RateProfile


@pytest.mark.parametrize("M", [10, 10**4, 10**9])
@pytest.mark.parametrize("box", [0.7, 1.0, 3.0])
def test_the_papers_gate_lies_between_the_threshold_bounds(M, box):
    a = B = box * log(M)
    s = (M - 2) * exp(-2 * B)

    def loss(x):
        wrong, right = np.exp(-a * x), np.exp(a * x)
        total = wrong + right + s
        return ((total - right) / total) ** 2 + (wrong / total) ** 2 + (M - 2) * (exp(-2 * B) / total) ** 2

    measured = quad(loss, 0, 1, points=[1 / a] if a > 1 else None)[0]
    lower, upper = theory.threshold_loss(M, box)
    assert lower <= measured <= upper
    interior = quad(loss, 0.2, 1)[0]
    assert interior <= theory.threshold_interior_loss(M, 0.2, box)


@pytest.mark.parametrize("M", [10, 1000, 10**8])
def test_a_normalised_gate_keeps_to_the_threshold_bound(M):
    """The proof's gate leaves the box once the reference has score 0; idle experts at -C log M beside it do not."""
    B = log(M)

    def loss(x):
        scores = np.array([B - B * x, B + B * x, 0.0, -B])
        weights = np.exp(scores) / (np.exp(scores) @ [1, 1, 1, M - 3])
        return (1 - weights[1]) ** 2 + weights[0] ** 2 + weights[2] ** 2 + (M - 3) * weights[3] ** 2

    assert quad(loss, 0, 1)[0] <= theory.threshold_loss(M)[1]


def test_disk_constants():
    assert theory.disk_linear_floor(1.0, 2.0, 0.25) == pytest.approx(min(0.75**2, 4 - 1.25**2) / 32)
    alpha = -log(theory.disk_quadratic_loss(1000, 1.0, 2.0, 0.25, 0.4) / 8) / log(1000)
    assert alpha == pytest.approx(2 * 0.4 * (1 - 0.75**2))
    assert theory.disk_curvature_limit(2.0, 0.8) == pytest.approx(0.6 / 4)
    with pytest.raises(ValueError, match=r"margin must lie strictly between 0 and 0\.5"):
        theory.disk_linear_floor(0.5, 2.0, 0.7)
    with pytest.raises(ValueError, match="curvature must lie strictly between 0 and 1"):
        theory.disk_quadratic_loss(10, 1.0, 2.0, 0.25, 1.2)
    with pytest.raises(ValueError, match=r"box must lie strictly between 0\.5 and inf"):
        theory.threshold_loss(10, box=0.5)


@given(st.floats(-3, 3), st.floats(0, 6))
def test_oscillation_curvature_is_the_largest_second_derivative(amplitude, frequency):
    x = np.linspace(0, 1, 20_001)
    second = np.abs(-amplitude * (2 * pi * frequency) ** 2 * np.sin(2 * pi * frequency * x) + 2)
    assert second.max() <= theory.oscillation_curvature(amplitude, frequency) * (1 + 1e-12)
    if frequency >= 1:
        assert second.max() >= theory.oscillation_curvature(amplitude, frequency) - 4.1
    assert theory.oscillation_risk(55, 0.0, frequency) == pytest.approx(1 / log(55) ** 2)


@pytest.mark.parametrize("d", [1, 2, 3, 8, 20])
@pytest.mark.parametrize("kappa", [0.5, 0.75, 1.0])
def test_the_admissible_mesh_is_what_the_proof_needs(d, kappa):
    """Just below the limit the layer is wider than 2 sigma and than half a cell's diagonal; above it, not both."""
    limit = theory.mesh_limit(d, kappa)
    for h, holds in ((limit * 0.9999, True), (limit * 1.0001, False)):
        width = theory.layer_width(h, d, kappa)
        assert (width >= 2 * kappa * h and width > sqrt(d) / 2 * h) == holds
    rho = 0.3
    h = theory.interior_mesh_limit(d, rho, kappa) * 0.9999
    assert sqrt(d) / 2 * h < rho
    assert 2 * kappa * h < rho


@pytest.mark.parametrize(("mesh", "d"), [(0.25, 2), (1 / 3, 3), (0.3, 1), (0.1, 2)])
def test_the_number_of_centers_is_the_gates(mesh, d):
    assert theory.n_centers(mesh, d) == KernelGate(2, mesh=mesh).theta_shape(d)[1]


def test_kernel_bounds():
    h, M, gamma = 0.02, 5, 3.0
    assert theory.kernel_loss(h, M, 2, gamma, constant=2.0) == pytest.approx(
        2 * (M * h**4 + gamma * h * sqrt(log(1 / h)))
    )
    decay = theory.kernel_interior_loss(0.05, 1, 1, 0.3, 0.5)
    assert log(decay) == pytest.approx(-(0.3**2) / (2 * 0.025**2))
    with pytest.raises(ValueError, match=r"mesh must lie strictly between 0 and 0\.5134"):
        theory.kernel_loss(0.6, 2, 1, 1.0)
    with pytest.raises(ValueError, match="kappa must be from 1/2 to 1"):
        theory.mesh_limit(1, 0.3)


def test_grid_tail_constant():
    """The steps of the proof: shells hold (1 + 4 kappa)(2^m t) points, y exp(-y^2/8) <= 2 / sqrt(e)."""
    y = np.linspace(0, 20, 200_001)
    peak = (y * np.exp(-(y**2) / 8)).max()
    for kappa in (0.5, 1.0):
        wanted = np.e / (np.e - 1) * (1 + 4 * kappa) * peak
        assert theory.grid_tail_constant(1, kappa) == pytest.approx(wanted, rel=1e-6)
        # in d dimensions a shell holds the d-th power of sqrt(d) times as many points
        wanted = np.e / (np.e - 1) * ((1 + 4 * kappa) * np.sqrt(3) * peak) ** 3
        assert theory.grid_tail_constant(3, kappa) == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("order", [0, 1, 5, 40])
def test_fourier_tail_by_projection(order):
    t = (np.arange(200_000) + 0.5) / 200_000
    rest = t - 0.5
    for k in range(1, order + 1):
        rest = rest + np.sin(2 * pi * k * t) / (pi * k)
    assert (rest**2).mean() == pytest.approx(theory.fourier_tail(order), rel=1e-4)


@given(st.floats(10, 1e7), st.floats(0, 10), st.floats(0.05, 5))
def test_the_branch_risk_is_the_minimum_over_orders(m, slope, noise):
    brute = min(
        (slope / 2) ** 2 * theory.fourier_tail(k) + noise**2 * (2 * k + 1) / m
        for k in {*range(200), *(int(1.1**i) for i in range(1, 150))}
    )
    assert theory.fourier_branch_risk(m, slope, noise) <= brute * (1 + 1e-9)


def test_rates():
    fast, slow = RateProfile(2.0, 1.0), RateProfile(1.0, 0.5)
    assert theory.shared_risk(100, 0.25, fast, (fast, fast)) == pytest.approx(2 / 100 * 3)  # p * 2 / (n p) = 2 / n
    assert theory.routed_risk_floor(100, 0.25, (slow, slow)) == pytest.approx(0.75 / sqrt(75))
    assert theory.rate_exponent(lambda m: theory.fourier_branch_risk(m, 1.0, 1.0), 1e6, 1e10) == pytest.approx(
        0.5, abs=0.01
    )
    assert theory.shared_wins(fast, (fast, fast), (slow, fast))
    assert not theory.shared_wins(fast, (slow, fast), (slow, slow))
    assert theory.sieve_rate(400, 2.0, lambda k: 1 / k**2, range(1, 50)) == pytest.approx(
        min(1 / k**2 + 4 * k / 400 for k in range(1, 50))
    )
    with pytest.raises(ValueError, match="share must lie strictly between 0 and 1"):
        theory.shared_risk(100, 1.0, fast, (fast, fast))
