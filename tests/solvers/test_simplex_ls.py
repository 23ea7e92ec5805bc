"""Least squares over a kernel gate: the certificate, closed forms, independent solvers, laws, edges."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import lsq_linear, minimize
from sklearn.exceptions import ConvergenceWarning

from gatewise.nets import simplex_lattice
from gatewise.solvers.simplex_least_squares import convex_stack, greedy_stacks, simplex_least_squares

Floats = NDArray[np.float64]
seeds = st.integers(0, 2**32 - 1)


def objective(theta: Floats, features: Floats, F: Floats, y: Floats, weight: Floats | None = None) -> float:
    residual = y - np.einsum("ic,mc,im->i", features, theta, F)
    return float(np.average(residual**2, weights=weight))


def gradient(theta: Floats, features: Floats, F: Floats, y: Floats) -> Floats:
    residual = y - np.einsum("ic,mc,im->i", features, theta, F)
    return -2.0 * np.einsum("i,ic,im->mc", residual, features, F) / len(y)


def problem(seed: int, n: int = 60, M: int = 3, C: int = 4) -> tuple[Floats, Floats, Floats]:
    """Features with row sums one, experts, and a response with free and zero weights at its minimum."""
    rng = np.random.default_rng(seed)
    features = rng.dirichlet(np.ones(C), n)
    F = rng.normal(size=(n, M))
    theta = rng.dirichlet(np.full(M, 0.3), C).T
    return features, F, np.einsum("ic,mc,im->i", features, theta, F) + 0.3 * rng.normal(size=n)


def by_slsqp(features: Floats, F: Floats, y: Floats) -> float:
    """The minimum by scipy's sequential quadratic programming, from several starts."""
    M, C = F.shape[1], features.shape[1]
    sums = np.tile(np.eye(C), M)
    rng = np.random.default_rng(0)
    results = [
        minimize(
            lambda x: objective(x.reshape(M, C), features, F, y),
            rng.dirichlet(np.ones(M), C).T.ravel(),
            jac=lambda x: gradient(x.reshape(M, C), features, F, y).ravel(),
            bounds=[(0.0, 1.0)] * (M * C),
            constraints={"type": "eq", "fun": lambda x: sums @ x - 1.0, "jac": lambda x: sums},
            method="SLSQP",
            options={"ftol": 1e-15, "maxiter": 500},
        )
        for _ in range(3)
    ]
    return min(float(result.fun) for result in results)


# --- the certificate ------------------------------------------------------------------------------


@given(seed=seeds, n=st.integers(1, 80), M=st.integers(1, 5), C=st.integers(1, 8))
def test_certificate_holds_whatever_the_shape(seed: int, n: int, M: int, C: int) -> None:
    features, F, y = problem(seed, n, M, C)
    fit = simplex_least_squares(features, F, y)
    assert fit.theta.shape == (M, C)
    assert (fit.theta >= 0).all()
    np.testing.assert_allclose(fit.theta.sum(axis=0), 1.0, atol=1e-14)
    assert fit.objective == pytest.approx(objective(fit.theta, features, F, y), rel=1e-9, abs=1e-12)
    slope = gradient(fit.theta, features, F, y)
    gap = np.sum(slope * fit.theta) - slope.min(axis=0).sum()
    assert fit.gap == pytest.approx(gap, abs=1e-12)
    assert fit.converged
    assert fit.relative_gap <= 1e-10


@given(seed=seeds)
def test_no_feasible_point_is_lower_than_objective_less_gap(seed: int) -> None:
    features, F, y = problem(seed)
    fit = simplex_least_squares(features, F, y)
    rng = np.random.default_rng(seed)
    for concentration in (0.1, 1.0, 10.0):
        other = rng.dirichlet(np.full(3, concentration), 4).T
        for share in (1.0, 1e-2, 1e-5):
            near = (1 - share) * fit.theta + share * other
            assert objective(near, features, F, y) >= fit.objective - fit.gap - 1e-14


