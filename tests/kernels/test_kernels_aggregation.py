"""The compiled sweeps against their NumPy twin: M, K, noises, ties, huge scores, change points, threads."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatewise.kernels import linear_scores
from gatewise.kernels.loss_kinds import DOUBLE_EXPONENTIAL, GAUSSIAN, OUTCOME, STUDENT_T
from gatewise.kernels.net import drivers as kernels
from gatewise.kernels.net.factor_scores import factor_scores
from gatewise.kernels.net.net_tables import count_candidates, count_units, explicit_tables, product_tables
from gatewise.kernels.net.residual_rows import residual_blocks, residual_rows
from gatewise.kernels.simd import threads
from gatewise.losses import Outcome
from gatewise.noise import DoubleExponential, Gaussian, StudentT
from tests import oracle

NOISES = [
    (Gaussian(), GAUSSIAN, 0.0),
    (DoubleExponential(), DOUBLE_EXPONENTIAL, 0.0),
    (StudentT(6.0), STUDENT_T, 6.0),
]
SIZES = {2: (70,), 3: (9, 67), 4: (3, 4, 5), 5: (2, 3, 2, 4)}
CASES = [(M, k) for M in SIZES for k in range(1, M + 1)]


def product_case(M, k, n=21, scale=2.0, whole=False, seed=0, y=None, F=None):
    rng = np.random.default_rng(seed)
    scores = [scale * rng.normal(size=(g, n)) for g in SIZES[M]]
    if whole:
        scores = [np.round(s) for s in scores]
    y, F = (rng.normal(size=n), rng.normal(size=(n, M))) if y is None else (y, F)
    full = oracle.product_scores(scores)
    gates = oracle.gates(full, full, k)
    return product_tables(oracle.lay_out(scores, k < M), None, y, F, k), oracle.residuals(gates, y, F), gates


def list_case(M, k, n=21, scale=1.0, seed=0, y=None, F=None):
    rng = np.random.default_rng(seed)
    theta, features = scale * rng.normal(size=(131, M - 1, 5)), rng.normal(size=(n, 5))
    y, F = (rng.normal(size=n), rng.normal(size=(n, M))) if y is None else (y, F)
    scores = oracle.list_scores(theta, features)
    gates = oracle.gates(scores, scores, k)
    return explicit_tables(theta, features, y, F, k), oracle.residuals(gates, y, F), gates


def close(found, expected, floor=0.0):
    kept = np.abs(expected) > floor
    np.testing.assert_allclose(found[kept], expected[kept], rtol=1e-9, atol=1e-13)


def check_all(tables, residual, gates, noise, code, df, log_prior=None, sigma=None):
    """Every operation against the twin."""
    n = residual.shape[1]
    squares = kernels.mean_square(tables)
    close(squares, np.mean(residual**2, axis=1))
    winner, least = kernels.least_square(tables)
    assert (winner, least) == (np.argmin(squares), squares.min())
    sigma = np.sqrt(np.clip(squares, 0.2**2, 2.0)) if sigma is None else sigma
    weights, log_z = oracle.aggregate(residual, sigma, noise.log_density, log_prior)
    setting = kernels.weight_rule(len(residual), sigma, log_prior, code, df)
    swept = kernels.sweep(tables, setting)
    close(swept.log_z, log_z)
    close(swept.residual, (weights[:, :n] * residual).sum(axis=0))
    close(np.exp(swept.log_weights), weights[:, n], 1e-12)
    edges = np.array([0, 5, n])
    means = kernels.mean_weights(tables, setting, swept, edges)
    close(means[0], weights[:, :5].mean(axis=1), 1e-12)
    close(means[1], weights[:, 5:n].mean(axis=1), 1e-12)
    close(kernels.gate_mean(tables, means[1]), np.einsum("s,snm->nm", weights[:, 5:n].mean(axis=1), gates))


@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: type(noise[0]).__name__)
@pytest.mark.parametrize("case", [product_case, list_case])
@pytest.mark.parametrize(("M", "k"), CASES)
def test_equals_the_twin(case, M, k, noise):
    check_all(*case(M, k), *noise)


@pytest.mark.parametrize(("M", "k"), CASES)
@pytest.mark.parametrize("case", [product_case, list_case])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_log_loss_with_powers(case, M, k, weighted):
    n, rng = 40, np.random.default_rng(1)
    tables, residual, _ = case(M, k, n, y=np.zeros(n), F=rng.uniform(0.01, 1.0, (n, M)))
    power = rng.choice([1.0, 0.5, 0.01], n) if weighted else np.ones(n)
    weights, log_z = oracle.aggregate(residual, 1.0, Outcome().log_density, None, power)
    rule = kernels.weight_rule(len(residual), 1.0, None, OUTCOME, 0.0, power=power if weighted else None)
    swept = kernels.sweep(tables, rule)
    close(swept.log_z, log_z)
    close(swept.residual, (weights[:, :n] * residual).sum(axis=0))
    close(np.exp(swept.log_weights), weights[:, n], 1e-12)
    means = kernels.mean_weights(tables, rule, swept, np.array([0, 5, 33]))
    close(means[0], weights[:, :5] @ power[:5] / power[:5].sum(), 1e-12)
    close(means[1], weights[:, 5:33] @ power[5:33] / power[5:33].sum(), 1e-12)


@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: type(noise[0]).__name__)
@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("case", [product_case, list_case])
def test_equals_the_twin_in_many_pieces_of_work(case, k, noise, monkeypatch):
    monkeypatch.setattr(threads, "PIECE", 500)
    monkeypatch.setitem(SIZES, 3, (30, 130))
    tables, residual, gates = case(3, k)
    assert len(threads.cut(count_units(tables), residual.size)) == (10 if case is product_case else 3)
    check_all(tables, residual, gates, *noise)


@pytest.mark.parametrize(("M", "k"), CASES)
def test_ties_go_to_the_smaller_index(M, k):
    check_all(*product_case(M, k, scale=1.0, whole=True), *NOISES[0])


@pytest.mark.parametrize("scale", [60.0, 1e3, 1e6])
@pytest.mark.parametrize("case", [product_case, list_case])
@pytest.mark.parametrize(("M", "k"), CASES)
def test_large_scores(case, M, k, scale):
    check_all(*case(M, k, scale=scale), *NOISES[0])


@pytest.mark.parametrize("k", [1, 2, 3])
def test_one_huge_score_beside_small_ones(k):
    rng = np.random.default_rng(0)
    scores = [rng.normal(size=(9, 21)), rng.normal(size=(67, 21))]
    scores[0][3], scores[1][5], scores[1][6], scores[0][4, 7] = 1e6, 1e6, -1e6, 1e6
    y, F = rng.normal(size=21), rng.normal(size=(21, 3))
    full = oracle.product_scores(scores)
    gates = oracle.gates(full, full, k)
    tables = product_tables(oracle.lay_out(scores, k < 3), None, y, F, k)
    check_all(tables, oracle.residuals(gates, y, F), gates, *NOISES[0])


@given(st.integers(0, 10**6), st.sampled_from(CASES), st.sampled_from(["small", "whole", "mixed"]))
def test_equals_the_twin_on_random_scores(seed, case, kind):
    M, k = case
    scale = {"small": 0.1, "whole": 1.5, "mixed": 10.0 ** (seed % 7)}[kind]
    check_all(*product_case(M, k, n=9, scale=scale, whole=kind == "whole", seed=seed), *NOISES[seed % 3])


def test_other_phi_through_values():
    M, k, n = 3, 2, 21
    rng = np.random.default_rng(1)
    scores = [3.0 * rng.normal(size=(g, n)) for g in SIZES[M]]

    def log_phi(s):
        return -np.logaddexp(0.0, -s)

    def relative(s):
        return log_phi(s) - log_phi(0.0)

    y, F = rng.normal(size=n), rng.normal(size=(n, M))
    full = oracle.product_scores(scores)
    gates = oracle.gates(full, log_phi(full), k)
    check_all(
        product_tables(oracle.lay_out(scores, True), relative, y, F, k),
        oracle.residuals(gates, y, F),
        gates,
        *NOISES[0],
    )


@pytest.mark.parametrize("sizes", [(1,), (64,), (1, 1), (8, 64), (17, 129), (1, 3, 1)])
@pytest.mark.parametrize("n", [1, 8, 17])
def test_odd_sizes(sizes, n):
    rng = np.random.default_rng(n)
    scores, M = [rng.normal(size=(g, n)) for g in sizes], len(sizes) + 1
    y, F, full = rng.normal(size=n), rng.normal(size=(n, M)), oracle.product_scores(scores)
    for k in range(1, M + 1):
        gates = oracle.gates(full, full, k)
        residual = oracle.residuals(gates, y, F)
        tables = product_tables(oracle.lay_out(scores, k < M), None, y, F, k)
        close(kernels.mean_square(tables), np.mean(residual**2, axis=1))
        weights, log_z = oracle.aggregate(residual, 0.7, Gaussian().log_density, None)
        setting = kernels.weight_rule(len(residual), 0.7, None, GAUSSIAN, 0.0)
        swept = kernels.sweep(tables, setting)
        close(swept.log_z, log_z)
        close(swept.residual, (weights[:, :n] * residual).sum(axis=0))
        means = kernels.mean_weights(tables, setting, swept, np.array([0, n]))[0]
        close(means, weights[:, :n].mean(axis=1), 1e-12)
        close(kernels.gate_mean(tables, means), np.einsum("s,snm->nm", means, gates))


def test_scores_that_are_needed_must_be_kept():
    scores = [np.zeros((2, 3)), np.zeros((2, 3))]
    with pytest.raises(ValueError, match="kept"):
        product_tables(oracle.lay_out(scores, False), None, np.zeros(3), np.zeros((3, 3)), 2)


def test_prior_and_exclusion():
    tables, residual, gates = product_case(3, 3)
    prior = np.random.default_rng(0).normal(size=len(residual))
    prior[::3] = -np.inf
    prior[:200] = -np.inf
    check_all(tables, residual, gates, *NOISES[0], log_prior=prior)


def test_one_scale_for_all():
    check_all(*product_case(3, 2), *NOISES[0], sigma=0.4)


def change_point(n=400, sigma=0.02):
    """Half-way through, the best candidate changes, under low noise: weights fall by thousands of nats and return."""
    rng = np.random.default_rng(0)
    scores = [np.repeat(np.linspace(-4.0, 4.0, g)[:, None], n, axis=1) for g in (12, 70)]
    F = np.tile([1.0, 0.0, -1.0], (n, 1))
    y = np.where(np.arange(n) < n // 2, 0.9, -0.9) + sigma * rng.normal(size=n)
    full = oracle.product_scores(scores)
    return product_tables(oracle.lay_out(scores, False), None, y, F, 3), oracle.residuals(
        oracle.gates(full, full, 3), y, F
    )


@pytest.mark.parametrize("sigma", [0.02, 0.3])
def test_change_point_with_low_noise(sigma):
    tables, residual = change_point()
    n = residual.shape[1]
    setting = kernels.weight_rule(len(residual), sigma, None, GAUSSIAN, 0.0)
    weights, log_z = oracle.aggregate(residual, sigma, Gaussian().log_density)
    swept = kernels.sweep(tables, setting)
    close(swept.log_z, log_z)
    np.testing.assert_allclose(swept.residual, (weights[:, :n] * residual).sum(axis=0), rtol=1e-9, atol=1e-10)
    means = kernels.mean_weights(tables, setting, swept, np.array([0, n]))[0]
    np.testing.assert_allclose(means, weights[:, :n].mean(axis=1), rtol=1e-9, atol=1e-12)


def test_skipping_changes_nothing():
    tables, residual = change_point()
    n = residual.shape[1]
    setting = kernels.weight_rule(len(residual), 0.1, None, GAUSSIAN, 0.0)
    results = []
    for weighing in (setting, setting._replace(margin=np.inf)):
        swept = kernels.sweep(tables, weighing)
        results.append((swept, kernels.mean_weights(tables, weighing, swept, np.array([0, n]))))
    (skipped, skipped_means), (full, means) = results
    assert skipped.until.sum() < full.until.sum()
    assert np.abs(skipped.residual - full.residual).max() <= 1e-14
    assert np.abs(skipped_means - means).max() <= 1e-14
    np.testing.assert_array_equal(np.diff(skipped.log_weights), np.diff(full.log_weights))


@pytest.mark.parametrize("case", [product_case, list_case])
def test_threads_change_no_bit(case, monkeypatch):
    monkeypatch.setattr(threads, "PIECE", 500)
    tables, residual, _ = case(3, 2, n=50)
    assert len(threads.cut(count_units(tables), residual.size)) > 1
    sigma = np.sqrt(kernels.mean_square(tables))
    setting = kernels.weight_rule(len(residual), sigma, None, STUDENT_T, 6.0)

    def everything(n_threads):
        swept = kernels.sweep(tables, setting, n_threads)
        means = kernels.mean_weights(tables, setting, swept, np.array([0, 50]), n_threads)
        gate = kernels.gate_mean(tables, means[0], n_threads)
        square, least = kernels.mean_square(tables, n_threads), kernels.least_square(tables, n_threads)
        return [*swept, means, gate, square, np.array(least)]

    for one, two in zip(everything(1), everything(2), strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("case", [product_case, list_case])
def test_rows_and_blocks_hold_every_candidate_once(case):
    tables, residual, _ = case(4, 2)
    seen = []
    for candidates, block in residual_blocks(tables):
        close(block, residual[candidates])
        seen.extend(candidates)
    assert sorted(seen) == list(range(count_candidates(tables)))
    chosen = np.array([0, 17, 3])
    close(residual_rows(tables, chosen), residual[chosen])


def test_a_strip_that_rises_within_a_look_is_not_skipped():
    """From far below the margin candidates with a sharp density come to lead within eight observations."""
    n, sigma, size = 24, 1e-3, 128
    theta = np.repeat([40.0, -40.0], size // 2).reshape(
        -1, 1, 1
    )  # the first half follows expert 1, the other expert 2
    offset = float(Gaussian().log_density(0.0)) - np.log(sigma)
    F = np.tile([sigma * np.sqrt(2.0 * offset), 0.0], (n, 1))  # log weights of the first stay, of the other rise
    tables = explicit_tables(theta, np.ones((n, 1)), np.zeros(n), F, 2)
    setting = kernels.weight_rule(size, sigma, None, GAUSSIAN, 0.0)
    prior = np.where(np.arange(size) < size // 2, 0.0, -setting.margin - 3.0)
    swept, full = (
        kernels.sweep(tables, kernels.weight_rule(size, sigma, prior, GAUSSIAN, 0.0, margin))
        for margin in (setting.margin, np.inf)
    )
    assert abs(full.residual[0]) > 0.9 * F[0, 0]
    assert abs(full.residual[8]) < 1e-3 * F[0, 0]
    assert np.abs(swept.residual - full.residual).max() <= 1e-14
    assert np.abs(swept.log_z - full.log_z).max() <= 1e-12


@pytest.mark.parametrize("n_threads", [1, 2])
def test_a_response_beyond_every_density(n_threads):
    theta, F = np.zeros((70, 1, 1)), np.ones((3, 2))
    tables = explicit_tables(theta, np.ones((3, 1)), np.array([0.0, 1e200, 0.0]), F, 2)
    for code in (GAUSSIAN, STUDENT_T):
        swept = kernels.sweep(tables, kernels.weight_rule(70, 1.0, None, code, 6.0), n_threads)
        assert not np.isfinite(swept.log_z[2:]).any()


@pytest.mark.parametrize(("n", "p"), [(1, 1), (7, 2), (130, 3), (257, 6)])
def test_scores_of_factors_are_those_of_the_gates_to_the_bit(n, p):
    rng = np.random.default_rng(p)
    factors, features = [rng.normal(size=(g, p)) for g in (33, 5, 70)], rng.normal(size=(n, p))
    expected = []
    for theta in factors:
        scores = np.empty((len(theta), n, 2))
        linear_scores(features, theta[:, None, :], scores)
        expected.append(np.ascontiguousarray(scores[:, :, 0]))
    found, laid_out = factor_scores(features, factors, True), oracle.lay_out(expected, False)
    np.testing.assert_array_equal(found.last, laid_out.last)
    np.testing.assert_array_equal(found.prefix, laid_out.prefix)
    assert found.sizes == laid_out.sizes == (33, 5, 70)
