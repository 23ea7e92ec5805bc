"""Tables from files: kinds of columns, missing values, errors, row keys."""

import numpy as np
import pytest

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

from gatewise.app.models.table_files import read_frame, write_frame
from gatewise.app.models.tables import as_inputs, responses, row_keys, training_table
from gatewise.app.models.tasks import find_task
from gatewise.app.page.scored_rows import match_rows


def frame(n=30):
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "number": rng.normal(size=n),
            "whole": rng.integers(0, 3, n),
            "text": rng.choice(["a", "b", None], n),
            "day": pd.date_range("2024-01-01", periods=n, freq="D"),
            "true": rng.random(n) < 0.5,
            "empty": [None] * n,
            "y": rng.normal(size=n),
        }
    )


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_table_survives_its_file(tmp_path, ending):
    path = write_frame(frame(), tmp_path / "deep" / f"t.{ending}")
    table = training_table(read_frame(path), "y")
    kinds = {column.name: column.kind for column in table.columns}
    assert kinds["number"] == kinds["whole"] == kinds["true"] == "number"
    assert (kinds["text"], kinds["day"]) == ("text", "date")
    np.testing.assert_allclose(table.X["number"], frame()["number"])
    assert np.array_equal(np.diff(table.X["day"]), np.ones(29))  # days
    assert table.X["text"].isna().equals(frame()["text"].isna())


def test_both_formats_give_equal_rows(tmp_path):
    tables = [training_table(read_frame(write_frame(frame(), tmp_path / f"t.{e}")), "y") for e in ("csv", "parquet")]
    keys = [row_keys(table.X, table.y) for table in tables]
    assert np.array_equal(*keys)
    assert len(set(keys[0].tolist())) == 30


def test_a_column_keeps_its_kind_in_new_data():
    columns = training_table(frame(), "y").columns
    new = frame().assign(whole=["1", "2", "x"] * 10)
    with pytest.raises(ValueError, match="column 'whole' held numbers"):
        as_inputs(new, columns)
    codes = pd.DataFrame({"code": ["1", "2", "x"] * 10, "y": range(30)})
    columns = training_table(codes, "y").columns
    again = as_inputs(pd.DataFrame({"code": [1.0, np.nan, 2.0]}), columns)
    assert again["code"].tolist()[0] == "1"
    assert again["code"].isna().tolist() == [False, True, False]


def test_what_is_left_out_is_said():
    rows = frame().assign(**{"Unnamed: 0": range(30)})
    rows.loc[:4, "y"] = np.nan
    table = training_table(rows, "y", drop=["text"])
    assert len(table.y) == 25
    assert [column.name for column in table.columns] == ["number", "whole", "day", "true"]
    assert table.notes == (
        "left out: 1 column without a name",
        "left out: column 'empty', which has no value",
        "left out: 5 rows without a value of 'y'",
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.drop(columns="y"), "no column 'y'"),
        (lambda f: f.assign(y=f["text"]), "'y' must hold numbers, but is 'a' in row"),
        (lambda f: f.assign(y=f["true"]), "true and false"),
        (lambda f: f.assign(y=f["day"]), "dates"),
        (lambda f: f.assign(y=3.0), "3 in every row"),
        (lambda f: f.assign(y=np.inf), "infinite in row 1"),
        (lambda f: f.iloc[:3], "at least 20 rows"),
        (lambda f: f[["y"]], "no column is left"),
    ],
)
def test_a_target_that_cannot_be_fitted(change, message):
    with pytest.raises(ValueError, match=message):
        training_table(change(frame()), "y")


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(ValueError, match="no such file"):
        read_frame(tmp_path / "none.csv")
    (tmp_path / "t.parquet").write_text("no parquet")
    with pytest.raises(ValueError, match="cannot be read as Parquet"):
        read_frame(tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_bytes(b"\x00\xff\xfe,\n1")
    with pytest.raises(ValueError, match="cannot be read as CSV"):
        read_frame(tmp_path / "t.csv")


@pytest.mark.parametrize("role", [{"key": "y"}, {"drop": ["y"]}])
def test_the_target_has_no_second_role(role):
    with pytest.raises(ValueError, match=r"'y' is the target, and cannot be"):
        training_table(frame(), "y", **role)


def test_responses_keep_their_gaps():
    values = responses(pd.DataFrame({"y": pd.array([1, None, 3], dtype="Int64")}), "y")
    assert np.array_equal(values, [1.0, np.nan, 3.0], equal_nan=True)


def test_matched_rows_are_equal_and_none_is_missed():
    rng = np.random.default_rng(0)
    known, keys = rng.integers(0, 50, 80).astype(np.uint64), rng.integers(0, 60, 100).astype(np.uint64)
    found = match_rows(known, keys)
    assert np.array_equal(found >= 0, np.isin(keys, known))
    assert np.array_equal(known[found[found >= 0]], keys[found >= 0])
    assert np.array_equal(match_rows(known, known), np.arange(80))  # twins take twins in turn


@pytest.mark.parametrize(
    ("values", "task"),
    [
        (["a", "b"] * 50, "classification"),
        ([True, False] * 50, "classification"),
        ([0, 1] * 50, "classification"),
        ([0, 1] * 5, "regression"),
        (list(range(10)) * 20, "regression"),
        (list(range(10)) * 19, "regression"),
        (list(range(11)) * 20, "regression"),
        (list(range(100)), "regression"),
        ([0.5, 1.5] * 50, "regression"),
        (["1.5"] * 99 + ["?!"], "regression"),
    ],
)
def test_the_task_is_seen_from_the_target(values, task):
    found, note = find_task(pd.DataFrame({"y": values}), "y")
    assert found == task
    few_whole = values in ([0, 1] * 50, [0, 1] * 5, list(range(10)) * 20)
    assert bool(note) == few_whole
    if few_whole:
        other = "classes" if task == "regression" else "a number"
        assert note.endswith(f"takes it for {other}")


def test_infinity_is_no_class():
    frame = pd.DataFrame({"x": range(100), "y": [0.0, 1.0] * 49 + [0.0, np.inf]})
    assert find_task(frame, "y") == ("regression", "")
    for classes in (False, True):
        with pytest.raises(ValueError, match="'y' must be finite, but is infinite in row 100"):
            training_table(frame, "y", keep=["x"], classes=classes)


def test_labels_are_text_and_missing_ones_are_left_out():
    frame = pd.DataFrame({"x": range(42), "y": [1.0, 2.0, np.nan] * 14})
    table = training_table(frame, "y", keep=["x"], classes=True)
    assert table.y.tolist() == ["1", "2"] * 14
    with pytest.raises(ValueError, match="in every row"):
        training_table(frame.assign(y="one"), "y", classes=True)
