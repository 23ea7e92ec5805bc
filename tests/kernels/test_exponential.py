"""The vectorised exponential against the library's."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatewise.kernels.compiled import compiled_fma
from gatewise.kernels.simd import exponential
from gatewise.kernels.simd.exponential import SMALLEST


@compiled_fma
def exp_nonpositive(x):
    return exponential.exp_nonpositive(x)


def test_one_unit_in_the_last_place():
    rng = np.random.default_rng(0)
    x = -np.concatenate([rng.uniform(0, 708, 20_000), rng.exponential(1.0, 20_000), np.geomspace(1e-300, 1, 5_000)])
    value, truth = np.array([exp_nonpositive(v) for v in x]), np.exp(x)
    assert (np.abs(value - truth) <= 1.5 * np.spacing(truth)).all()


@given(st.floats(max_value=0.0, allow_nan=False))
def test_between_zero_and_one(x):
    assert 0.0 <= exp_nonpositive(x) <= 1.0


def test_edges():
    assert exp_nonpositive(0.0) == exp_nonpositive(-0.0) == 1.0
    assert exp_nonpositive(SMALLEST) > 0.0
    assert exp_nonpositive(np.nextafter(SMALLEST, -np.inf)) == 0.0
    assert exp_nonpositive(-np.inf) == 0.0
    assert np.isnan(exp_nonpositive(np.nan))


def test_python_may_not_call_an_inner_function():
    assert exp_nonpositive(-1.0) > 0.0  # now it is compiled, within its caller
    with pytest.raises(TypeError, match=r"exponential\.exp_nonpositive is called by compiled functions only"):
        exponential.exp_nonpositive(-1.0)
