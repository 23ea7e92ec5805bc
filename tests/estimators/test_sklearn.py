"""scikit-learn citizenship."""

import pytest
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.utils.estimator_checks import parametrize_with_checks

import gatewise as gw

ROUTER = gw.RouterAggregator([Ridge(), DummyRegressor()], gw.LinearGate(2), gw.Particles(20), random_state=0)

CLASSIFIERS = [LogisticRegression(), DummyClassifier()]

EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": "orders are drawn by rows, and copies of a row lie apart",
}


@parametrize_with_checks([ROUTER], expected_failed_checks=lambda _: EXPECTED_FAILURES)
def test_estimators_pass_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


@parametrize_with_checks(
    [gw.SelectorClassifier(CLASSIFIERS, random_state=0)], expected_failed_checks=lambda _: EXPECTED_FAILURES
)
def test_the_selector_of_classifiers_passes_them(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(
    [gw.RouterClassifier(CLASSIFIERS, gw.LinearGate(2), gw.Particles(20), random_state=0)],
    expected_failed_checks=lambda _: EXPECTED_FAILURES,
)
def test_the_router_over_classifiers_passes_them(estimator, check):
    check(estimator)
