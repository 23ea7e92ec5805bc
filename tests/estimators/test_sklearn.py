"""scikit-learn citizenship."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.utils.estimator_checks import parametrize_with_checks

import gatewise as gw
from gatewise.estimators.class_labels import plain_labels

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


class GateOverFitted(gw.GateClassifier):
    """A `GateClassifier` that gets its experts fitted, as the checks have rows of every size."""

    def fit(self, X, y):
        given = self.experts
        try:
            self.experts = [clone(expert).fit(X, plain_labels(y)) for expert in given]
        except (TypeError, ValueError):
            self.experts = [Prior(), Prior()]  # what is wrong with the rows is for the gate to say
        try:
            return super().fit(X, y)
        finally:
            self.experts = given


class Prior:
    def __call__(self, X):
        return np.full((len(X), 2), 0.5)


@parametrize_with_checks([GateOverFitted(CLASSIFIERS, gw.LinearGate(2), n_starts=1, random_state=0)])
def test_a_gate_over_classifiers_passes_them(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(
    [gw.RouterClassifier(CLASSIFIERS, gw.LinearGate(2), gw.Particles(20), random_state=0)],
    expected_failed_checks=lambda _: EXPECTED_FAILURES,
)
def test_the_router_over_classifiers_passes_them(estimator, check):
    check(estimator)
