"""Boosted scores and shared parts: slopes against finite differences, and what is learned."""

import numpy as np
import pytest
from scipy.special import softmax

from gatewise.kernels import boost, Boosting, BoostingSample, tree_sums
from gatewise.kernels.trees import slopes_of
from gatewise.losses import LogLoss, ResidualLoss, StudentT
from gatewise.router.tree_members import boosting_problem

PLAN = Boosting(depth=3, shrinkage=0.3, rounds=(20,))


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def problem(rng, loss, n=40, M=3):
    F = rng.uniform(0.1, 0.9, size=(n, M))
    sample = BoostingSample(np.array([0.5, 0.3, 0.2]), rng.uniform(0.5, 2, n), loss.scale, np.arange(0))
    return boosting_problem(rng.normal(size=(n, 2)), F, loss), sample


LOSSES = {
    "gaussian": lambda rng, n: ResidualLoss(rng.normal(size=n), variance=0.7),
    "student": lambda rng, n: ResidualLoss(rng.normal(size=n), StudentT(5.0), variance=0.7),
    "log": lambda rng, n: LogLoss(),
}


@pytest.mark.parametrize("name", LOSSES)
def test_gradient_of_the_scores_is_the_slope_of_the_loss(rng, name):
    loss = LOSSES[name](rng, 40)
    rows, sample = problem(rng, loss)
    slopes = slopes_of(rows, sample, "scores", np.arange(40))
    outputs, step = 0.3 * rng.normal(size=rows.F.shape), 1e-5

    def value(scores):
        mixture = (softmax(np.log(sample.reference) + scores, axis=1) * rows.F).sum(axis=1)
        return sample.sample_weight * loss.value(mixture)

    found = slopes(outputs).gradient
    for m in range(3):
        move = np.zeros(3)
        move[m] = step
        expected = (value(outputs + move) - value(outputs - move)) / (2 * step)
        np.testing.assert_allclose(found[:, m], expected, rtol=1e-5, atol=1e-8)


def test_gradient_of_a_shared_part_is_in_the_unit_of_the_loss(rng):
    loss = LOSSES["gaussian"](rng, 40)
    rows, sample = problem(rng, loss)
    slopes = slopes_of(rows, sample, "shared", np.arange(40))
    outputs, step = rng.normal(size=(40, 1)), 1e-5

    def value(part):
        z = rows.F @ sample.reference + sample.scale * part[:, 0]
        return sample.sample_weight * loss.value(z)

    expected = (value(outputs + step) - value(outputs - step)) / (2 * step)
    np.testing.assert_allclose(slopes(outputs).gradient[:, 0], expected, rtol=1e-6, atol=1e-8)


def board(rng, n):
    X = rng.uniform(-1, 1, (n, 2))
    F = np.column_stack([np.ones(n), -np.ones(n)])
    white = (np.floor(2 * X).sum(axis=1) % 2).astype(int)
    return X, F, F[np.arange(n), white], white


def boosted(X, F, loss, plan, weight=None, asked=()):
    """The scores of equal references, boosted on one sample."""
    weight = np.ones(len(F)) if weight is None else weight
    sample = BoostingSample(np.array([0.5, 0.5]), weight, float(loss.scale), np.asarray(asked, dtype=int))
    return boost(boosting_problem(X, F, loss), [sample], "scores", plan, seed=0)[0]


def test_scores_find_a_checkerboard(rng):
    X, F, truth, _ = board(rng, 2000)
    loss = ResidualLoss(truth + 0.5 * rng.normal(size=2000), variance=1.25)
    trees = boosted(X, F, loss, Boosting(depth=5, shrinkage=0.3, rounds=(40,))).trees
    fresh, _, _, white = board(rng, 2000)
    assert np.mean(tree_sums(fresh, trees).argmax(axis=1) == white) > 0.9


def test_the_first_trees_are_what_fewer_rounds_give(rng):
    X, F, truth, _ = board(rng, 300)
    long, short = (boosted(X, F, ResidualLoss(truth), Boosting(3, 0.3, (rounds,))) for rounds in (8, 3))
    np.testing.assert_array_equal(tree_sums(X, long.trees, first=3), tree_sums(X, short.trees))


def test_outputs_are_sums_of_trees_at_the_rows_asked_for(rng):
    X, F, truth, _ = board(rng, 300)
    asked, weight = np.array([3, 250, 7]), (np.arange(300) < 200) * 1.0
    found = boosted(X, F, ResidualLoss(truth), Boosting(3, 0.3, (2, 8)), weight, asked)
    for place, rounds in enumerate((2, 8)):
        np.testing.assert_allclose(found.outputs[place], tree_sums(X[asked], found.trees, first=rounds), rtol=1e-12)


def test_rows_without_weight_are_as_good_as_absent(rng):
    X, F, truth, _ = board(rng, 300)
    weight = (np.arange(300) < 200) * 1.0
    whole = boosted(X, F, ResidualLoss(truth), PLAN, weight, np.arange(300))
    part = boosted(X[:200], F[:200], ResidualLoss(truth[:200]), PLAN)
    np.testing.assert_allclose(tree_sums(X, whole.trees), tree_sums(X, part.trees))


def test_units_and_order_of_experts_do_not_matter(rng):
    X, F, truth, _ = board(rng, 300)
    y = truth + 0.5 * rng.normal(size=300)

    def scores(scale, order):
        loss = ResidualLoss(scale * y, variance=scale**2)
        return tree_sums(X, boosted(X, scale * F[:, order], loss, PLAN).trees)

    plain = scores(1.0, [0, 1])
    np.testing.assert_allclose(scores(1024.0, [0, 1]), plain, atol=1e-9)
    np.testing.assert_allclose(scores(1.0, [1, 0])[:, ::-1], plain, atol=1e-9)


def test_without_columns_nothing_is_grown(rng):
    _, F, truth, _ = board(rng, 40)
    found = boosted(np.empty((40, 0)), F, ResidualLoss(truth), PLAN, asked=np.arange(5))
    assert len(found.trees.feature) == 0
    assert not found.outputs.any()
