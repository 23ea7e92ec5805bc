"""Rows of sample weight 0: they are predicted, and change nothing."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, SGDClassifier, SGDRegressor
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsRegressor
from sklearn.tree import DecisionTreeRegressor

import gatewise as gw

SMALL = gw.MoESettings(test=False, learners=())


def rows(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 2))
    return X, np.where(X[:, 0] < 0, 3 * X[:, 1], np.sin(9 * X[:, 1])) + 0.1 * rng.normal(size=n)


X, Y = rows(300, 0)
NEW, FRESH = rows(100, 9)


def regressor(*experts):
    return gw.MoERegressor(list(experts or (Ridge(), KNeighborsRegressor())), random_state=0, settings=SMALL).fit(
        X, Y
    )


def test_added_rows_of_weight_0_leave_the_regressor_as_it_was():
    before, after = regressor(), regressor().partial_fit(NEW, FRESH + 50.0, sample_weight=np.zeros(100))
    for one, other in zip(before.predict(X, return_std=True), after.predict(X, return_std=True), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)
    assert before.selected_ == after.selected_
    np.testing.assert_array_equal(before.sigma_, after.sigma_)
    np.testing.assert_allclose(after.online_predictions_, before.predict(NEW), atol=0.01)  # with all small shares


def test_rows_of_weight_0_behind_others_are_as_if_they_were_not_there():
    alone = regressor().partial_fit(NEW, FRESH)
    both = np.concatenate([NEW, NEW]), np.concatenate([FRESH, FRESH + 50.0])
    among = regressor().partial_fit(*both, sample_weight=np.repeat([1.0, 0.0], 100))
    for one, other in zip(alone.predict(X, return_std=True), among.predict(X, return_std=True), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)
    assert alone.selected_ == among.selected_
    half = regressor().partial_fit(*both, sample_weight=np.repeat([1.0, 0.5], 100))
    assert half.predict(X, return_std=True)[1].mean() > 2.0 * alone.predict(X, return_std=True)[1].mean()


def test_experts_are_not_updated_by_rows_of_weight_0():
    pool = [("sgd", SGDRegressor(random_state=0)), ("line", LinearRegression())]
    before = regressor(*pool)
    coef = before.experts_[0].coef_.copy()
    before.partial_fit(NEW, FRESH + 50.0, sample_weight=np.zeros(100), update_experts=True)
    np.testing.assert_array_equal(before.experts_[0].coef_, coef)
    weight = np.repeat([1.0, 0.0], 50)
    some = regressor(*pool).partial_fit(NEW, FRESH, sample_weight=weight, update_experts=True)
    few = regressor(*pool).partial_fit(NEW[:50], FRESH[:50], update_experts=True)
    np.testing.assert_array_equal(some.experts_[0].coef_, few.experts_[0].coef_)


def test_added_rows_of_weight_0_leave_the_classifier_as_it_was():
    experts = [LogisticRegression(), GaussianNB(), SGDClassifier(loss="log_loss", random_state=0)]
    model = gw.MoEClassifier(experts, random_state=0, settings=SMALL).fit(X, Y > 0)
    before = model.predict_proba(X)
    model.partial_fit(NEW, FRESH < 0, sample_weight=np.zeros(100), update_experts=True)
    np.testing.assert_allclose(model.predict_proba(X), before, rtol=1e-9)
    assert len(model.online_probabilities_) == 100


def test_responses_of_rows_of_weight_0_do_not_move_the_standard_deviation():
    rng = np.random.default_rng(0)
    weight, off = rng.uniform(0.5, 1.5, 300), rng.random(300) < 0.2
    pool = [LinearRegression(), DecisionTreeRegressor(max_depth=4)]
    found = []
    for y in (Y, np.where(off, 1e4, Y)):
        model = gw.MoERegressor(pool, gates=["linear"], random_state=0, settings=SMALL)
        found.append(model.fit(X, y, sample_weight=np.where(off, 0.0, weight)).predict(X, return_std=True)[1])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6)


def test_a_pool_that_cannot_be_tested_is_fitted_all_the_same():
    pool = [("ridge", Ridge()), ("knn", KNeighborsRegressor(25))]  # the test fits to 20 of these 100 rows
    with pytest.warns(UserWarning, match="test of gates was left out.*n_neighbors.*knn"):
        model = gw.MoERegressor(pool, random_state=0).fit(X[:100], Y[:100])
    assert not model.verdict_.gates
    assert model.verdict_.p_value == 1.0
    untested = gw.MoERegressor(pool, random_state=0, settings=gw.MoESettings(test=False)).fit(X[:100], Y[:100])
    np.testing.assert_array_equal(model.predict(X), untested.predict(X))


def test_an_error_of_a_sparse_prediction_names_the_row():
    from gatewise.experts import ColumnExpert

    rng = np.random.default_rng(0)
    y = rng.normal(size=150)
    F = np.column_stack([rng.normal(size=150), y + 0.2 * rng.normal(size=150), y + 0.3 * rng.normal(size=150)])
    settings = gw.MoESettings(readout="single", learners=(), test=False)
    pool = [("a", ColumnExpert(1)), ("b", ColumnExpert(2))]
    model = gw.MoERegressor(pool, gates=["linear"], k=1, random_state=0, settings=settings).fit(F, y)
    F[57, 1:] = np.nan
    for ask in (model.predict, model.explain):
        with pytest.raises(ValueError, match="missing at row 57"):
            ask(F)
