"""Eight numbers at a time against NumPy, one at a time."""

import operator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numba import njit

from gatewise.kernels.simd.elementary import exp_fine, exp_lanes, FLOOR, log_lanes
from gatewise.kernels.simd.lanes import (
    any_above,
    choose,
    fill,
    larger,
    largest,
    load,
    load_one,
    smaller,
    store,
    WIDTH,
)
from gatewise.kernels.simd.tile import aligned, aligned_rows

X, Y = np.linspace(-3.0, 4.0, 3 * WIDTH), np.linspace(5.0, -2.0, 3 * WIDTH)
finite = arrays(np.float64, WIDTH, elements=st.floats(-1e6, 1e6))


@njit
def apply(f, x, y):
    out = np.empty_like(x)
    for at in range(0, x.size, WIDTH):
        store(out, at, f(load(x, at), load(y, at)))
    return out


@njit
def apply_one(f, x):
    out = np.empty_like(x)
    for at in range(0, x.size, WIDTH):
        store(out, at, f(load(x, at)))
    return out


@pytest.mark.parametrize("f", [operator.add, operator.sub, operator.mul, operator.truediv], ids=lambda f: f.__name__)
def test_arithmetic(f):
    @njit
    def lanes(x, y):
        return f(x, y)

    @njit
    def mixed(x, y):
        return f(2.0, x) + f(y, 3.0)

    np.testing.assert_array_equal(apply(lanes, X, Y), f(X, Y))
    np.testing.assert_array_equal(apply(mixed, X, Y), f(2.0, X) + f(Y, 3.0))


def test_one_number_in_every_lane():
    @njit
    def spread_out(x, at):
        out = np.empty(WIDTH)
        store(out, 0, load_one(x, at))
        return out

    for at in (0, 5, X.size - 1):
        np.testing.assert_array_equal(spread_out(X, at), np.full(WIDTH, X[at]))


def test_comparisons():
    @njit
    def extremes(x, y):
        return larger(x, y) * 10.0 + smaller(x, y)

    @njit
    def choices(x, y):
        return choose(x, y, fill(1.0), fill(2.0)) + choose(x, 0.5, y, 100.0) + choose(x, 0.5, y, x)

    np.testing.assert_allclose(apply(extremes, X, Y), 10.0 * np.maximum(X, Y) + np.minimum(X, Y), rtol=1e-15)
    expected = np.where(X > Y, 1.0, 2.0) + np.where(X > 0.5, Y, 100.0) + np.where(X > 0.5, Y, X)
    np.testing.assert_array_equal(apply(choices, X, Y), expected)


def test_a_nan_gives_way_to_the_second():
    @njit
    def both(x, y):
        return larger(x, y) + smaller(x, y)

    np.testing.assert_array_equal(apply(both, np.full(WIDTH, np.nan), np.ones(WIDTH)), np.full(WIDTH, 2.0))


@given(finite, st.floats(-1e6, 1e6))
def test_over_the_lanes(x, bar):
    assert _any_above(x, bar) == (x > bar).any()
    assert _largest(x) == x.max()


@njit
def _any_above(x, bar):
    return any_above(load(x, 0), bar)


@njit
def _largest(x):
    return largest(load(x, 0))


def test_exponential_is_right_to_nearly_double_precision():
    x = np.concatenate(
        [np.linspace(FLOOR, -FLOOR, 20_000), np.geomspace(1e-300, 1, 800), -np.geomspace(1e-300, 1, 800)]
    )
    error = np.abs(apply_one(exp_lanes, x) / np.exp(x) - 1.0)
    assert (error <= 8e-14 + 1e-16 * np.abs(x)).all()


def test_the_fine_exponential_is_right_to_the_last_place():
    x = -np.concatenate([np.linspace(0.0, -FLOOR, 20_000), np.geomspace(1e-300, 1, 800)])
    truth = np.exp(x)
    assert (np.abs(apply_one(exp_fine, x) - truth) <= 1.5 * np.spacing(truth)).all()
    beyond = apply_one(exp_fine, np.array([-np.inf, -1e9, FLOOR, np.nan, 0.0, 0.0, 0.0, -0.0]))
    np.testing.assert_array_equal(beyond, [np.exp(FLOOR)] * 3 + [np.nan] + [1.0] * 4)


def test_exponential_beyond_its_range():
    x = np.array([-np.inf, -1e9, FLOOR, np.nan, np.inf, 1e9, -FLOOR, 0.0])
    low, high = np.exp(FLOOR), np.exp(-FLOOR)
    np.testing.assert_allclose(apply_one(exp_lanes, x), [low, low, low, low, high, high, high, 1.0], rtol=2e-13)


@given(arrays(np.float64, WIDTH, elements=st.floats(1e-300, 1e300)))
def test_logarithm(x):
    error = np.abs(apply_one(log_lanes, x) - np.log(x))
    assert (error <= 4e-16 * np.maximum(1.0, np.abs(np.log(x)))).all()


def test_logarithm_near_one():
    x = 1.0 + np.linspace(-1e-3, 1e-3, 4_000)
    np.testing.assert_allclose(apply_one(log_lanes, x), np.log(x), rtol=0, atol=3e-16)


@njit
def _rows(n_rows, n_columns):
    return aligned_rows(n_rows, n_columns)


def test_aligned_arrays_start_a_cache_line():
    shapes = [(3,), (5, 7), (2, 3, 64), (1,)]
    arrays_ = aligned(*shapes)
    assert [array.shape for array in arrays_] == shapes
    for number, array in enumerate(arrays_):
        assert array.ctypes.data % 64 == 0
        assert array.flags.c_contiguous
        array[:] = number
    assert all((array == number).all() for number, array in enumerate(arrays_))
    rows = _rows(3, 5)
    assert rows.shape == (3, 5)
    assert rows.ctypes.data % 64 == 0
