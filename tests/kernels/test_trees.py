"""Packed trees against scikit-learn's own predictions."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.tree import DecisionTreeRegressor

from gatewise import kernels
from gatewise.solvers.boosting import pack_trees


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize("depth", [1, 5, None])
def test_sums_equal_scikit_learns(rng, depth):
    X, Y = rng.normal(size=(200, 3)).astype(np.float32), rng.normal(size=(200, 4))
    trees = [
        DecisionTreeRegressor(max_depth=depth, random_state=seed).fit(X[::seed], Y[::seed]) for seed in (1, 2, 3)
    ]
    packed = pack_trees([(tree.tree_, tree.tree_.value[:, :, 0]) for tree in trees], 4, 3)
    fresh = rng.normal(size=(50, 3)).astype(np.float32)
    expected = sum(tree.predict(fresh) for tree in trees)
    np.testing.assert_allclose(kernels.tree_sums(fresh, packed), expected, rtol=1e-12)


def test_no_tree_gives_zeros(rng):
    assert (kernels.tree_sums(rng.normal(size=(3, 2)), pack_trees([], 2, 2)) == np.zeros((3, 2))).all()


def test_rows_on_a_threshold_go_left_as_in_scikit_learn(rng):
    X = rng.integers(0, 4, size=(100, 2)).astype(float)
    y = X[:, 0] * 3 + X[:, 1]
    forest = RandomForestRegressor(5, random_state=0).fit(X, y)
    packed = pack_trees([(one.tree_, one.tree_.value[:, :, 0] / 5) for one in forest.estimators_], 1, 2)
    np.testing.assert_allclose(kernels.tree_sums(X, packed)[:, 0], forest.predict(X), rtol=1e-12)
