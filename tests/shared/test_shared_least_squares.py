"""Additive least squares against plain `lstsq` on the full design, and its laws."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatewise.shared.least_squares import (
    AdditiveProblem,
    factorize,
    FITS,
    joint_fit,
    plain_two_stage_fit,
    pure_fit,
    two_stage_fit,
)


def make_problem(seed=0, n=120, p_s=3, p_r=(2, 4, 3), intercepts=True):
    rng = np.random.default_rng(seed)
    labels = rng.integers(len(p_r), size=n)
    rows = tuple(np.flatnonzero(labels == j) for j in range(len(p_r)))
    S = rng.normal(size=(n, p_s))
    routed = tuple(rng.normal(size=(len(index), p)) for index, p in zip(rows, p_r, strict=True))
    if intercepts:
        S = np.column_stack([np.ones(n), S])
        routed = tuple(np.column_stack([np.ones(len(R)), R]) for R in routed)
    return AdditiveProblem(S, routed, rows, rng.normal(size=n) + 3 * labels)


def full_design(problem):
    blocks = [problem.shared]
    for R, index in zip(problem.routed, problem.rows, strict=True):
        block = np.zeros((len(problem.y), R.shape[1]))
        block[index] = R
        blocks.append(block)
    return np.hstack(blocks)


def naive_rss(problem):
    D = full_design(problem)
    return ((problem.y - D @ np.linalg.lstsq(D, problem.y, rcond=None)[0]) ** 2).sum()


def fitted(problem, fit):
    return full_design(problem) @ np.concatenate([fit.shared, *fit.routed])


@given(seed=st.integers(0, 10_000), intercepts=st.booleans())
def test_joint_is_least_squares_on_the_full_design_even_when_it_has_not_full_rank(seed, intercepts):
    problem = make_problem(seed, intercepts=intercepts)
    fit = joint_fit(problem)
    assert fit.rss == pytest.approx(naive_rss(problem), rel=1e-10)
    D = full_design(problem)
    np.testing.assert_allclose(D.T @ (problem.y - fitted(problem, fit)), 0.0, atol=1e-9)
    assert fit.df == pytest.approx(np.linalg.matrix_rank(D))


def test_an_intercept_in_every_component_is_carried_by_the_routed_ones():
    problem = make_problem(intercepts=True)
    fit = joint_fit(problem)
    assert fit.dropped == (0,)
    assert fit.shared[0] == 0.0
    without = joint_fit(problem._replace(shared=problem.shared[:, 1:]))
    np.testing.assert_allclose(without.shared, fit.shared[1:], atol=1e-10)
    for ours, theirs in zip(fit.routed, without.routed, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-10)


def test_bad_scaling_and_repeated_columns_do_not_break_it():
    problem = make_problem(3)
    stretched = problem._replace(shared=np.hstack([problem.shared * [1.0, 1e8, 1e-8, 1.0], problem.shared[:, 1:2]]))
    fit = joint_fit(stretched)
    assert fit.rss == pytest.approx(joint_fit(problem).rss, rel=1e-10)
    assert len(fit.dropped) == 2
    assert np.isfinite(fit.shared).all()


@given(seed=st.integers(0, 10_000))
def test_residualized_two_stage_is_the_joint_solution_and_plain_never_fits_better(seed):
    problem = make_problem(seed)
    joint, stages, plain = joint_fit(problem), two_stage_fit(problem), plain_two_stage_fit(problem)
    np.testing.assert_allclose(stages.shared, joint.shared, atol=1e-9)
    np.testing.assert_allclose(fitted(problem, stages), fitted(problem, joint), atol=1e-9)
    assert plain.rss >= joint.rss * (1 - 1e-12)
    assert stages.df == pytest.approx(joint.df)
    assert plain.df == pytest.approx(
        np.linalg.matrix_rank(problem.shared) + sum(map(np.linalg.matrix_rank, problem.routed))
    )


def test_plain_two_stage_is_right_where_the_shared_columns_are_orthogonal_to_the_routed_ones():
    problem = make_problem(5, intercepts=False)
    factors = [factorize(R) for R in problem.routed]
    S = problem.shared.copy()
    for f, index in zip(factors, problem.rows, strict=True):
        S[index] = f.residual(S[index])
    problem = problem._replace(shared=S)
    np.testing.assert_allclose(plain_two_stage_fit(problem).shared, joint_fit(problem).shared, atol=1e-10)


def test_pure_is_one_regression_per_region():
    problem = make_problem(1)
    fit = pure_fit(problem)
    assert not fit.shared.any()
    for R, index, a in zip(problem.routed, problem.rows, fit.routed, strict=True):
        np.testing.assert_allclose(a, np.linalg.lstsq(R, problem.y[index], rcond=None)[0], atol=1e-10)


def test_ridge_solves_its_normal_equations_and_leaves_constants_free():
    problem, ridge = make_problem(2), (0.3, 0.05)
    fit = joint_fit(problem, ridge)
    D, n = full_design(problem), len(problem.y)
    penalties = np.concatenate([[0.0], np.full(3, n * ridge[0])])
    for R in problem.routed:
        penalties = np.concatenate([penalties, [0.0], np.full(R.shape[1] - 1, n * ridge[1])])
    coefficients = np.concatenate([fit.shared, *fit.routed])
    np.testing.assert_allclose(D.T @ (problem.y - D @ coefficients), penalties * coefficients, atol=1e-8)
    kept = np.arange(len(penalties)) != 0  # the shared intercept is the redundant one
    A = D[:, kept]
    hat = A @ np.linalg.solve(A.T @ A + np.diag(penalties[kept]), A.T)
    assert fit.df == pytest.approx(np.trace(hat))


@pytest.mark.parametrize("method", FITS)
def test_more_ridge_means_fewer_degrees_of_freedom(method):
    problem = make_problem(4)
    df = [FITS[method](problem, (r, r)).df for r in (0.0, 0.01, 0.1, 1.0)]
    assert df == sorted(df, reverse=True)
