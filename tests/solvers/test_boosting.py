"""Boosted scores and shared parts: slopes against finite differences, and what is learned."""

import numpy as np
import pytest

from gatewise.kernels import tree_sums
from gatewise.losses import LogLoss, ResidualLoss, StudentT
from gatewise.solvers.boosting import boost, Boosting, BoostingProblem, slopes_of

PLAN = Boosting(depth=3, shrinkage=0.3, rounds=20)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def problem(rng, loss_of, n=40, M=3):
    F = rng.uniform(0.1, 0.9, size=(n, M))
    return BoostingProblem(
        rng.normal(size=(n, 2)), F, loss_of(rng, n), np.array([0.5, 0.3, 0.2]), rng.uniform(0.5, 2, n)
    )


LOSSES = {
    "gaussian": lambda rng, n: ResidualLoss(rng.normal(size=n), variance=0.7),
    "student": lambda rng, n: ResidualLoss(rng.normal(size=n), StudentT(5.0), variance=0.7),
    "log": lambda rng, n: LogLoss(),
}


@pytest.mark.parametrize("name", LOSSES)
def test_gradient_of_the_scores_is_the_slope_of_the_loss(rng, name):
    rows = problem(rng, LOSSES[name])
    slopes = slopes_of(rows, "scores")
    outputs, step = 0.3 * rng.normal(size=rows.F.shape), 1e-5
    found = slopes(outputs).gradient
    for m in range(3):
        move = np.zeros(3)
        move[m] = step
        expected = (slopes(outputs + move).value - slopes(outputs - move).value) / (2 * step)
        np.testing.assert_allclose(found[:, m], expected, rtol=1e-5, atol=1e-8)


def test_gradient_of_a_shared_part_is_in_the_unit_of_the_loss(rng):
    rows = problem(rng, LOSSES["gaussian"])
    slopes = slopes_of(rows, "shared")
    outputs, step = rng.normal(size=(40, 1)), 1e-5
    expected = (slopes(outputs + step).value - slopes(outputs - step).value) / (2 * step)
    np.testing.assert_allclose(slopes(outputs).gradient[:, 0], expected, rtol=1e-6, atol=1e-8)


def board(rng, n):
    X = rng.uniform(-1, 1, (n, 2))
    F = np.column_stack([np.ones(n), -np.ones(n)])
    white = (np.floor(2 * X).sum(axis=1) % 2).astype(int)
    return X, F, F[np.arange(n), white], white


def test_scores_find_a_checkerboard(rng):
    X, F, truth, _ = board(rng, 2000)
    loss = ResidualLoss(truth + 0.5 * rng.normal(size=2000), variance=1.25)
    rows = BoostingProblem(X, F, loss, np.array([0.5, 0.5]), np.ones(2000))
    trees = boost(rows, "scores", Boosting(depth=5, shrinkage=0.3, rounds=40), seed=0)
    fresh, _, _, white = board(rng, 2000)
    assert np.mean(tree_sums(fresh, trees).argmax(axis=1) == white) > 0.9


def test_the_first_trees_are_what_fewer_rounds_give(rng):
    X, F, truth, _ = board(rng, 300)
    rows = BoostingProblem(X, F, ResidualLoss(truth), np.array([0.5, 0.5]), np.ones(300))
    long, short = (boost(rows, "scores", Boosting(3, 0.3, rounds), seed=0) for rounds in (8, 3))
    np.testing.assert_array_equal(tree_sums(X, long, first=3), tree_sums(X, short))


def test_units_and_order_of_experts_do_not_matter(rng):
    X, F, truth, _ = board(rng, 300)
    y = truth + 0.5 * rng.normal(size=300)

    def scores(scale, order):
        loss = ResidualLoss(scale * y, variance=scale**2)
        rows = BoostingProblem(X, scale * F[:, order], loss, np.array([0.5, 0.5]), np.ones(300))
        return tree_sums(X, boost(rows, "scores", PLAN, seed=0))

    plain = scores(1.0, [0, 1])
    np.testing.assert_allclose(scores(1024.0, [0, 1]), plain, atol=1e-9)
    np.testing.assert_allclose(scores(1.0, [1, 0])[:, ::-1], plain, atol=1e-9)
