"""Where there are many rows, the list learns from some of them."""

from dataclasses import replace
from math import isqrt

import numpy as np
import pytest

import gatewise as gw
from gatewise.experts import ColumnExpert
from gatewise.kernels import trees
from gatewise.router import learning, members, rows_used, training
from gatewise.router.candidates import Candidate, CONVEX, promising
from gatewise.solvers.softmax_path import RowSample

LIGHT = gw.MoESettings(n_orders=4, spreads=(1.0, 3.0), learners=(), test=False)


def fitted(X, y, **params):
    experts = [("up", ColumnExpert(1)), ("down", ColumnExpert(2))]
    given = {"gates": ["linear"], "k": None, "settings": LIGHT, "random_state": 0, **params}
    return gw.MoERegressor(experts, **given).fit(X, y)


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    x = rng.normal(size=2000)
    X = np.column_stack([x, x, -x])
    return X, np.abs(x) + 0.3 * rng.normal(size=2000), np.abs(x)


def test_a_choice_of_rows_predicts_almost_as_well_as_all(rows, monkeypatch):
    X, y, truth = rows
    whole = fitted(X, y, cv="prefit")
    assert whole.rows_learned_ == 2000
    monkeypatch.setattr(training, "MOST_LEARNED", 500)
    monkeypatch.setattr(members, "MOST_GATE_ROWS", 200)
    monkeypatch.setattr(learning, "MOST_ORDERED", 2000)
    some = fitted(X, y, cv="prefit")
    assert some.rows_learned_ == isqrt(500 * 2000)
    assert some.report()["rows_learned"] == 1000
    distance, best = (np.sqrt(np.mean((one.predict(X) - truth) ** 2)) for one in (some, whole))
    assert best < distance < 2.0 * best + 0.02
    assert some.verdict_.headline == whole.verdict_.headline
    np.testing.assert_array_equal(fitted(X, y, cv="prefit").predict(X), some.predict(X))


class _Counting(ColumnExpert):
    """A column that tells how many rows it was asked for, and has no answer at row ``lost``."""

    def __init__(self, column, asked, lost=None):
        super().__init__(column)
        self.asked, self.lost = asked, lost

    may_miss = False

    def predict(self, X):
        self.asked.append(len(X))
        return np.where(X[:, 3] == self.lost, np.nan, X[:, self.column])


def test_given_experts_are_asked_for_the_rows_that_are_learned_from(rows, monkeypatch):
    X, y, _ = rows
    X = np.column_stack([X, np.arange(2000)])
    monkeypatch.setattr(training, "MOST_LEARNED", 500)
    expected = fitted(X, y, cv="prefit")
    asked = []
    model = gw.MoERegressor(
        [("up", _Counting(1, asked)), ("down", ColumnExpert(2))], gates=["linear"], k=None, cv="prefit",
        settings=LIGHT, random_state=0,
    )  # fmt: skip
    np.testing.assert_array_equal(model.fit(X, y).predict(X), expected.predict(X))
    assert asked[0] == isqrt(500 * 2000)
    np.testing.assert_array_equal(model.out_of_fold_.F, X[model.out_of_fold_.rows, 1:3])
    lost = int(model.out_of_fold_.rows[7])
    model.set_params(experts=[("up", _Counting(1, asked, lost)), ("down", ColumnExpert(2))])
    with pytest.raises(ValueError, match=f"'up' must return finite numbers, but gave nan at row {lost}"):
        model.fit(X, y)


def test_gates_of_bagged_trees_predict_what_they_were_weighed_by(rows, monkeypatch):
    X, y, truth = rows
    monkeypatch.setattr(trees, "MOST_EXACT", 0)
    monkeypatch.setattr(trees, "MOST_GROWING", 500)
    fits = []
    monkeypatch.setattr(
        training,
        "learn",
        lambda *some, learn=training.learn, **more: (fits.append(learn(*some, **more)), fits[-1])[1],
    )
    model = fitted(X, y, gates=["tree"], cv="prefit")
    place = np.empty(2000, dtype=int)
    place[fits[0].entries] = fits[0].rows
    found = model._router.candidate_forecasts(X, X[:, 1:])
    np.testing.assert_allclose(found[place], fits[0].compared, atol=1e-6)
    assert np.mean((model.predict(X) - truth) ** 2) < 0.02


def test_the_choice_is_told(rows, monkeypatch):
    X, y, _ = rows
    for module in (training, gw.router.facts):
        monkeypatch.setattr(module, "MOST_LEARNED", 500)
    assert "the list learned from 1,000 rows" in fitted(X, y, cv=3).summary()


