"""The findings behind a page: out-of-fold rows, importance of columns, errors by the number of experts."""

import numpy as np
import pytest

pd = pytest.importorskip("pandas")
pytest.importorskip("skops")

from gatewise.app.page import findings, importance, scored_rows
from tests.app.small_models import HOSTILE, make_frame, saved_model, TARGET


@pytest.fixture(scope="module")
def found():
    return findings.find(saved_model(), make_frame())


def test_rows_of_the_fit_get_what_was_held_out(found):
    model = saved_model().model
    held = model.out_of_fold_
    order = np.argsort(held.rows)
    assert found.rows.seen.all()
    assert np.array_equal(found.rows.F, held.F[order])
    assert np.array_equal(found.rows.forecast, held.forecasts[order])
    assert not np.allclose(found.rows.F, model.transform(found.rows.X))  # what the fitted experts say
    np.testing.assert_allclose(found.scores[1].gain.value, model.verdict_.gain.value)


def test_new_rows_get_what_the_fitted_model_says():
    model, frame = saved_model().model, make_frame(40, seed=5)
    new = scored_rows.score_rows(saved_model(), frame)
    assert not new.seen.any()
    assert np.array_equal(new.forecast, model.predict(new.X))
    assert np.array_equal(new.weights, model.gate_weights(new.X))
    np.testing.assert_allclose(new.stack, model.transform(new.X) @ model.stack_weights_)


def test_a_mixed_file_is_taken_row_by_row():
    old, new = make_frame().iloc[40:80], make_frame(30, seed=5)
    mixed = scored_rows.score_rows(saved_model(), pd.concat([new, old]))
    assert np.array_equal(mixed.seen, np.arange(70) >= 30)
    whole = scored_rows.score_rows(saved_model(), make_frame())
    assert np.array_equal(mixed.F[30:], whole.F[40:80])


def test_rows_without_a_response_and_rows_beyond_the_cap_are_left_out():
    frame = make_frame()
    frame.loc[::2, TARGET] = np.nan
    some = scored_rows.score_rows(saved_model(), frame, most=50)
    assert (len(some.y), some.n_file) == (50, 80)
    assert (some.place % 2 == 1).all()
    assert np.array_equal(some.y, frame[TARGET].to_numpy()[some.place])
    with pytest.raises(ValueError, match="20 rows"):
        scored_rows.score_rows(saved_model(), frame.iloc[:30])


def test_all_experts_active_is_the_full_gate(found):
    data = found.rows
    mixture = (data.weights * data.F).sum(axis=1)
    assert found.active[-1].excess == (0.0, 0.0, 0.0)
    np.testing.assert_allclose(found.active[-1].rmse, np.sqrt(np.mean((data.y - mixture) ** 2)))
    leader = data.F[np.arange(len(data.y)), data.weights.argmax(axis=1)]
    np.testing.assert_allclose(found.active[0].rmse, np.sqrt(np.mean((data.y - leader) ** 2)))


def test_errors_in_the_band_and_elsewhere_add_up(found):
    margins, data = found.margins, found.rows
    whole = np.mean((data.y - data.forecast) ** 2)
    parts = margins.share * np.nan_to_num(margins.rmse_band) ** 2 + (1 - margins.share) * margins.rmse_rest**2
    np.testing.assert_allclose(parts, whole)


class StepGate:
    """A gate of two experts that looks at one column."""

    def gate_weights(self, X):
        first = np.where(X["x"] < 0.5, 0.9, 0.2)
        return np.column_stack([first, 1 - first])


def test_the_most_important_column_is_the_one_that_the_gate_looks_at():
    from gatewise.app.models.tables import ColumnKind

    rng = np.random.default_rng(0)
    X = pd.DataFrame({"z": rng.random(200), "x": rng.random(200), "t": rng.choice(["a", "b"], 200)})
    columns = [ColumnKind("z", "number"), ColumnKind("x", "number"), ColumnKind("t", "text")]
    found = importance.column_importance(StepGate(), X, columns)
    assert found[0].column.name == "x"
    assert abs(found[0].weight_moved - 0.7 * 0.5) < 0.1  # half of the rows change sides with 0.7 of the weight
    assert [one.weight_moved for one in found[1:]] == [0.0, 0.0]
    assert len(importance.important_columns(found)) == 1
    along = importance.profile(StepGate(), X, columns[1])
    np.testing.assert_allclose(along.weights[:, 0], np.where(along.axis.values < 0.5, 0.9, 0.2))
    plot = importance.region_plot(StepGate(), X, columns[1], columns[2])
    assert plot.weights.shape == (2, len(plot.x.values), 2)
    np.testing.assert_allclose(plot.weights[:, :, 0], np.tile(np.where(plot.x.values < 0.5, 0.9, 0.2), (2, 1)))


def test_one_expert_alone_is_no_trouble():
    from gatewise import MoERegressor
    from gatewise.app.models import fitting, tables
    from gatewise.experts import ColumnExpert

    table = tables.training_table(make_frame(40), TARGET)
    model = MoERegressor([("only", ColumnExpert(HOSTILE[3]))], random_state=0)
    saved = fitting.fit_table(model, table, None)
    found = findings.find(saved, make_frame(40))
    assert found.specialization is None
    assert found.map is None
    assert len(found.active) == 1
