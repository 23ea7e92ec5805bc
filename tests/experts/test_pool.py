"""The pool: names, who is fitted on what, who is asked for what, and which expert failed."""

from threading import Lock

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import BaseEstimator, clone, RegressorMixin
from sklearn.compose import TransformedTargetRegressor
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import VotingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import GridSearchCV, KFold, TimeSeriesSplit
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils import check_random_state

from gatewise import LinearGate
from gatewise.experts import ConstantExpert
from gatewise.experts.gated import GatedExperts
from gatewise.experts.pool import named_experts, nonzero_assignments, Pool, weight_params

rng = np.random.default_rng(0)
X = rng.normal(size=(40, 2))
Y = X @ [1.0, -2.0] + 0.1 * rng.normal(size=40)
SPLITS = [(train, test) for train, test in KFold(4).split(X)]


def first_column(rows):
    return rows[:, 0]


class Drawing(RegressorMixin, BaseEstimator):
    """It predicts a number that its fit draws."""

    def __init__(self, random_state=None):
        self.random_state = random_state

    def fit(self, X, y):
        self.drawn_ = check_random_state(self.random_state).normal()
        return self

    def predict(self, X):
        return np.full(len(X), self.drawn_)


class Guarded(Drawing):
    """It has a part that cannot be copied; only the constructor makes one."""

    def __init__(self, random_state=None):
        super().__init__(random_state)
        self.lock = Lock()

    def fit(self, X, y):
        with self.lock:
            return super().fit(X, y)


class TestNames:
    def test_given_names_stay_and_others_come_from_the_type(self):
        given = [
            ("ridge", Ridge()),
            Ridge(),
            first_column,
            Ridge(2.0),
            ["mean", DummyRegressor()],
            ConstantExpert(1.0),
        ]
        names = [name for name, _ in named_experts(given)]
        assert names == ["ridge", "ridge-1", "first_column", "ridge-2", "mean", "constantexpert"]
        taken = [("ridge-1", Ridge()), Ridge(), Ridge()]
        assert [name for name, _ in named_experts(taken)] == ["ridge-1", "ridge-2", "ridge-3"]

    def test_models_with_a_gate_are_named_after_it(self):
        class Gated:
            gate = LinearGate(2)
            predict = first_column

        assert named_experts([Gated()])[0][0] == "lineargate"

    def test_a_made_up_name_can_be_part_of_a_parameter_name(self):
        def my__own___model(rows):
            return rows[:, 0]

        assert named_experts([my__own___model])[0][0] == "my_own_model"

    @pytest.mark.parametrize(
        ("experts", "error", "message"),
        [
            (3, TypeError, r"pool must be a list of models or of \(name, model\) pairs, not 3"),
            ("ridge", TypeError, "pool must be a list of models"),
            ([], ValueError, r"pool must hold at least one model or \(name, model\) pair, not none"),
            ([Ridge], TypeError, r"pool\[0\] must be an instance, as Ridge\(...\), not the class itself"),
            ([Ridge(), 3.0], TypeError, r"pool\[1\] must have predict\(X\) or be a callable X -> \(n,\), not 3.0"),
            ([("a", 3.0)], TypeError, r"pool\[0\] \('a'\) must have predict"),
            ([("a", Ridge(), 1)], TypeError, r"pool\[0\] must be a model or a pair \(name, model\)"),
            ([(1, Ridge())], ValueError, r"pool\[0\] must be named by text without a double underscore, not 1"),
            ([("a__b", Ridge())], ValueError, "without a double underscore, not 'a__b'"),
            ([("", Ridge())], ValueError, "must be named by text"),
            ([("a", Ridge()), ("a", Ridge())], ValueError, "pool must have different names, but 'a' occurs more"),
            ([LinearGate(3)], TypeError, r"pool\[0\] is a gate without experts; use GateRegressor"),
        ],
    )
    def test_an_error_names_the_argument(self, experts, error, message):
        with pytest.raises(error, match=message):
            named_experts(experts, "pool")

    def test_how_many_there_must_be(self):
        assert named_experts([], least=0) == []
        with pytest.raises(ValueError, match=r"experts must hold at least 2 models or \(name, model\) pairs, not 1"):
            named_experts([Ridge()], least=2)


