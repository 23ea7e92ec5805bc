"""Trees against scikit-learn's: how they are grown, and what they predict."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.tree import DecisionTreeRegressor

from gatewise import kernels
from gatewise.kernels import join_trees, Nodes, TreeShape
from gatewise.kernels.binned_growth import BinnedColumns
from gatewise.kernels.trees import BoostingSample, grow_binned_tree, SortedColumns


def nodes(one):
    tree = one.tree_
    return Nodes(np.maximum(tree.feature, -1), tree.threshold, tree.children_left, tree.children_right)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize("depth", [1, 5, None])
def test_sums_equal_scikit_learns(rng, depth):
    X, Y = rng.normal(size=(200, 3)).astype(np.float32), rng.normal(size=(200, 4))
    trees = [
        DecisionTreeRegressor(max_depth=depth, random_state=seed).fit(X[::seed], Y[::seed]) for seed in (1, 2, 3)
    ]
    packed = join_trees([(nodes(tree), tree.tree_.value[:, :, 0]) for tree in trees], 4, 3)
    fresh = rng.normal(size=(50, 3)).astype(np.float32)
    expected = sum(tree.predict(fresh) for tree in trees)
    np.testing.assert_allclose(kernels.tree_sums(fresh, packed), expected, rtol=1e-12)


def test_no_tree_gives_zeros(rng):
    assert (kernels.tree_sums(rng.normal(size=(3, 2)), join_trees([], 2, 2)) == np.zeros((3, 2))).all()


def test_rows_on_a_threshold_go_left_as_in_scikit_learn(rng):
    X = rng.integers(0, 4, size=(100, 2)).astype(float)
    y = X[:, 0] * 3 + X[:, 1]
    forest = RandomForestRegressor(5, random_state=0).fit(X, y)
    packed = join_trees([(nodes(one), one.tree_.value[:, :, 0] / 5) for one in forest.estimators_], 1, 2)
    np.testing.assert_allclose(kernels.tree_sums(X, packed)[:, 0], forest.predict(X), rtol=1e-12)


@pytest.mark.parametrize("depth", [1, 4, -1])
@pytest.mark.parametrize("n_targets", [1, 3])
def test_a_tree_is_the_one_that_scikit_learn_grows(rng, depth, n_targets):
    n = 150
    X, Y = rng.normal(size=(n, 4)).astype(np.float32), rng.normal(size=(n, n_targets))
    X[:, 1] = X[:, 1].round(1)  # ties
    weight = rng.integers(0, 4, n) * rng.uniform(0.5, 2, n)
    tree, leaf = kernels.grow_tree(*SortedColumns.sort(X), Y, weight, TreeShape(depth, 5, 4), 0)
    expected = DecisionTreeRegressor(max_depth=None if depth < 0 else depth, min_samples_leaf=5, random_state=0)
    used = weight > 0
    expected.fit(X[used], Y[used], weight[used])
    other = expected.apply(X)
    assert len({*zip(leaf, other, strict=True)}) == len({*leaf}) == len({*other})
    inner = expected.tree_
    cuts = sorted(zip(inner.feature[inner.feature >= 0], inner.threshold[inner.feature >= 0], strict=True))
    found = sorted(zip(tree.feature[tree.feature >= 0], tree.threshold[tree.feature >= 0], strict=True))
    np.testing.assert_allclose(found, cuts, rtol=1e-12)


def test_columns_of_some_rows_are_sorted_as_if_they_were_alone(rng):
    X, rows = rng.normal(size=(50, 3)), np.arange(3, 50, 2)
    some, alone = SortedColumns.sort(X).part(rows), SortedColumns.sort(X[rows])
    np.testing.assert_array_equal(some.values, alone.values)
    np.testing.assert_array_equal(some.order, alone.order)


def test_equal_targets_and_equal_columns_are_not_cut(rng):
    constant = SortedColumns.sort(np.ones((30, 2)))
    shape = TreeShape(-1, 1, 2)
    free = SortedColumns.sort(rng.normal(size=(30, 2)))
    for columns, y in ((constant, rng.normal(size=(30, 1))), (free, np.full((30, 1), 0.1))):
        tree, leaf = kernels.grow_tree(*columns, y, np.ones(30), shape, 0)
        assert len(tree.feature) == 1
        assert not leaf.any()


def test_a_column_is_tried_until_one_can_be_cut(rng):
    X = np.column_stack([np.ones((40, 5)), rng.normal(size=40)])
    y = np.sign(X[:, 5])[:, None]
    for seed in range(5):
        tree, _ = kernels.grow_tree(*SortedColumns.sort(X), y, np.ones(40), TreeShape(1, 1, 1), seed)
        assert tree.feature[0] == 5


def test_columns_that_are_tried_are_drawn_by_the_seed(rng):
    X = rng.normal(size=(60, 8))
    columns, y = SortedColumns.sort(X), X.sum(axis=1, keepdims=True)
    roots = [
        kernels.grow_tree(*columns, y, np.ones(60), TreeShape(1, 1, 1), seed)[0].feature[0].item()
        for seed in range(400)
    ]
    assert np.bincount(roots, minlength=8).min() > 25  # 50 are expected, with a deviation of 7


def test_a_forest_is_as_good_as_scikit_learns(rng):
    X = rng.normal(size=(600, 5))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * rng.normal(size=600)
    known, fresh = np.arange(300), np.arange(300, 600)
    sample = BoostingSample(np.ones(1), (np.arange(600) < 300) * 1.0, 1.0, fresh)
    (trees, found), *_ = kernels.forests(X, [y], [sample], 3, seed=0)
    np.testing.assert_allclose(found, kernels.tree_sums(X[fresh], trees)[:, 0], rtol=1e-10)
    theirs = RandomForestRegressor(100, min_samples_leaf=3, max_features=0.5, random_state=0)
    expected = theirs.fit(X[known], y[known]).predict(X[fresh])
    ours, theirs = (np.mean((one - y[fresh]) ** 2) for one in (found, expected))
    assert 0.97 < ours / theirs < 1.03
    assert np.std(found - expected) < 0.1 * np.std(y)


@pytest.mark.parametrize("n_targets", [1, 3])
def test_of_columns_that_divide_the_rows_alike_the_first_is_cut(rng, n_targets):
    """Sums from the left and from the right differ in their last bits; these must not choose the column."""
    X, Y = rng.permutation(240)[:, None] / 7, rng.normal(size=(240, n_targets))  # a bin for every value
    both, shape, weight = np.column_stack([X, -X]), TreeShape(-1, 2, 2), np.ones(240)
    exact, _ = kernels.grow_tree(*SortedColumns.sort(both), Y, weight, shape, 0)
    binned, _ = grow_binned_tree(*BinnedColumns.divide(both), Y, weight, shape, 0)
    for tree in (exact, binned):
        assert len(tree.feature) > 50
        assert not (tree.feature == 1).any()
