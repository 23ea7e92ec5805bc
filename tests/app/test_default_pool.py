"""The default pools, of regressors and of classifiers, on columns that are empty or nearly so."""

import warnings

import numpy as np
import pytest

pd = pytest.importorskip("pandas")
pytest.importorskip("skops")

from gatewise.app.models import fitting, model_file, predicting, tables
from gatewise.app.models.default_classifiers import make_classifiers
from gatewise.app.models.default_pool import make_experts
from gatewise.app.models.filled_columns import FilledColumns, ONE_IN
from gatewise.app.models.looking import look_at
from gatewise.app.models.table_files import ReadTable

POOLS = {"numbers": make_experts, "classes": make_classifiers}


def table(filled, n=60):
    """Inputs of which one column has numbers, and one text, in the last ``filled`` rows only; responses."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.normal(size=n), "rare": np.nan, "word": pd.Series([np.nan] * n, dtype=object)})
    X.loc[n - filled :, "rare"] = np.arange(float(filled))
    X.loc[n - filled :, "word"] = "seen"
    return X, X["x"] + rng.normal(size=n)


@pytest.mark.parametrize("filled", [0, 1, 2])
@pytest.mark.parametrize("pool", POOLS)
def test_every_expert_fits_a_column_with_hardly_any_value(pool, filled):
    X, y = table(filled)
    later = X.assign(rare=7.0, word="new")
    for name, expert in POOLS[pool](X):
        answers = expert.fit(X, y > 0 if pool == "classes" else y).predict(later)
        assert len(answers) == len(X), name


def test_boosting_that_stops_early_may_hold_the_only_value_back():
    X, y = table(3, n=10_500)
    dict(make_experts(X))["boosting"].fit(X, y)


def test_a_filled_column_is_as_it_was_and_an_empty_one_is_zero_for_good():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3 * ONE_IN, 4))
    X[::2, 0], X[:, 1], X[2:, 2], X[3:, 3] = np.nan, np.nan, np.nan, np.nan
    columns = FilledColumns().fit(X)
    for later in (X, rng.normal(size=(5, 4))):
        found = columns.transform(later)
        assert np.array_equal(found[:, [0, 3]], later[:, [0, 3]], equal_nan=True)
        assert not found[:, 1:3].any()


def test_a_column_without_a_value_is_set_aside_unless_it_is_kept():
    X, y = table(0)
    frame = X.assign(y=y)
    notes = tuple(f"left out: column {name!r}, which has no value" for name in ("rare", "word"))
    found = tables.training_table(frame, "y")
    assert (found.notes, list(found.X)) == (notes, ["x"])
    view = look_at(ReadTable(frame), "y")
    assert view.notes == notes
    assert [one.role for one in view.columns] == ["input", "set aside", "set aside", "target"]
    assert list(tables.training_table(frame, "y", keep=["rare", "word"]).X) == ["x", "rare", "word"]


@pytest.mark.slow
@pytest.mark.parametrize("filled", [0, 1, 2])
@pytest.mark.parametrize("pool", POOLS)
def test_a_nearly_empty_column_goes_through_fit_file_and_predictions(tmp_path, pool, filled):
    X, y = table(filled)
    frame = X.assign(y=np.where(y > 0, "high", "low") if pool == "classes" else y)
    rows = tables.training_table(frame, "y", keep=["rare", "word"], classes=pool == "classes")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        saved, _ = fitting.fit_and_score(rows)
    again = model_file.load_model(model_file.save_model(saved, tmp_path / "m.skops"))
    later = frame.assign(rare=3.0, word="new")
    before, after = (predicting.predict_frame(one, later) for one in (saved, again))
    pd.testing.assert_frame_equal(before, after)
