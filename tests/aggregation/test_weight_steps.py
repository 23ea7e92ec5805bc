"""Rows that count several times: the steps that they pass in."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatewise.aggregation.weight_steps import weight_steps

WEIGHTS = st.lists(st.floats(1e-6, 9.0), min_size=1, max_size=8).map(np.array)


@given(WEIGHTS)
def test_the_powers_of_a_row_have_its_weight_as_their_sum_and_none_is_above_one(weight):
    steps = weight_steps(weight)
    np.testing.assert_allclose(np.bincount(steps.row, steps.power), weight, rtol=1e-12)
    assert ((steps.power > 0.0) & (steps.power <= 1.0)).all()
    assert (steps.row[steps.first] == np.arange(len(weight))).all()
    assert (np.bincount(steps.row) == np.diff(steps.ends)).all()
    whole = np.delete(steps.power, steps.ends[1:] - 1)
    assert (whole == 1.0).all()


@given(st.lists(st.integers(1, 5), min_size=1, max_size=8).map(np.array))
def test_whole_weights_are_copies(weight):
    steps = weight_steps(weight.astype(float))
    np.testing.assert_array_equal(steps.row, np.repeat(np.arange(len(weight)), weight))
    assert (steps.power == 1.0).all()


def test_too_large_a_sum_is_refused_with_a_remedy():
    with pytest.raises(ValueError, match=r"sample_weight has the sum 3e\+07, .* divide it by a number"):
        weight_steps(np.full(3, 1e7))