def test_optimality_conditions() -> None:
    features, F, y = problem(3, n=200)
    fit = simplex_least_squares(features, F, y)
    slope = gradient(fit.theta, features, F, y)
    above = slope - slope.min(axis=0)
    assert (fit.theta == 0).any()  # exact zeros, not small numbers
    assert (fit.theta > 0.01).any()
    np.testing.assert_allclose(above[fit.theta > 1e-6], 0.0, atol=1e-9)


def test_too_few_steps_warn_and_say_so() -> None:
    features, F, y = problem(0)
    with pytest.warns(ConvergenceWarning, match="stopped after 2 steps with a relative gap of"):
        fit = simplex_least_squares(features, F, y, max_iter=2)
    assert not fit.converged
    slope = gradient(fit.theta, features, F, y)
    assert fit.gap == pytest.approx(np.sum(slope * fit.theta) - slope.min(axis=0).sum(), rel=1e-9)
    best = simplex_least_squares(features, F, y)
    assert fit.objective - fit.gap <= best.objective <= fit.objective


# --- closed forms and brute force -----------------------------------------------------------------


@pytest.mark.parametrize(("level", "weight"), [(-1.0, 1.0), (0.25, 0.75), (0.5, 0.5), (3.0, 0.0)])
def test_two_constant_experts(level: float, weight: float) -> None:
    F = np.tile([0.0, 1.0], (5, 1))
    fit = convex_stack(F, level + np.array([-1.0, 0.5, 0.0, 0.2, 0.3]))
    np.testing.assert_allclose(fit.theta[:, 0], [weight, 1.0 - weight], atol=1e-9)


@given(seed=seeds)
def test_stack_of_two_has_the_clipped_regression_slope(seed: int) -> None:
    rng = np.random.default_rng(seed)
    F, y = rng.normal(size=(30, 2)), rng.normal(size=30)
    step = F[:, 0] - F[:, 1]
    slope = np.clip(step @ (y - F[:, 1]) / (step @ step), 0.0, 1.0)
    np.testing.assert_allclose(convex_stack(F, y).theta[:, 0], [slope, 1.0 - slope], atol=1e-7)


def test_disjoint_features_are_separate_stacks() -> None:
    rng = np.random.default_rng(5)
    F, y = rng.normal(size=(60, 4)), rng.normal(size=60)
    cell = rng.integers(0, 3, 60)
    fit = simplex_least_squares(np.eye(3)[cell], F, y)
    for c in range(3):
        alone = convex_stack(F[cell == c], y[cell == c])
        np.testing.assert_allclose(fit.theta[:, c], alone.theta[:, 0], atol=1e-7)


@pytest.mark.parametrize(("M", "C", "levels"), [(3, 1, 100), (2, 2, 100), (3, 2, 20), (2, 3, 30)])
def test_no_lattice_point_is_better(M: int, C: int, levels: int) -> None:
    features, F, y = problem(11, 25, M, C)
    fit = simplex_least_squares(features, F, y)
    lattice = simplex_lattice(M, levels)
    best = min(objective(np.stack(columns, axis=1), features, F, y) for columns in product(lattice, repeat=C))
    assert fit.objective <= best + 1e-14
    assert best - fit.objective < 4.0 / levels


# --- independent solvers --------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("n", "M", "C"), [(60, 3, 4), (8, 3, 4), (40, 5, 2), (30, 2, 6)])
def test_agrees_with_slsqp(seed: int, n: int, M: int, C: int) -> None:
    features, F, y = problem(seed, n, M, C)
    fit = simplex_least_squares(features, F, y)
    assert fit.objective == pytest.approx(by_slsqp(features, F, y), abs=1e-8)
    assert fit.objective <= by_slsqp(features, F, y) + 1e-12