def test_rows_of_members_and_of_the_trial_are_told(rows, monkeypatch):
    X, y, _ = rows
    whole = fitted(X, y, cv="prefit")
    assert whole.report()["rows_of_members"] == {}
    assert whole.report()["rows_tried"] is None
    assert "fewer rows" not in whole.summary()
    for module in (members, rows_used):
        monkeypatch.setattr(module, "MOST_GATE_ROWS", 500)
    for module in (training, rows_used):
        monkeypatch.setattr(module, "MOST_TRIED", 600)
    for module in (trees, rows_used):
        monkeypatch.setattr(module, "MOST_FOREST_ROWS", 300)
    counts = []
    monkeypatch.setattr(
        members,
        "_thinned",
        lambda *some, thinned=members._thinned: (
            found := thinned(*some),
            counts.append(np.count_nonzero(found.sample_weight)),
        )[0],
    )
    model = fitted(X, y, cv="prefit", settings=replace(LIGHT, learners=("forest",)))
    told = model.report()
    assert told["rows_of_members"].keys() == {"linear gate", "forest"}
    assert told["rows_of_members"]["forest"] == 300
    assert abs(told["rows_of_members"]["linear gate"] - counts[-1]) <= 64  # whole blocks
    assert told["rows_tried"] == isqrt(600**2 // 2)
    assert "forest 300" in model.summary()
    assert f"a trial on {told['rows_tried']} rows" in model.summary()


def test_a_thinned_sample_has_weight_in_whole_blocks_only():
    weight = np.r_[np.zeros(640), np.ones(6400)]
    sample = RowSample(np.array([0.5, 0.5]), weight, asked=np.arange(3))
    thin = members._thinned(sample, 1600)
    kept = thin.sample_weight.reshape(-1, 64)
    assert isqrt(6400 * 1600) == 3200 == np.count_nonzero(thin.sample_weight)
    assert set(kept.sum(axis=1).tolist()) == {0.0, 64.0}
    assert not thin.sample_weight[weight == 0.0].any()
    assert members._thinned(sample, 6400) is sample


class TestTrial:
    """Of many rows a few say which members of the list learn from all."""

    def test_of_equal_members_of_a_family_the_first_is_kept(self):
        gates = [Candidate("gate", name, 1.0, 1) for name in ("linear", "quadratic", "kernel")]
        errors = np.array([1.0, 1.5, 1.5 - 1e-12, 1.5 - 2e-12])
        assert promising(gates, [CONVEX, *gates], errors, 10_000) == (gates[0],)
        assert promising(gates, [CONVEX, *gates], errors - [0, 0, 0, 1e-3], 10_000) == (gates[2],)

    def test_the_best_linear_and_the_best_forecast_gate_stay_however_far_behind(self):
        gates = [Candidate("gate", name, 1.0) for name in ("linear", "quadratic", "kernel", "forecast")]
        tried, errors = [CONVEX, *gates], np.array([2.0, 9.0, 8.0, 1.0, 9.0])
        linear, _, kernel, forecast = gates
        assert promising(gates, tried, errors, 10_000) == (linear, kernel, forecast)
        sparse = [replace(gate, k=1) for gate in gates]  # of Top-K gates the best one of all
        assert promising(sparse, [CONVEX, *sparse], errors, 10_000) == (sparse[2],)

    def test_of_a_path_one_spread_beyond_the_best_is_kept(self):
        path = [Candidate("gate", "kernel", spread) for spread in (0.3, 1.0, 3.0, 10.0, 100.0)]
        trees = [Candidate("gate", "tree", depth=depth) for depth in (3, 5, 7)]
        candidates, tried = [*path, *trees], [CONVEX, *path, *trees]
        close = {0.3: 1.1, 1.0: 1.0, 3.0: 1.0 - 1e-4, 10.0: 1.01, 100.0: 1.02}  # all near enough to be kept
        errors = np.array([2.0, *close.values(), 1.0, 1.1, 1.1])
        assert promising(candidates, tried, errors, 10_000) == (*path[:3], *trees)
        falling = np.array([2.0, 1.4, 1.3, 1.2, 1.1, 1.0, 1.0, 1.0, 1.0])
        assert promising(candidates, tried, falling, 10_000) == (*path[1:], *trees)
        few = tried[:5] + trees  # the widest spread was not tried
        assert promising(candidates, few, np.delete(falling, 5), 10_000) == (*path[1:], *trees)

    def test_what_is_far_behind_on_few_rows_is_not_fitted_to_all(self, rows, monkeypatch):
        X, y, truth = rows
        settings = gw.MoESettings(n_orders=4, spreads=(0.03, 1.0, 3.0), learners=())
        whole = fitted(X, y, cv="prefit", settings=settings)
        monkeypatch.setattr(training, "MOST_TRIED", 700)
        some = fitted(X, y, cv="prefit", settings=settings)
        assert set(some.candidates_) < set(whole.candidates_)
        distance, best = (np.sqrt(np.mean((one.predict(X) - truth) ** 2)) for one in (some, whole))
        assert distance < 1.1 * best + 0.01
        assert some.verdict_.headline == whole.verdict_.headline == "gating pays"

    def test_the_test_of_gates_leaves_the_rows_of_the_trial_out(self, rows, monkeypatch):
        X, y, _ = rows
        fits, signals, by_row = [], [], training._by_row
        monkeypatch.setattr(training, "MOST_TRIED", 700)
        monkeypatch.setattr(training, "learn", lambda *a, **b: fits.append(learning.learn(*a, **b)) or fits[-1])
        monkeypatch.setattr(training, "_by_row", lambda *given: signals.append(given[1]) or by_row(*given))
        fitted(X, y, cv="prefit", settings=replace(LIGHT, test=True))
        (trial, last), (signal,) = fits, signals
        assert len(trial.rows) == isqrt(700**2 // 2)
        tried = np.isin(last.rows, trial.rows)
        assert not signal[tried].any()
        assert signal[~tried].all()