class TestFitting:
    def test_held_out_forecasts_are_those_of_fits_to_the_other_rows(self):
        pool = Pool.of([LinearRegression(), ("near", KNeighborsRegressor(2))])
        fitted, held = pool.fit(X, Y, SPLITS)
        for number, (train, test) in enumerate(SPLITS):
            entries = held.fold == number
            np.testing.assert_array_equal(held.rows[entries], test)
            models = [LinearRegression().fit(X[train], Y[train]), KNeighborsRegressor(2).fit(X[train], Y[train])]
            np.testing.assert_array_equal(held.F[entries], np.column_stack([m.predict(X[test]) for m in models]))
        np.testing.assert_array_equal(fitted[0].coef_, LinearRegression().fit(X, Y).coef_)
        assert not held.in_time
        assert not hasattr(pool.models[0], "coef_")

    @pytest.mark.parametrize("n_jobs", ["a", 1.5, 0])
    def test_a_number_of_jobs_that_is_none_is_named(self, n_jobs):
        words = f"^n_jobs must be a whole number other than 0, or None, not {n_jobs!r}"
        pool = Pool([("line", LinearRegression())], n_jobs=n_jobs)
        with pytest.raises(ValueError, match=words):
            pool.fit(X, Y, SPLITS)
        with pytest.raises(ValueError, match=words):
            Pool([("column", first_column)], n_jobs=n_jobs).predict(X)

    def test_a_bootstrap_sample_is_fitted_with_its_repeated_rows(self):
        train = np.repeat(np.arange(20), 2)  # as many rows as there are, but not all of them
        held = Pool.of([LinearRegression()]).hold_out(X, Y, [(train, np.arange(20, 40))])
        model = LinearRegression().fit(X[train], Y[train])
        np.testing.assert_array_equal(held.F[:, 0], model.predict(X[20:]))

    def test_splits_in_time_are_recognised(self):
        splits = [(train, test) for train, test in TimeSeriesSplit(3).split(X)]
        assert Pool.of([Ridge()]).fit(X, Y, splits)[1].in_time

    def test_every_expert_may_have_a_target_of_its_own(self):
        fitted, _ = Pool.of([LinearRegression(), LinearRegression()]).fit(X, np.column_stack([Y, -Y]), SPLITS)
        np.testing.assert_allclose(fitted[0].coef_, -fitted[1].coef_)

    def test_only_what_is_not_fitted_is_fitted_and_nothing_is_changed(self):
        ready, fresh = Ridge().fit(X[:5], Y[:5]), LinearRegression()
        pool = Pool.of([ready, fresh, first_column])
        assert not pool.can_predict
        done = pool.fit_unfitted(X, Y)
        assert done.can_predict
        assert done.names == pool.names
        assert done.models[0] is ready
        np.testing.assert_array_equal(done.models[1].coef_, LinearRegression().fit(X, Y).coef_)
        assert not hasattr(fresh, "coef_")

    @pytest.mark.parametrize("n_jobs", [1, None, pytest.param(2, marks=pytest.mark.pools)])
    def test_jobs_change_nothing(self, n_jobs):
        experts = [("line", LinearRegression()), ("near", KNeighborsRegressor(2))]
        fitted, held = Pool(experts, n_jobs=n_jobs).fit(X, Y, SPLITS[:2])
        _, alone = Pool(experts).fit(X, Y, SPLITS[:2])
        np.testing.assert_array_equal(held.F, alone.F)
        forecasts = Pool(list(zip("ab", fitted, strict=True)), n_jobs=n_jobs).predict(X)
        np.testing.assert_array_equal(forecasts, np.column_stack([model.predict(X) for model in fitted]))

    @pytest.mark.parametrize("expert", [Drawing(), Guarded()])
    def test_every_fit_begins_as_a_clone(self, expert):
        expert.random_state = np.random.RandomState(3)
        _, held = Pool.of([make_pipeline(StandardScaler(), expert)]).fit(X, Y, SPLITS)
        alone = [clone(expert).fit(X[train], Y[train]).predict(X[test]) for train, test in SPLITS]
        np.testing.assert_array_equal(held.F[:, 0], np.concatenate(alone))
        assert not hasattr(expert, "drawn_")

    @pytest.mark.parametrize("expert", [DecisionTreeRegressor(), make_pipeline(StandardScaler(), Ridge())])
    def test_an_expert_that_holds_parameters_alone_is_cloned_once(self, expert, monkeypatch):
        cloned = []
        monkeypatch.setattr("gatewise.experts.pool.clone", lambda one: cloned.append(one) or clone(one))
        Pool.of([expert]).fit(X, Y, SPLITS)
        assert cloned == [expert]

    @pytest.mark.parametrize(
        ("expert", "times"),
        [(Ridge(), 1), (make_pipeline(StandardScaler(), Ridge()), 5), (GridSearchCV(Ridge(), {"alpha": [1.0]}), 30)],
    )
    def test_parameters_are_checked_in_every_fit_unless_one_speaks_for_all(self, expert, times, monkeypatch):
        checked, check = [], Ridge._validate_params
        monkeypatch.setattr(Ridge, "_validate_params", lambda self: checked.append(self) or check(self))
        Pool.of([expert]).fit(X, Y, SPLITS)
        assert len(checked) == times
        for ask in (Pool.of([Ridge(-1.0)]).fit, Pool.of([Ridge(-1.0)]).hold_out):
            with pytest.raises(ValueError, match="'alpha' parameter of Ridge"):
                ask(X, Y, SPLITS)

    def test_a_frozen_expert_is_not_copied(self):
        ready = FrozenEstimator(Ridge().fit(X, Y))
        (fitted,), _ = Pool.of([VotingRegressor([("ready", ready)])]).fit(X, Y, SPLITS)
        assert fitted.estimators_[0] is ready
        (alone,), _ = Pool.of([ready]).fit(X, Y, SPLITS)
        assert alone is ready

    def test_one_job_needs_no_joblib(self, monkeypatch):
        monkeypatch.setattr("gatewise.experts.pool.Parallel", None)
        with parallel_config(n_jobs=2):
            Pool.of([Ridge()]).fit(X, Y, SPLITS)
        Pool([("ridge", Ridge())], n_jobs=None).fit(X, Y, SPLITS)

    def test_sample_weights_find_their_way(self):
        weight = np.ones(3)
        search = GridSearchCV(Ridge(), {"alpha": [1.0]})
        for expert in (Ridge(), TransformedTargetRegressor(Ridge()), search):
            assert list(weight_params(expert, weight)) == ["sample_weight"]
        assert weight_params(KNeighborsRegressor(), weight) == {}
        assert weight_params(Ridge(), None) == {}