@pytest.mark.parametrize("seed", range(5))
def test_two_experts_agree_with_bounded_least_squares(seed: int) -> None:
    features, F, y = problem(seed, 80, 2, 6)  # theta_2 = 1 - theta_1: only bounds are left
    result = lsq_linear(
        features * (F[:, :1] - F[:, 1:]), y - features.sum(axis=1) * F[:, 1], (0, 1), method="bvls", tol=1e-15
    )
    fit = simplex_least_squares(features, F, y)
    np.testing.assert_allclose(fit.theta[0], result.x, atol=1e-8)


# --- laws -----------------------------------------------------------------------------------------


@given(seed=seeds)
def test_relabelling_experts_relabels_theta(seed: int) -> None:
    features, F, y = problem(seed, M=4)
    order = np.random.default_rng(seed).permutation(4)
    theta = simplex_least_squares(features, F, y).theta
    np.testing.assert_allclose(simplex_least_squares(features, F[:, order], y).theta, theta[order], atol=1e-6)


@given(seed=seeds, shift=st.floats(-1e3, 1e3), factor=st.sampled_from([1e-150, 1e-3, 1.0, 1e6, 1e100]))
def test_a_common_constant_and_a_unit_change_nothing(seed: int, shift: float, factor: float) -> None:
    features, F, y = problem(seed)
    fit = simplex_least_squares(features, F, y)
    moved = simplex_least_squares(features, factor * (F + shift), factor * (y + shift))
    np.testing.assert_allclose(moved.theta, fit.theta, atol=1e-6)
    assert moved.objective / factor**2 == pytest.approx(fit.objective, rel=1e-8)


@given(seed=seeds)
def test_weights_count_rows(seed: int) -> None:
    features, F, y = problem(seed, 20)
    counts = np.random.default_rng(seed).integers(0, 4, 20)
    counts[0] = 1
    fit = simplex_least_squares(features, F, y, 7.0 * counts)
    again = simplex_least_squares(*(np.repeat(a, counts, axis=0) for a in (features, F, y)))
    assert fit.objective == pytest.approx(again.objective, rel=1e-9, abs=1e-12)
    assert fit.objective == pytest.approx(objective(fit.theta, features, F, y, counts), rel=1e-9, abs=1e-12)


def test_a_row_without_weight_is_not_seen() -> None:
    features, F, y = problem(9)
    fit = simplex_least_squares(features[1:], F[1:], y[1:])
    F[0], y[0] = 1e140, -1e140
    weight = np.ones(60)
    weight[0] = 0.0
    np.testing.assert_array_equal(simplex_least_squares(features, F, y, weight).theta, fit.theta)


def test_features_need_not_have_sum_one() -> None:
    rng = np.random.default_rng(8)
    features, F, y = rng.uniform(0, 1, (50, 3)), rng.normal(size=(50, 3)), rng.normal(size=50)
    fit = simplex_least_squares(features, F, y)
    assert fit.objective == pytest.approx(by_slsqp(features, F, y), abs=1e-9)


def test_blocks_of_rows_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    features, F, y = problem(2)
    whole = simplex_least_squares(features, F, y)
    monkeypatch.setattr("gatewise.solvers.simplex_least_squares.BLOCK_NUMBERS", 100)
    np.testing.assert_allclose(simplex_least_squares(features, F, y).theta, whole.theta, atol=1e-8)


# --- edges ----------------------------------------------------------------------------------------


def test_experts_that_agree_share_equally() -> None:
    features, F, y = problem(4, n=300)
    doubled = simplex_least_squares(features, np.column_stack([F, F[:, 0]]), y)
    single = simplex_least_squares(features, F, y)
    assert doubled.converged
    assert doubled.objective == pytest.approx(single.objective, rel=1e-9)
    np.testing.assert_allclose(doubled.theta[0], doubled.theta[3], atol=1e-3)


