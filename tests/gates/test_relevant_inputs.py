"""Which coordinates tell where the experts differ."""

import numpy as np
import pytest

from gatewise.gates import feature_maps as screening
from gatewise.gates.feature_maps import MOST_ROWS

n = 1000


def relevant_inputs(Z, pulls, most):
    (found,) = screening.relevant_inputs(Z, [(np.arange(len(Z)), pulls)], most)
    return found


def board(Z, side=4):
    cells = np.floor((Z[:, :2] + 1.0) * side / 2.0)
    return np.where(cells.sum(axis=1) % 2 == 0, 1.0, -1.0)[:, None] * [1.0, -1.0, 0.0]


def sums(Z):
    return (Z[:, :1] + Z[:, 1:2]) * [1.0, -1.0, 0.3]


@pytest.mark.parametrize("signal", [board, sums])
@pytest.mark.parametrize("r", [2, 10])
def test_two_of_many_inputs_are_found_and_their_order_does_not_matter(signal, r):
    rng = np.random.default_rng(0)
    Z = rng.uniform(-1, 1, (n, r))
    pulls = signal(Z) + rng.normal(size=(n, 3))
    assert relevant_inputs(Z, pulls, 5).tolist() == [0, 1]
    order = rng.permutation(r)
    assert set(order[relevant_inputs(Z[:, order], pulls, 5)]) == {0, 1}
    assert relevant_inputs(Z, pulls[:, [2, 0, 1]], 5).tolist() == [0, 1]


def test_noise_has_no_relevant_input():
    rng = np.random.default_rng(1)
    found = [len(relevant_inputs(rng.normal(size=(300, 10)), rng.normal(size=(300, 2)), 5)) for _ in range(40)]
    assert np.count_nonzero(found) <= 1


def test_at_most_so_many_are_taken_and_they_are_the_clearest():
    rng = np.random.default_rng(2)
    Z = rng.uniform(-1, 1, (n, 4))
    pulls = Z @ np.array([[1.0], [3.0], [0.0], [2.0]]) + 0.5 * rng.normal(size=(n, 1))
    assert relevant_inputs(Z, pulls, 2).tolist() == [1, 3]
    assert relevant_inputs(Z, pulls, 5).tolist() == [0, 1, 3]


def test_few_rows_one_column_ties_and_outliers():
    rng = np.random.default_rng(3)
    Z = rng.normal(size=(n, 3))
    assert not relevant_inputs(Z[:20], Z[:20], 5).size
    assert not relevant_inputs(Z[:, :1], Z, 5).size
    assert not relevant_inputs(Z, np.zeros((n, 2)), 5).size
    levels = np.sign(Z)
    pulls = levels[:, :1] * levels[:, 2:] + rng.normal(size=(n, 1))
    assert relevant_inputs(levels, pulls, 5).tolist() == [0, 2]
    pulls[:5] = 1e12
    assert relevant_inputs(levels, pulls, 5).tolist() == [0, 2]


def test_of_many_rows_some_are_looked_at():
    rng = np.random.default_rng(4)
    Z = rng.uniform(-1, 1, (10 * MOST_ROWS, 3))
    pulls = sums(Z) + rng.normal(size=(len(Z), 3))
    some = slice(None, None, 10)
    np.testing.assert_array_equal(relevant_inputs(Z, pulls, 5), relevant_inputs(Z[some], pulls[some], 5))
