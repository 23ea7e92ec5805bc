"""Trees on bins against trees on sorted columns, which compare all cuts."""

import numba
import numpy as np
import pytest

from gatewise import kernels
from gatewise.kernels import Boosting, BoostingProblem, BoostingSample, trees, TreeShape
from gatewise.kernels.binned_growth import BinnedColumns
from gatewise.kernels.trees import grow_binned_tree, SortedColumns


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize("depth", [1, 4, -1])
@pytest.mark.parametrize("n_targets", [1, 3, 6])
def test_with_one_value_in_each_bin_the_tree_compares_all_cuts(rng, depth, n_targets):
    X, Y = rng.integers(0, 200, (500, 4)).astype(float), rng.integers(-50, 50, (500, n_targets)).astype(float)
    X[:, 1] = X[:, 1].round(-1)  # ties
    weight = rng.integers(0, 4, 500).astype(float)
    used, shape = np.flatnonzero(weight), TreeShape(depth, 3, 2)
    expected, leaf = kernels.grow_tree(*SortedColumns.sort(X), Y, weight, shape, 5)
    found, home = grow_binned_tree(*BinnedColumns.divide(X).part(used), Y[used], weight[used], shape, 5)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(home, leaf[used])


def test_a_larger_number_is_in_no_smaller_bin(rng):
    X = np.column_stack([rng.normal(size=3000), rng.exponential(size=3000).round(1), np.zeros(3000)])
    values, bins = BinnedColumns.divide(X)
    for column, own in zip(values, bins, strict=True):
        assert (np.diff(own[np.argsort(column)].astype(int)) >= 0).all()
    assert len(np.unique(bins[0])) == 256
    assert np.bincount(bins[0]).max() < 2 * 3000 / 256
    assert (bins[2] == 0).all()


def test_a_cut_is_as_sharp_as_the_rows(rng):
    x = rng.uniform(size=(4000, 1))
    for step in (0.3, 0.70123):
        tree, _ = grow_binned_tree(*BinnedColumns.divide(x), (x > step) * 1.0, np.ones(4000), TreeShape(1, 1, 1), 0)
        assert x[x <= step].max() <= tree.threshold[0] < x[x > step].min()


def test_rows_within_one_bin_are_cut_too(rng):
    x, y = rng.uniform(size=(3000, 1)), rng.normal(size=(3000, 1))  # about twelve rows in each bin
    _, home = grow_binned_tree(*BinnedColumns.divide(x), y, np.ones(3000), TreeShape(-1, 3, 1), 0)
    sizes = np.bincount(home)
    assert sizes[sizes > 0].min() >= 3
    assert sizes.max() < 6


def test_equal_targets_and_equal_columns_are_not_cut(rng):
    for X, y in ((np.ones((300, 2)), rng.normal(size=(300, 1))), (rng.normal(size=(300, 2)), np.full((300, 1), 0.1))):
        tree, home = grow_binned_tree(*BinnedColumns.divide(X), y, np.ones(300), TreeShape(-1, 1, 2), 0)
        assert len(tree.feature) == 1
        assert not home.any()


def ensembles(seed=0):
    """A forest, boosted scores and a boosted shared part on columns of few values, each for two samples."""
    rng = np.random.default_rng(seed)
    X, F = rng.integers(0, 30, (400, 4)).astype(float), rng.normal(size=(400, 3))
    y = np.where(X[:, 0] > 12, F[:, 0], F[:, 1]) + 0.2 * rng.normal(size=400)
    fold = np.arange(400) % 2
    samples = [BoostingSample(np.full(3, 1 / 3), (fold == j) * 1.0, 0.5, np.flatnonzero(fold != j)) for j in (0, 1)]
    problem, plan = BoostingProblem(X, F, y), Boosting(3, 0.3, (2, 5))
    whole = (1000 * y).round()  # sums of whole numbers are exact in any order: ties stay ties
    found = [outputs for _, outputs in kernels.forests(X, [whole, whole], samples, 3, seed=0)]
    for part in ("scores", "shared"):
        found += [one.outputs for one in kernels.boost(problem, samples, part, plan, seed=0)]
    return found


def test_ensembles_on_bins_are_those_on_sorted_columns(monkeypatch):
    exact = ensembles()
    monkeypatch.setattr(trees, "MOST_EXACT", 0)
    for ours, theirs in zip(ensembles(), exact, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-9)


def test_threads_do_not_change_a_bit(monkeypatch):
    monkeypatch.setattr(trees, "MOST_EXACT", 0)
    before = numba.get_num_threads()
    try:
        numba.set_num_threads(1)
        one = ensembles(1)
        numba.set_num_threads(min(2, numba.config.NUMBA_NUM_THREADS))
        two = ensembles(1)
    finally:
        numba.set_num_threads(before)
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a, b)


def test_few_rows_of_many_grow_a_tree(rng, monkeypatch):
    """Where a tree draws some of the rows the outputs are still the sums of the trees at all of them."""
    monkeypatch.setattr(trees, "MOST_EXACT", 0)
    monkeypatch.setattr(trees, "MOST_GROWING", 100)
    X, F = rng.normal(size=(500, 3)), rng.normal(size=(500, 2))
    sample = BoostingSample(np.array([0.5, 0.5]), np.ones(500), 0.5, np.arange(500))
    problem = BoostingProblem(X, F, F[np.arange(500), (X[:, 0] > 0).astype(int)])
    (found,) = kernels.boost(problem, [sample], "scores", Boosting(3, 0.3, (12,)), seed=0)
    np.testing.assert_allclose(found.outputs[0], kernels.tree_sums(X, found.trees), atol=1e-6)
    right = (found.outputs[0][:, 1] > found.outputs[0][:, 0]) == (X[:, 0] > 0)
    assert right.mean() > 0.9


def test_bags_that_draw_other_rows_are_averaged(rng, monkeypatch):
    """The trees of all bags of a round come one after the other, and their sum is the mean of the bags."""
    monkeypatch.setattr(trees, "MOST_EXACT", 0)
    monkeypatch.setattr(trees, "MOST_GROWING", 100)
    X, F = rng.normal(size=(400, 3)), rng.normal(size=(400, 2))
    sample = BoostingSample(np.array([0.5, 0.5]), np.ones(400), 0.5, np.arange(400))
    problem = BoostingProblem(X, F, F[np.arange(400), (X[:, 0] > 0).astype(int)])
    (found,), (alone,) = (
        kernels.boost(problem, [sample], "scores", Boosting(3, 0.3, (2, 5), bags), seed=0) for bags in (3, 1)
    )
    assert (len(found.trees.roots), len(alone.trees.roots)) == (16, 6)
    for outputs, first in zip(found.outputs, (6, 15), strict=True):
        np.testing.assert_allclose(outputs, kernels.tree_sums(X, found.trees, first), atol=1e-6)
    assert np.abs(found.outputs - alone.outputs).mean() > 0.01
    monkeypatch.setattr(trees, "MOST_GROWING", 400)  # all rows in every tree: bags would be alike
    (whole,) = kernels.boost(problem, [sample], "scores", Boosting(3, 0.3, (2, 5), 3), seed=0)
    assert len(whole.trees.roots) == 6
