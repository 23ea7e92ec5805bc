"""From a table to the numbers that gates see."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatewise.gates import inputs
from gatewise.gates.inputs import _read, as_numbers, GateInputs, plain_numbers, read_columns, table_columns

FRAME = {
    "size": [1.0, 2.0, None, 4.0, 5.0, 60.0],
    "kind": ["a", "b", "a", None, "c", "a"],
    "same": [1, 1, 1, 1, 1, 1],
    "flag": [True, False, True, True, False, False],
}


def test_pandas_polars_and_arrays_of_objects_are_seen_alike():
    frames = [
        pd.DataFrame(FRAME),
        pl.DataFrame(FRAME, strict=False),
        np.array(list(FRAME.values()), dtype=object).T,
    ]
    seen = [GateInputs.fit(frame, 20, 0.25).transform(frame) for frame in frames]
    for other in seen[1:]:
        np.testing.assert_allclose(other.Z, seen[0].Z)
        np.testing.assert_allclose(other.inside, seen[0].inside)


@pytest.mark.parametrize("as_frame", [False, True])
def test_a_table_of_numbers_is_encoded_at_once_as_column_by_column(as_frame):
    rng = np.random.default_rng(3)
    X = rng.standard_t(2, size=(60, 6))
    X[5, 1], X[7, 4], X[8, 4], X[:, 2] = np.nan, np.inf, np.nan, 3.0
    new = np.vstack([X[:9], 50.0 * rng.normal(size=(5, 6))])
    X, new = (pd.DataFrame(A) for A in (X, new)) if as_frame else (X, new)
    inputs = GateInputs.fit(X, 20, 0.25)
    assert plain_numbers(new) is not None
    slowly = np.asarray(new).astype(object)  # objects are read column by column
    assert plain_numbers(slowly) is None
    np.testing.assert_array_equal(inputs.encode(new), inputs.encode(slowly))
    seen, expected = inputs.transform(new), inputs.transform(slowly)
    np.testing.assert_array_equal(seen.Z, expected.Z)
    np.testing.assert_array_equal(seen.inside, expected.inside)
    assert 0.0 < seen.inside.min() < 1.0 or (seen.inside == 0.0).any()


def test_columns_of_numbers_are_read_at_once_as_one_by_one(monkeypatch):
    rng = np.random.default_rng(4)
    X = np.column_stack(
        [rng.standard_t(2, size=(150, 4)), np.ones(150), np.arange(150) == 3, rng.integers(0, 3, 150)]
    )
    gaps = X.copy()
    gaps[9, 5] = np.nan
    for table in (X, pd.DataFrame(X), X.astype(np.float32), gaps):
        columns = np.asarray(table).T
        expected = [_read(name, values) for (name, _), values in zip(table_columns(table), columns, strict=True)]
        for most in (10, 400, 10**6):  # columns of a block: one, two, all
            monkeypatch.setattr("gatewise.gates.inputs.BLOCK_NUMBERS", most)
            assert read_columns(table) == expected


def test_a_constant_column_says_nothing_and_missing_values_are_marked():
    frame = pd.DataFrame(FRAME)
    assert read_columns(frame)[2] is None
    assert GateInputs.fit(frame, 20, 0.25).names == (
        "size", "size missing", "kind = (missing)", "kind = a", "kind = b", "kind = c", "flag",
    )  # fmt: skip


def test_training_rows_are_inside_and_far_rows_are_not():
    rng = np.random.default_rng(0)
    X = rng.standard_t(2, size=(200, 3))
    inputs = GateInputs.fit(X, 20, 0.25)
    assert (inputs.transform(X).inside == 1.0).all()
    far = np.vstack([X[0] + 1e9, X[1] - 1e9])
    np.testing.assert_array_equal(inputs.transform(far).inside, 0.0)
    assert np.isfinite(inputs.transform(far).Z).all()


@given(scale=st.floats(1e-6, 1e6), shift=st.floats(-1e3, 1e3))
def test_units_do_not_matter(scale, shift):
    X = np.random.default_rng(1).normal(size=(50, 2))
    one, two = X, X * scale + shift * scale
    Z = [GateInputs.fit(A, 20, 0.25).transform(A).Z for A in (one, two)]
    np.testing.assert_allclose(Z[0], Z[1], atol=1e-6)


def test_many_columns_become_principal_components_of_unit_variance():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(500, 3)) @ rng.normal(size=(3, 30))
    Z = GateInputs.fit(X, 5, 0.25).transform(X).Z
    assert Z.shape == (500, 5)
    np.testing.assert_allclose(np.cov(Z.T, bias=True), np.eye(5), atol=1e-8)


def test_rows_in_blocks_are_encoded_as_all_at_once(monkeypatch):
    rng = np.random.default_rng(5)
    numbers = rng.standard_t(2, size=(90, 4)) @ rng.normal(size=(4, 8))
    gap = np.where(numbers[:, 2] > 1, np.nan, 1.0)
    mixed = pd.DataFrame(numbers[:, :2]).assign(kind=rng.choice(["a", "b", "c"], 90), gap=gap)
    wide = rng.normal(size=(20, 50))
    for table in (numbers, numbers.astype(np.float32), pd.DataFrame(numbers), mixed, pl.DataFrame(numbers), wide):
        monkeypatch.setattr("gatewise.gates.inputs.BLOCK_NUMBERS", 10**6)
        whole = GateInputs.fit(table, 3, 0.25)
        monkeypatch.setattr("gatewise.gates.inputs.BLOCK_NUMBERS", 100)  # a few rows
        blocks = GateInputs.fit(table, 3, 0.25)
        assert blocks.columns == whole.columns
        np.testing.assert_allclose(blocks.transform(table).Z, whole.transform(table).Z, atol=1e-10)


def test_a_level_that_is_a_number_is_one_level_in_every_type():
    kinds = np.array(["a", 1, "b", 2.5, "a", 1] * 5, dtype=object)
    other = np.array([float(kind) if kind == 1 else kind for kind in kinds], dtype=object)
    inputs = GateInputs.fit(pd.DataFrame({"kind": kinds}), 20, 0.25)
    assert inputs.names == ("kind = 1", "kind = 2.5", "kind = a", "kind = b")
    np.testing.assert_array_equal(
        inputs.encode(pd.DataFrame({"kind": other})), inputs.encode(pd.DataFrame({"kind": kinds}))
    )


def test_dates_count_days():
    days = as_numbers(np.array(["2020-01-01", "2020-01-02", "NaT"], dtype="datetime64[ns]"))
    assert days[1] - days[0] == 1.0
    assert np.isnan(days[2])


def test_text_where_numbers_were_is_named():
    inputs = GateInputs.fit(pd.DataFrame({"age": [1.0, 2.0, 3.0]}), 5, 0.25)
    with pytest.raises(ValueError, match="'age' held numbers in fit"):
        inputs.transform(pd.DataFrame({"age": ["x", "y"]}))


def test_no_column_that_says_anything_is_no_error():
    inputs = GateInputs.fit(np.ones((10, 2)), 5, 0.25).transform(np.ones((4, 2)))
    assert inputs.Z.shape == (4, 0)


@pytest.mark.parametrize("shape", [(1100, 600), (1100, 1200)])
def test_many_columns_are_reduced_without_a_matrix_of_their_products(shape, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(shape[0], 4)) @ rng.normal(size=(4, shape[1])) + 0.5 * rng.normal(size=shape)
    monkeypatch.setattr("gatewise.gates.principal_axes.MOST_EXACT", 10_000)
    exact = GateInputs.fit(X, 4, 0.25).transform(X[:50]).Z
    monkeypatch.undo()
    eigh, sizes = np.linalg.eigh, []
    monkeypatch.setattr(np.linalg, "eigh", lambda matrix: (sizes.append(len(matrix)), eigh(matrix))[1])
    monkeypatch.setattr(inputs, "BLOCK_NUMBERS", 100_000)  # several blocks
    first, second = (GateInputs.fit(X, 4, 0.25).transform(X[:50]).Z for _ in range(2))
    assert max(sizes) < 20
    np.testing.assert_array_equal(first, second)
    np.testing.assert_allclose(first, exact, atol=1e-6)
