"""What the router sees of a table."""

import numpy as np
import pandas as pd
import pytest

from gatewise.scores.queries import QueryReader
from gatewise.scores.text_columns import text_looks, TextColumn
from tests.scores.designs import small_table


def read(X, **choices):
    return QueryReader.fit(X, choices.get("text", "auto"), choices.get("categories", "auto"), n_components=5, seed=0)


def test_a_table_is_read_the_same_in_fit_and_later():
    X = small_table(120)[0]
    X["question"] = [f"{text} number {i}" for i, text in enumerate(X["question"])]
    reader, queries = read(X)
    assert reader.kinds == ("category", "number", "text")
    again = reader.transform(X)
    np.testing.assert_allclose(again.full, queries.full, atol=1e-6)
    np.testing.assert_allclose(reader.transform(X.iloc[7:9]).full, queries[7:9].full, atol=1e-6)
    np.testing.assert_allclose(reader.transform(X[["question", "size", "field"]]).full, queries.full, atol=1e-6)
    assert len(reader.feature_names) == queries.plain.shape[1] == reader.in_units(queries).shape[1]


def test_new_levels_missing_values_and_empty_text_are_read():
    X = small_table(120)[0]
    reader, _ = read(X, text=["question"])
    new = pd.DataFrame({"field": ["biology", None], "size": [np.nan, 1e9], "question": ["", None]})
    queries = reader.transform(new)
    assert np.isfinite(queries.full).all()
    assert (queries.codes == -1).all()
    assert abs(queries.numbers).max() <= 3.0


def test_an_array_of_embeddings_is_numbers():
    X = np.random.default_rng(0).normal(size=(60, 80))
    _, queries = read(X)
    assert queries.plain.shape == (60, 80)
    assert np.mean(np.sum(queries.plain**2, axis=1)) < 4.0  # as much as forty columns of their own


@pytest.mark.parametrize(
    ("choices", "words"),
    [({"text": ["nothing"]}, "no column 'nothing'"), ({"categories": "field"}, "list of column names")],
)
def test_a_column_that_is_not_there_is_named(choices, words):
    with pytest.raises(ValueError, match=words):
        read(small_table(60)[0], **choices)


def test_a_column_that_fit_saw_must_be_there():
    X = small_table(60)[0]
    reader, _ = read(X)
    with pytest.raises(ValueError, match="'size' is not there"):
        reader.transform(X.rename(columns={"size": "weight"}))


@pytest.mark.parametrize("kind", [np.float64, np.float32, object, "Int64"])
def test_a_category_of_whole_numbers_is_read_the_same_in_every_type(kind):
    """A missing value makes a column of pandas one of floats."""
    X = pd.DataFrame({"code": np.arange(60) % 4 - 1})
    reader, queries = read(X, categories=["code"])
    other = X.astype(kind)
    np.testing.assert_array_equal(reader.transform(other).codes, queries.codes)
    assert read(other, categories=["code"])[0].levels == reader.levels == (("-1", "0", "1", "2"),)
    other.loc[0, "code"] = None
    np.testing.assert_array_equal(reader.transform(other).codes, np.where(np.arange(60) == 0, -1, queries.codes.T).T)


@pytest.mark.parametrize("twins", [["size", "size"], [1, "1"]])
def test_of_columns_with_one_name_none_is_taken_for_the_other(twins):
    """In a fit, and later where fit saw the column; a column that is not read may occur twice."""
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 3)), columns=[*twins, "other"])
    with pytest.raises(ValueError, match=f"^X must have columns of different names, but '{twins[1]}' occurs 2 times"):
        read(X)
    reader, _ = read(X.iloc[:, 1:])
    with pytest.raises(ValueError, match=f"but '{twins[1]}' occurs 2 times"):
        reader.transform(X)
    reader, queries = read(X[["other"]])
    np.testing.assert_array_equal(reader.transform(X).numbers, queries.numbers)


def test_projections_are_those_of_tf_idf():
    from sklearn.feature_extraction.text import TfidfVectorizer

    texts = [
        " ".join(f"{letter}x" for letter in np.random.default_rng(i).choice(list("abcdefg"), 4)) for i in range(40)
    ]
    column, Z = TextColumn.fit("t", texts, n_components=3, seed=0)
    plain = TfidfVectorizer(sublinear_tf=True, vocabulary=column.terms.split("\n")).fit_transform(texts).toarray()
    np.testing.assert_allclose(Z, plain @ column.axes / column.unit, atol=1e-6)
    np.testing.assert_allclose(column.transform(texts), Z, atol=1e-6)
    np.testing.assert_allclose(np.mean(np.sum(Z**2, axis=1)), 1.0)
    leading = np.linalg.svd(plain)[1][:3] ** 2
    np.testing.assert_allclose(np.sum((plain @ column.axes) ** 2), leading.sum(), rtol=1e-3)


def test_looks_count_letters():
    looks = text_looks(["", "AB 12 =?"])
    np.testing.assert_allclose(looks[1], [np.log(9), np.log(4), 2 / 9, 1 / 9, 1 / 9, 2 / 9, 8 / 3])
    assert np.isfinite(looks).all()
