"""Learning costs, meshes, regionwise bounds and the plan against independent readings."""

from itertools import pairwise
from math import log, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from gatewise import theory
from gatewise.nets import eta_net, eta_net_size

experts, features, samples = st.integers(2, 200), st.integers(1, 20), st.integers(100, 10**7)


@given(experts, features, samples, st.floats(1e-3, 0.999), st.floats(0, 1))
def test_costs_are_what_the_theorems_display(M, d, n, r, a2):
    dense = M * a2 + (M * d / n) * (log(M) + log(d) + log(n))
    assert theory.dense_cost(M, d, n, a2) == pytest.approx(dense)
    assert theory.sparse_cost(M, d, n, r, a2) == pytest.approx(dense - (M * d / n) * log(r))
    assert theory.erm_cost(M, d, n) == pytest.approx(sqrt(theory.dense_cost(M, d, n)))
    assert (theory.erm_cost(M, d, n) > theory.dense_cost(M, d, n)) == (theory.dense_cost(M, d, n) < 1)
    assert theory.oracle_risk(0.3, dense, 2.0) == pytest.approx(0.6 + 2 * dense)


@given(st.integers(2, 6), st.integers(1, 4), st.floats(0.05, 2.0), st.floats(0.6, 3.0))
def test_candidates_are_those_of_the_net(M, d, mesh, box):
    params = (M - 1) * (d + 1)
    size = eta_net_size(params, mesh, box * log(M))
    assert theory.log_candidates(M, d, mesh, box) == pytest.approx(log(size))


def test_candidates_of_a_net_that_is_built():
    net = eta_net((1, 2), 0.2, log(2))
    assert round(np.exp(theory.log_candidates(2, 1, 0.2))) == net.size


def test_both_meshes_of_the_dense_theorem_give_its_rate():
    """Statement and proof prescribe different meshes; d eta^2 and log S / n stay within the cost for either."""
    for M, d, n in ((4, 2, 10**3), (16, 5, 10**5), (64, 10, 10**7)):
        cost = theory.dense_cost(M, d, n)
        for mesh in (theory.dense_mesh(M, n), theory.dense_mesh_in_proof(M, n)):
            assert d * mesh**2 <= cost
            assert theory.log_candidates(M, d, mesh) / n <= 2 * cost
    assert theory.dense_mesh_in_proof(4, 100) / theory.dense_mesh(4, 100) == pytest.approx(4**1.5)


@given(experts, features, samples, st.floats(1e-3, 0.99), st.floats(0, 1))
def test_the_sparse_mesh_leaves_a_term_of_order_d_over_n(M, d, n, r, order):
    mesh = theory.sparse_mesh(M, d, n, r, order)
    assert sqrt(d) * M ** (2 + 2 * order) * mesh / r == pytest.approx(d / n)


def test_selection():
    assert theory.selection_price(8, 100) == pytest.approx(log(8) / 100)
    assert theory.selection_risk([0.5, 0.1], 100, 3.0) == pytest.approx(3 * (0.1 + log(2) / 100))
    assert theory.fixed_experts_risk(0.1, 100, 0.02, 2.0) == pytest.approx(2 * (0.12 + log(100) / 100))
    with pytest.raises(ValueError, match="at least two classes"):
        theory.selection_risk([0.5], 100)


@given(st.floats(-1, 1), st.floats(-1, 1), st.floats(-1, 1), st.floats(0.05, 0.95), st.floats(0.3, 2.0))
def test_the_explicit_constant_of_after(mean, first, second, share, sigma):
    """(E_p - E_q)^2 <= (4 sigma^2 + 6) KL(p || q) for a normal p and a mixture q of two, all means in [-1, 1]."""

    def integrand(y):
        p = norm.pdf(y, mean, sigma)
        q = share * norm.pdf(y, first, sigma) + (1 - share) * norm.pdf(y, second, sigma)
        return p * (np.log(p) - np.log(q))

    divergence = quad(integrand, mean - 8 * sigma, mean + 8 * sigma)[0]
    gap = mean - share * first - (1 - share) * second
    assert gap**2 <= (4 * sigma**2 + 6) * divergence + 1e-9
    alone = theory.after_risk(0.25, 0.0, 10, sigma, 1.0)
    assert alone == pytest.approx((4 * sigma**2 + 6) * 0.25 / (2 * sigma**2))


