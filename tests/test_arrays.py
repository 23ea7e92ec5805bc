"""Checks of single numbers: each error names the argument, what it was and what it must be."""

import numpy as np
import pytest

from gatewise.arrays import as_between, as_count, as_non_negative, as_positive


@pytest.mark.parametrize(
    ("check", "bad", "message"),
    [
        (as_positive, 0.0, "rho must be a finite number above 0, not 0.0"),
        (as_positive, np.inf, "rho must be a finite number above 0, not inf"),
        (as_non_negative, -1.0, "rho must be a finite number of at least 0, not -1.0"),
        (as_non_negative, np.nan, "rho must be a finite number of at least 0, not nan"),
        (as_between, 0.0, "rho must lie strictly between 0 and 1, not 0.0"),
        (as_between, 1.0, "rho must lie strictly between 0 and 1, not 1.0"),
        (as_count, 2.0, "rho must be a whole number at least 1, not 2.0"),
        (as_count, True, "rho must be a whole number at least 1, not True"),
    ],
)
def test_a_number_out_of_range_is_named(check, bad, message):
    with pytest.raises(ValueError, match=message):
        check(bad, "rho")


def test_a_number_in_range_comes_back():
    assert as_positive("0.5", "rho") == as_non_negative(0.5, "rho") == as_between(np.float32(0.5), "rho") == 0.5
    assert as_non_negative(0, "rho") == 0.0
    assert as_between(3, "rho", 0.5, float("inf")) == 3.0
    assert as_count(np.int32(4), "n", high=4) == 4