class TestAsking:
    def test_no_expert_gives_no_columns_and_a_sum_of_zeros(self):
        empty = Pool([])
        assert empty.predict(X).shape == (40, 0)
        np.testing.assert_array_equal(empty.total(X), np.zeros(40))

    def test_a_mixture_asks_only_for_rows_with_weight(self):
        asked = []

        def spy(rows):
            asked.append(len(rows))
            return rows[:, 0]

        weights = np.zeros((40, 3))
        weights[:, 0] = 0.25
        weights[::2, 1] = 0.75
        pool = Pool.of([ConstantExpert(2.0), spy, lambda rows: 1 / 0])
        expected = 0.5 + weights[:, 1] * X[:, 0]
        np.testing.assert_allclose(pool.mix(X, nonzero_assignments(weights)), expected, atol=1e-15)
        assert asked == [20]


class Broken(RegressorMixin, BaseEstimator):
    def __init__(self, when="fit"):
        self.when = when

    def fit(self, X, y):
        if self.when == "fit":
            raise KeyError("fit failed")
        self.fitted_ = True
        return self

    def predict(self, X):
        raise KeyError("predict failed")


class TestCulprits:
    @pytest.mark.parametrize("when", ["fit", "predict"])
    @pytest.mark.parametrize("n_jobs", [1, pytest.param(2, marks=pytest.mark.pools)])
    def test_an_error_keeps_its_type_and_is_noted_once(self, when, n_jobs):
        pool = Pool([("good", Ridge()), ("bad", Broken(when))], n_jobs=n_jobs)
        with pytest.raises(KeyError, match=f"{when} failed") as caught:
            pool.fit(X, Y, SPLITS)
        # The fit to all rows comes first, and predicts nothing; of two processes either may be the first to fail.
        first = ["", *(f" (fold {number} of 4)" for number in range(1, 5))][when == "predict" :]
        (note,) = caught.value.__notes__
        assert note in [f"raised by the expert 'bad'{fold}" for fold in (first if n_jobs == 2 else first[:1])]

    def test_every_way_to_ask_names_the_expert(self):
        pool = Pool.of([("bad", Broken().set_params(when="predict").fit(X, Y))], kind="model")
        for ask in (pool.predict, pool.total, lambda rows: pool.mix(rows, [(0, np.arange(40), np.ones(40))])):
            with pytest.raises(KeyError) as caught:
                ask(X)
            assert caught.value.__notes__ == ["raised by the model 'bad'"]

    def test_experts_of_experts_are_named_from_the_inside_out(self):
        inner = Pool.of([("inner", lambda rows: 1 / 0)])
        with pytest.raises(ZeroDivisionError) as caught:
            Pool.of([("outer", inner.total)]).predict(X)
        assert caught.value.__notes__ == ["raised by the expert 'inner'", "raised by the expert 'outer'"]


class TestGatedExperts:
    def test_predictions_and_the_number_that_the_gate_has(self):
        pools = GatedExperts.of([first_column, ("two", ConstantExpert(2.0))], [ConstantExpert(1.0)], 2)
        shared, F = pools.predictions(X)
        np.testing.assert_array_equal(shared, np.ones(40))
        np.testing.assert_array_equal(F, np.column_stack([X[:, 0], np.full(40, 2.0)]))
        with pytest.raises(ValueError, match="experts must hold one expert for each of the gate's 3, not 2"):
            GatedExperts.of([Ridge(), Ridge()], [], 3)

    def test_joining_and_parting(self):
        pools = GatedExperts.of([first_column, ("two", ConstantExpert(2.0))], [ConstantExpert(1.0)], 2)
        assert pools.joined().names == ["constantexpert", "first_column", "two"]
        again = pools.with_models(pools.joined().models)
        assert again.experts.experts == pools.experts.experts
        assert again.shared.experts == pools.shared.experts