def test_all_experts_agree_everywhere() -> None:
    features, F, y = problem(4)
    fit = simplex_least_squares(features, F[:, [0, 0, 0]], y)
    np.testing.assert_allclose(fit.theta, 1 / 3)
    assert fit.objective == pytest.approx(np.mean((y - F[:, 0]) ** 2))


def test_perfect_experts_leave_nothing() -> None:
    y = np.array([0.1, -2.0, 0.7])
    fit = convex_stack(np.column_stack([y, y, y]), y)
    assert (fit.objective, fit.gap, fit.relative_gap) == (0.0, 0.0, 0.0)
    np.testing.assert_allclose(fit.theta, 1 / 3)


def test_one_row_and_more_parameters_than_rows() -> None:
    fit = simplex_least_squares([[0.3, 0.7]], [[-1.0, 0.5, 2.0]], [1.1])
    assert fit.converged
    assert fit.objective < 1e-12
    fit = simplex_least_squares([[0.3, 0.7]], [[-1.0, 0.5, 2.0]], [4.0])
    np.testing.assert_array_equal(fit.theta, [[0, 0], [0, 0], [1, 1]])
    assert simplex_least_squares(*problem(6, n=10, M=4, C=25)).converged


def test_constant_response_and_one_expert() -> None:
    features, F, _ = problem(1)
    assert simplex_least_squares(features, F, np.zeros(60)).converged
    assert simplex_least_squares(features, F, np.full(60, 1e8)).converged
    np.testing.assert_array_equal(convex_stack(F[:, :1], np.zeros(60)).theta, [[1.0]])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features": np.full((60, 4), np.nan)}, "features must be finite"),
        ({"features": np.ones(60)}, r"features must have shape \(n, d\)"),
        (
            {"features": np.ones((0, 4)), "F": np.ones((0, 3)), "y": np.ones(0)},
            "F must have at least one row",
        ),
        ({"F": np.full((60, 3), np.inf)}, "F must be finite"),
        ({"F": np.ones((59, 3))}, "F must have one row per row of features, 60, not 59"),
        ({"F": np.ones((60, 0))}, "F must have at least one column"),
        ({"y": np.ones((60, 1))}, r"y must have shape \(60,\)"),
        ({"y": np.full(60, np.nan)}, "y must be finite"),
        ({"sample_weight": -np.ones(60)}, "sample_weight must not be negative"),
        ({"sample_weight": np.zeros(60)}, "not zero for all rows"),
        ({"sample_weight": np.ones(3)}, "sample_weight must have shape"),
        ({"y": np.full(60, 1e200)}, "y must not exceed 1e.150"),
        ({"tol": 0.0}, "tol must be a finite number above 0"),
        ({"max_iter": 0}, "max_iter must be a whole number at least 1"),
        ({"features": np.ones((60, 20_001))}, "take a gate with fewer centres"),
    ],
)
def test_bad_input_names_the_argument(change: dict[str, object], message: str) -> None:
    features, F, y = problem(0)
    with pytest.raises(ValueError, match=message):
        simplex_least_squares(**({"features": features, "F": F, "y": y} | change))


def test_greedy_selection_is_what_a_plain_loop_finds():
    rng = np.random.default_rng(3)
    y, weight = rng.normal(size=60), rng.uniform(0.2, 2.0, size=(2, 60))
    F = y[:, None] + rng.normal(size=(60, 4)) + [0.3, -0.5, 0.0, 1.0]
    for found, one in zip(greedy_stacks(F, y, weight), weight, strict=True):
        chosen, tried = [], []
        for _ in range(50):
            errors = [one @ (F[:, [*chosen, m]].mean(axis=1) - y) ** 2 for m in range(4)]
            chosen.append(int(np.argmin(errors)))
            tried.append(min(errors))
        kept = chosen[: int(np.argmin(tried)) + 1]
        np.testing.assert_allclose(found, np.bincount(kept, minlength=4) / len(kept))
