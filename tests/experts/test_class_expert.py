"""Classifiers as experts that answer with probabilities."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import RidgeClassifier, SGDClassifier
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

from gatewise.estimators.floored_classifiers import FlooredClassifiers
from gatewise.experts.class_expert import ClassExpert


class Repeater:
    """A classifier without probabilities that repeats the labels of its rows."""

    def get_params(self, deep=True):
        return {}

    def set_params(self):
        return self

    def fit(self, X, y):
        self.near_, self.classes_ = KNeighborsClassifier(1).fit(X, y), np.unique(y)
        return self

    def predict(self, X):
        return self.near_.predict(X)

    def __sklearn_is_fitted__(self):
        return hasattr(self, "near_")


def test_labels_become_probabilities_by_rows_that_were_not_fitted_to():
    """Of labels that are pure noise the label it says tells nothing, though on its own rows it is always right."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(600, 2)), rng.integers(2, size=600)
    p = ClassExpert(Repeater(), np.array([0, 1]), 0).fit(X, y.astype(float)).predict(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert np.abs(p - 0.5).max() < 0.1


def two_classes(n=120):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    return X, (X[:, 0] + rng.logistic(size=n) > 0).astype(np.intp)


@pytest.mark.parametrize("classifier", [SVC(), RidgeClassifier()])
def test_an_expert_by_itself_is_scikit_learns_cross_fitted_sigmoid(classifier):
    """To the last bit: results that were stored with it stay."""
    X, y = two_classes()
    labels, y = np.array(["a", "b", "c"]), y + (X[:, 1] > 1.0)
    folds = StratifiedKFold(5, shuffle=True, random_state=3)
    slow = CalibratedClassifierCV(classifier, cv=folds, ensemble=False).fit(X, labels[y])
    p = slow.predict_proba(X)
    np.testing.assert_array_equal(
        ClassExpert(classifier, labels, 3).fit(X, y).predict(X), p / p.sum(axis=1, keepdims=True)
    )


def test_class_weights_go_by_label_where_a_class_is_missing():
    X, y = two_classes()
    weights = {0: 1.0, 1: 1.0, 2: 9.0}
    numbers = ClassExpert(SVC(class_weight=weights), np.arange(3)).fit(X, y + 1).predict(X)
    plain = ClassExpert(SVC(class_weight={0: 1.0, 1: 9.0}), np.arange(2)).fit(X, y).predict(X)
    text = ClassExpert(SVC(class_weight={"b": 1.0, "c": 9.0}), np.array(["a", "b", "c"])).fit(X, y + 1).predict(X)
    np.testing.assert_array_equal(numbers, text)
    np.testing.assert_array_equal(numbers[:, 1:], plain)


def test_classes_with_one_row_each():
    X, y = two_classes()
    rare = y.copy()
    rare[5] = 2
    p = ClassExpert(SVC(), np.arange(3)).fit(X, rare).predict(X)
    rest = np.flatnonzero(rare < 2)
    np.testing.assert_array_equal(p[:, :2], ClassExpert(SVC(), np.arange(2)).fit(X[rest], y[rest]).predict(X))
    for few in ([0, 0, 0, 0, 1], [0, 1, 2]):  # no sigmoid has rows of two classes
        p = ClassExpert(SVC(), np.arange(3)).fit(X[: len(few)], np.array(few)).predict(X)
        np.testing.assert_allclose(p.sum(axis=1), 1.0)


@pytest.mark.parametrize("classifier", [Repeater(), SGDClassifier(random_state=0)])
def test_calibrations_count_rows_by_their_weights(classifier):
    """Whether or not the fit takes weights. Rows of weight 0 and the unit of the weights count for nothing."""
    X, y = two_classes()
    few, many, same = (
        ClassExpert(classifier, np.arange(2)).fit(X, y, calibration_weight=weight).predict(X)[:, 1].mean()
        for weight in (np.ones(120), np.where(y == 1, 9.0, 1.0), np.where(y == 1, 1.0, 1.0 / 9.0))
    )
    assert many > few + 0.2
    assert isinstance(classifier, SGDClassifier) or same == pytest.approx(many)
    half = np.where(np.arange(120) < 60, 1.0, 0.0)
    np.testing.assert_array_equal(
        ClassExpert(classifier, np.arange(2)).fit(X, y, calibration_weight=half).predict(X),
        ClassExpert(classifier, np.arange(2)).fit(X[:60], y[:60]).predict(X),
    )


def test_given_gates_calibrate_labels_by_sample_weights():
    X, y = two_classes()
    pool = FlooredClassifiers.of([("one", type("Told", (Repeater, BaseEstimator), {})())], y, seed=0)
    plain, weighed = (pool.fitted(X, y, weight).probabilities(X)[:, 0, 1].mean() for weight in (None, 1.0 + 8.0 * y))
    assert weighed > plain + 0.2


def test_an_update_reaches_the_classifier_behind_a_sigmoid():
    X, y = two_classes()
    rare = y.copy()
    rare[5] = 2
    expert = ClassExpert(SGDClassifier(random_state=0), np.array(["a", "b", "c"])).fit(X, rare)
    before = expert.predict(X)
    expert.update(X[:6], np.array(["c"] * 6))  # a class that it did not learn
    np.testing.assert_array_equal(expert.predict(X), before)
    expert.update(X, np.array(["a", "b"])[1 - y])
    assert np.abs(expert.predict(X) - before).max() > 0.1
    assert not hasattr(ClassExpert(SVC(), np.arange(2)).fit(X, y).fitted, "partial_fit")