def test_regionwise_bounds():
    assert theory.feasible_separation(0.9, 100, 2) == pytest.approx(0.1)
    assert theory.feasible_separation(0.01, 100, 2, 0.5) == pytest.approx(0.005)
    cost = theory.sparse_cost(8, 2, 500, 0.1)
    assert theory.top1_risk([0.1, 0.2], 8, 2, 500, 0.1, constant=2.0) == pytest.approx(2 * (0.3 + cost))
    dense = theory.dense_cost(8, 2, 500)
    assert theory.dense_regional_risk([0.1, 0.2], 8, 2, 500) == pytest.approx(0.3 + dense + 2 / log(8))
    assert theory.top1_risk_floor(0.04, 4, 1.0) == 0.0
    remote = theory.soft_assignment_error(2, 100, 1e-15, 1.0, box=4.0)  # no row is near a border
    assert remote == pytest.approx(2 * 100**-1.0)
    with pytest.raises(ValueError, match="advantages must have one entry per region, 2, not 1"):
        theory.top1_barrier([0.1, 0.2], [0.3])
    with pytest.raises(ValueError, match="box must be above 2"):
        theory.soft_assignment_error(2, 100, 1.0, 1.0, box=1.5)
    with pytest.raises(ValueError, match="n_experts must be at least 2 n_regions = 6"):
        theory.soft_mixture_error(3, 5, 1.0, 1.0, 0.5)


def test_soft_assignment_error_is_the_integral_of_the_pointwise_bound():
    """Margins uniform on [0, 1/L]: the integral of 2 (M_0 - 1) exp(-t u) is below the bound and near it."""
    M0, M, L, B, C = 3, 10**12, 2.0, 1.5, 4.0
    t = C * log(M) / (4 * B)
    exact = 2 * (M0 - 1) * quad(lambda u: L * np.exp(-t * u), 0, 1 / L)[0] + 2 * M ** (-(C - 2) / 2)
    bound = theory.soft_assignment_error(M0, M, L, B, C)
    assert exact <= bound <= 1.01 * exact
    mixed = theory.soft_mixture_error(M0, M, L, B, log(2), C)
    assert mixed == pytest.approx(bound * (1 + 4), rel=1e-6)


@given(st.floats(1e-6, 1.0), st.integers(2, 30), st.floats(0.01, 0.99))
def test_the_modulus_is_of_order_one_half(distance, M, r):
    one, four = (theory.topk_modulus(s, M, r, 1.5, 2.0) for s in (distance / 4, distance))
    assert four == pytest.approx(2 * one)
    assert one**2 >= 2 * 2.0 * M * (M - 1) / 2 * sqrt(2) * 1.5 * distance / 4 / r  # twice the bands' probability


def test_the_plan_is_the_brute_force_minimum():
    for n, d, k in ((500, 1, 1), (20_000, 2, 1), (10**6, 2, 3), (300, 5, 1)):
        choice = theory.plan(n, d, k, lipschitz=2.0, noise=0.7)
        bounds = {
            k * q**d: (2.0 * sqrt(d) / (2 * q)) ** 2
            + 0.49 * theory.sparse_cost(k * q**d, d, n, 0.5 * min(0.999, (k * q**d) ** (-1 / d)))
            for q in range(1, 200)
        }
        assert choice.n_experts == min(bounds, key=bounds.get)
        assert choice.best.bound == pytest.approx(min(bounds.values()))
        assert choice.best in choice.curve
        assert [p.n_experts for p in choice.curve] == sorted(p.n_experts for p in choice.curve)


def test_more_data_or_less_noise_asks_for_more_experts():
    by_n = [theory.plan(n, 2).n_experts for n in (10**3, 10**4, 10**5, 10**6)]
    assert all(a < b for a, b in pairwise(by_n))
    assert theory.plan(10**4, 2, noise=0.1).n_experts > theory.plan(10**4, 2, noise=1.0).n_experts
    assert theory.plan(10**4, 2, expert_error=0.1).n_experts < theory.plan(10**4, 2).n_experts
    assert theory.plan(10**4, 2, k=2).best.bound > theory.plan(10**4, 2, k=1).best.bound


@pytest.mark.parametrize(("d", "first"), [(1, 7), (2, 9), (4, 9)])
def test_the_planned_bound_falls_like_n_to_the_minus_two_over_d_plus_two(d, first):
    bounds = [theory.plan(10**p, d).best.bound * log(10**p) ** (-2 / (d + 2)) for p in (first, first + 3)]
    assert log(bounds[1] / bounds[0]) / log(10**3) == pytest.approx(-2 / (d + 2), abs=0.03)
