"""What estimators refuse: rows and responses that would become other numbers unnoticed, in the same words by all."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB

import gatewise as gw
from gatewise.shared import PolynomialBasis

RNG = np.random.default_rng(0)
X = RNG.uniform(-1.0, 1.0, (60, 2))
Y = X[:, 1] + 0.1 * RNG.normal(size=60)
EXPERTS, GATE = [lambda X: X[:, 0], lambda X: X[:, 1]], gw.LinearGate(2)
QUICK = gw.MoESettings(test=False, learners=())
CLASSIFIERS = [LogisticRegression(), GaussianNB()]


def halves(X):
    return (np.asarray(X)[:, 0] > 0).astype(int)


REGRESSORS = {
    "MoERegressor": lambda: gw.MoERegressor([LinearRegression()], settings=QUICK),
    "GateSelector": lambda: gw.GateSelector([LinearRegression()]),
    "GateRegressor": lambda: gw.GateRegressor(EXPERTS, GATE, n_starts=1),
    "RouterAggregator": lambda: gw.RouterAggregator(EXPERTS, GATE, GATE.net([-1.0, 1.0], d=2)),
    "SharedRoutedRegressor": lambda: gw.SharedRoutedRegressor(PolynomialBasis(1), PolynomialBasis(1), halves),
}
OF_LABELS = {
    "MoEClassifier": lambda: gw.MoEClassifier(CLASSIFIERS, settings=QUICK),
    "RouterClassifier": lambda: gw.RouterClassifier(CLASSIFIERS, GATE, GATE.net([-1.0, 1.0], d=2)),
    "SelectorClassifier": lambda: gw.SelectorClassifier(CLASSIFIERS),
}
READ_AS_NUMBERS = ("GateRegressor", "RouterAggregator", "SharedRoutedRegressor")


def masked(values):
    return np.ma.masked_array(values, np.arange(len(values)).reshape(-1, *[1] * (values.ndim - 1)) + 0 * values < 3)


LOSSY = {
    "masked": (masked, "must not be masked"),
    "complex": (lambda values: values + 1j, "must hold real numbers, not complex ones"),
    "dates": (lambda values: np.full(values.shape, np.datetime64("2024-01-01")), "must hold numbers, not dates"),
    "durations": (lambda values: np.full(values.shape, np.timedelta64(3, "D")), "must hold numbers, not dates"),
}


@pytest.mark.parametrize("name", REGRESSORS)
@pytest.mark.parametrize("kind", LOSSY)
def test_what_would_become_other_numbers_is_refused(name, kind):
    lossy, words = LOSSY[kind]
    with pytest.raises(ValueError, match=rf"^X {words}"):
        REGRESSORS[name]().fit(lossy(X), Y)
    for response in (lossy(Y), lossy(Y)[:, None]):
        with pytest.raises(ValueError, match=rf"^y {words}"):
            REGRESSORS[name]().fit(X, response)


@pytest.mark.parametrize("name", REGRESSORS)
def test_a_response_that_is_text_is_named(name):
    with pytest.raises(ValueError, match=rf"^y must hold numbers, but is 'a' at row 2: {name} is for regression"):
        REGRESSORS[name]().fit(X, [0.0, "1", "a", *Y[3:]])


@pytest.mark.parametrize("name", ["MoERegressor", "GateSelector", "GateRegressor", "RouterAggregator"])
@pytest.mark.parametrize(("size", "words"), [(1e200, "y must not exceed 1e.70"), (1e-200, "y must reach 1e-70")])
def test_a_response_in_a_unit_out_of_range_is_named(name, size, words):
    with pytest.raises(ValueError, match=words):
        REGRESSORS[name]().fit(X, size * Y)


@pytest.mark.parametrize("name", REGRESSORS)
def test_rows_to_predict_are_refused_as_rows_of_the_fit(name):
    model = REGRESSORS[name]().fit(X, Y)
    for lossy, words in LOSSY.values():
        with pytest.raises(ValueError, match=rf"^X {words}"):
            model.predict(lossy(X))


@pytest.mark.parametrize("name", READ_AS_NUMBERS)
@pytest.mark.parametrize("columns", [["day"], ["number", "day"]])
def test_a_column_of_dates_is_named(name, columns):
    frame = pd.DataFrame({"number": X[:, 0], "day": pd.date_range("2024", periods=60)})[columns]
    with pytest.raises(ValueError, match=r"^column day of X must hold numbers, not dates"):
        REGRESSORS[name]().fit(frame, Y)


@pytest.mark.parametrize("name", OF_LABELS)
def test_masked_and_complex_labels_are_refused(name):
    labels = (Y > 0).astype(int)
    for kind in ("masked", "complex"):
        lossy, words = LOSSY[kind]
        with pytest.raises(ValueError, match=rf"^y {words}"):
            OF_LABELS[name]().fit(X, lossy(labels))
        with pytest.raises(ValueError, match=rf"^X {words}"):
            OF_LABELS[name]().fit(lossy(X), labels)


def test_a_mask_that_hides_nothing_is_none():
    model = REGRESSORS["GateSelector"]().set_params(random_state=0)
    whole = model.fit(np.ma.masked_array(X), np.ma.masked_array(Y)).predict(X)
    np.testing.assert_array_equal(whole, model.fit(X, Y).predict(X))


def test_a_comparison_of_methods_refuses_them_too():
    model = REGRESSORS["SharedRoutedRegressor"]()
    with pytest.raises(ValueError, match=r"^y must not be masked"):
        model.compare(X, masked(Y))
