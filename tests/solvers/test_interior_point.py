"""Quadratic programs over a product of simplices: the path, its end and its certificate."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from gatewise.solvers.simplex_least_squares import (
    CentralPoint,
    gradient_at,
    minimise_over_simplices,
    QuadraticObjective,
    simplex_gap,
    value_at,
)


def random_problem(seed: int, M: int, C: int, rank: int) -> QuadraticObjective:
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(rank, M * C))
    return QuadraticObjective(root.T @ root, rng.normal(size=(M, C)), 0.0)


@given(seed=st.integers(0, 2**32 - 1))
def test_gap_is_the_largest_gain_over_the_vertices(seed: int) -> None:
    rng = np.random.default_rng(seed)
    gradient, theta = rng.normal(size=(3, 4)), rng.dirichlet(np.ones(3), 4).T
    vertices = (np.eye(3)[:, list(choice)] for choice in product(range(3), repeat=4))
    assert simplex_gap(gradient, theta) == pytest.approx(max(np.sum(gradient * (theta - u)) for u in vertices))


@given(seed=st.integers(0, 2**32 - 1), rank=st.integers(0, 6))
def test_any_rank_and_a_linear_term_of_its_own(seed: int, rank: int) -> None:
    problem = random_problem(seed, 3, 2, rank)
    state, taken = minimise_over_simplices(problem, 0.0, 1e-10, 60)
    assert taken < 40
    assert simplex_gap(state.gradient, state.theta) <= 1e-10
    np.testing.assert_allclose(state.theta.sum(axis=0), 1.0, atol=1e-12)
    np.testing.assert_allclose(state.gradient, gradient_at(problem, state.theta))


@pytest.mark.parametrize("seed", range(3))
def test_end_of_the_path_agrees_with_slsqp(seed: int) -> None:
    problem = random_problem(seed, 3, 4, 12)

    def value(x: np.ndarray) -> float:
        theta = x.reshape(3, 4)
        return value_at(problem, CentralPoint(theta, theta, gradient_at(problem, theta)))

    sums = np.tile(np.eye(4), 3)
    rival = minimize(
        value,
        np.full(12, 1 / 3),
        bounds=[(0, 1)] * 12,
        constraints={"type": "eq", "fun": lambda x: sums @ x - 1},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    state, _ = minimise_over_simplices(problem, 0.0, 1e-12, 60)
    assert value_at(problem, state) == pytest.approx(rival.fun, abs=1e-7)


def test_a_run_without_end_stops_at_rounding() -> None:
    _, taken = minimise_over_simplices(random_problem(0, 3, 4, 12), 0.0, 0.0, 1000)
    assert taken < 100


def test_a_matrix_without_factor_ends_the_path() -> None:
    bad = QuadraticObjective(-np.eye(4) * 1e9, np.zeros((2, 2)), 0.0)
    state, taken = minimise_over_simplices(bad, 0.0, 0.0, 10)
    assert taken == 0
    np.testing.assert_array_equal(state.theta, 0.5)
