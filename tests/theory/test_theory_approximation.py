"""Approximation, two specialists and entropy against brute force."""

from itertools import product
from math import ceil, exp, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatewise import theory
from gatewise.theory.entropy import least_slope

sizes = st.floats(0.01, 5.0)


@given(st.integers(1, 500), st.integers(1, 4), st.integers(1, 5))
def test_cells_fit_and_no_more_would(n_experts, d, k):
    k = min(k, n_experts)
    q = theory.cells_per_side(n_experts, d, k)
    assert k * q**d <= n_experts < k * (q + 1) ** d


@given(sizes, st.integers(1, 3), st.integers(1, 3), sizes)
def test_experts_needed_is_the_least_number(error, d, k, lipschitz):
    error = max(error, lipschitz * 0.05)
    needed = theory.experts_needed(error, d, k, lipschitz)
    assert theory.topk_error(needed, d, k, lipschitz) <= error * (1 + 1e-9)
    if needed > k:
        assert theory.topk_error(needed - 1, d, k, lipschitz) > error * (1 - 1e-9)


@pytest.mark.parametrize(("d", "lipschitz", "radius"), [(1, 1.0, 9.0), (2, 5.0, 1.0), (3, 0.2, 1.0)])
def test_the_best_constant_for_the_extremal_function(d, lipschitz, radius):
    a = theory.global_error(d, lipschitz, radius)
    corners = np.array(list(product([0.0, 1.0], repeat=d)))
    values = a / d * (2 * corners - 1).sum(axis=1)
    constants = np.linspace(-radius, radius, 2001)
    assert np.abs(values[:, None] - constants).max(axis=0).min() == pytest.approx(a, abs=radius / 1000)


@given(sizes, sizes, sizes, sizes)
def test_gamma_is_the_balance_of_two_lines(eps_1, eps_2, delta_1, delta_2):
    w = np.linspace(0, 1, 20_001)
    lines = np.maximum((1 - w) * delta_1 - w * eps_1, w * delta_2 - (1 - w) * eps_2)
    gamma = theory.specialist_gap(eps_1, eps_2, delta_1, delta_2)
    assert max(lines.min(), 0.0) == pytest.approx(gamma, abs=1e-3)
    assert theory.routing_wins(eps_1, eps_2, delta_1, delta_2) == (eps_1**2 + eps_2**2 < gamma**2)


def test_symmetric_specialists():
    assert theory.specialist_gap(0.2, 0.2, 1.0, 1.0) == pytest.approx((1.0 - 0.2) / 2)
    assert theory.specialist_gap(1.0, 1.0, 0.2, 0.2) == 0.0
    with pytest.raises(ValueError, match="must be above 0"):
        theory.specialist_gap(0, 0, 0, 0)


@given(st.integers(1, 60), st.integers(1, 60))
def test_covering_the_constants_in_whole_numbers(numerator, denominator):
    eps = numerator / denominator
    assert theory.constant_covering(eps, 3.0) == max(1, -(-3 * denominator // numerator))


def test_the_softmax_covering_is_the_product_of_the_papers_counts():
    eps, M, d, R, C1 = 0.07, 3, 2, 1.5, 0.8
    counts = (
        ceil(3 * R / eps) * ceil(6 * R / eps) ** 2 * ceil(48 * R * d * C1 / eps) ** 4 * ceil(48 * R * C1 / eps) ** 2
    )
    assert theory.softmax_covering(eps, M, d, R, C1) == counts
    assert theory.softmax_covering(eps, 1, d, R, C1) == ceil(3 * R / eps)
    sharper = theory.softmax_covering(eps, M, d, R, C1, sensitivity=1.0)
    assert log(counts / sharper) == pytest.approx(6 * log(4), rel=0.01)


@pytest.mark.parametrize(("M", "d"), [(2, 1), (4, 2), (3, 5)])
def test_entropy_coefficients(M, d):
    upper = [log(theory.softmax_covering(10.0**-k, M, d, 1.0, 1.0)) for k in (12, 24)]
    assert np.diff(upper)[0] / (12 * log(10)) == pytest.approx(theory.softmax_dimension(M, d), rel=1e-6)
    lower = [log(theory.softmax_packing(10.0**-k, M, d, 1.0, 1.0)) for k in (24, 48)]
    assert np.diff(lower)[0] / (24 * log(10)) == pytest.approx(d + 1, rel=1e-6)
    assert all(low <= up for low, up in zip(lower, upper, strict=True))


@given(st.floats(0.0, 20.0))
def test_the_least_slope_is_at_the_end(reach):
    t = np.linspace(-reach, reach, 101)
    assert least_slope(reach) == pytest.approx(float((np.exp(-t) / (1 + np.exp(-t)) ** 2).min()), rel=1e-9)


def test_topk_counts():
    assert theory.topk_separation(10, 3, 2.0) == pytest.approx(2 * 2.0 / 3)
    assert theory.topk_separation(10, 3, 2.0, swaps=3) == 4.0
    with pytest.raises(ValueError, match="swaps must be a whole number from 1 to 1"):
        theory.topk_separation(4, 3, 1.0, swaps=2)
    finer = theory.topk_log_covering(0.05, 4, 2, 0.5) - theory.topk_log_covering(0.1, 4, 2, 0.5)
    assert exp(finer) == pytest.approx(2.0 ** (2 * 3 * 3))
    steeper = theory.topk_log_covering(0.1, 4, 2, 0.5, phi_order=1.5) - theory.topk_log_covering(0.1, 4, 2, 0.5)
    assert exp(steeper) == pytest.approx(4.0 ** (2 * 1.5 * 3 * 3))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: theory.topk_error(3, 1, 4), "k must be a whole number from 1 to 3"),
        (lambda: theory.constant_covering(0.0, 1.0), "epsilon must be a finite number above 0"),
        (lambda: theory.specialist_gap(-0.1, 0, 1, 1), "error_1 must be a finite number of at least 0"),
        (lambda: theory.topk_log_covering(0.1, 4, 2, 1.5), "separation must lie strictly between 0 and 1"),
    ],
)
def test_bad_numbers_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
