"""Sigmoids of classifiers without probabilities, fitted to decisions on rows that the folds hold out."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import StratifiedKFold, TimeSeriesSplit
from sklearn.svm import SVC

import gatewise as gw
from gatewise.experts.calibrated_classifiers import CalibratedClassifiers
from gatewise.experts.class_expert import ClassExpert
from gatewise.experts.decisions import decisions, fit_sigmoid

LABELS = np.array(["a", "b", "c"])


def drawn(C, n=150, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    scores = np.column_stack([2 * X[:, 0], X[:, 1] ** 2, np.zeros(n)])[:, :C]
    return X, (scores + rng.gumbel(size=scores.shape)).argmax(axis=1), rng.uniform(0.5, 2.0, n)


def pool_of(classifier, C, weight):
    return CalibratedClassifiers([("one", ClassExpert(classifier, LABELS[:C]))], outputs=(C,), sample_weight=weight)


@pytest.mark.parametrize("C", [2, 3])
def test_the_sigmoids_are_those_of_scikit_learn_on_held_out_decisions(C):
    """The final one is that of a cross-fitted CalibratedClassifierCV with the same folds."""
    X, codes, weight = drawn(C)
    splits = list(StratifiedKFold(4).split(X, codes))
    (model,), held = pool_of(RidgeClassifier(), C, weight).fit(X, codes.astype(float), splits)
    slow = CalibratedClassifierCV(RidgeClassifier(), cv=StratifiedKFold(4), ensemble=False).fit(X, LABELS[codes])
    np.testing.assert_allclose(
        pool_of(RidgeClassifier(), C, np.ones(150)).fit(X, codes.astype(float), splits)[0][0].predict(X),
        slow.predict_proba(X),
        rtol=1e-4,
    )
    D = np.empty((150, C))
    for known, out in splits:
        D[out] = decisions(clone(RidgeClassifier()).fit(X[known], LABELS[codes[known]]), X[out], C)
    for known, out in splits:
        own = fit_sigmoid(D[known], LABELS[codes[known]], weight[known])
        np.testing.assert_allclose(held.F[np.isin(held.rows, out), 0], own.predict_proba(D[out]), rtol=1e-6)
    assert model.fitted.classes_.tolist() == LABELS[:C].tolist()
    np.testing.assert_allclose(model.predict(X).sum(axis=1), 1.0)


def test_no_label_has_a_part_in_the_probabilities_of_its_row():
    """Decisions that no label enters: the labels of a fold change the probabilities of all other folds only."""
    X, codes, weight = drawn(2)
    given = [(np.flatnonzero(np.arange(150) % 3 != j), np.flatnonzero(np.arange(150) % 3 == j)) for j in range(3)]

    class Column(RidgeClassifier):
        def decision_function(self, X):
            return X[:, 0]

    turned = np.where(np.arange(150) % 3 == 1, 1 - codes, codes)
    one, other = (pool_of(Column(), 2, weight).hold_out(X, of.astype(float), given).F[:, 0] for of in (codes, turned))
    fold = np.repeat([0, 1, 2], 50)
    np.testing.assert_array_equal(one[fold == 1], other[fold == 1])
    assert (one[fold != 1] != other[fold != 1]).all()


def test_rows_in_time_and_rare_classes_are_calibrated_without_the_folds():
    X, codes, weight = drawn(2)
    rare = np.where(np.arange(150) == 7, 2, codes)
    folds = list(StratifiedKFold(3).split(X, codes))
    for y, C, splits in ((codes, 2, list(TimeSeriesSplit(3).split(X))), (rare, 3, folds)):
        (model,), held = pool_of(RidgeClassifier(), C, weight).fit(X, y.astype(float), splits)
        alone = ClassExpert(RidgeClassifier(), LABELS[:C]).fit(X, y)
        np.testing.assert_array_equal(model.predict(X), alone.predict(X))
        assert held.F.shape == (len(held.rows), 1, C)


def test_decisions_of_pairs_are_refused():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(80, 2)), np.tile([0.0, 1.0, 2.0, 3.0], 20)
    pool = CalibratedClassifiers(
        [("one", ClassExpert(SVC(decision_function_shape="ovo"), np.arange(4)))],
        outputs=(4,),
        sample_weight=np.ones(80),
    )
    with pytest.raises(ValueError, match="decision_function_shape='ovr'"):
        pool.fit(X, y, list(StratifiedKFold(2).split(X, y)))


def test_a_model_with_decisions_is_calibrated_and_fitted_once_a_fold(monkeypatch):
    fits = []
    monkeypatch.setattr(
        RidgeClassifier, "fit", lambda self, X, y, fit=RidgeClassifier.fit: (fits.append(len(X)), fit(self, X, y))[1]
    )
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 1))
    y = rng.uniform(size=400) < expit(2 * X[:, 0])
    settings = gw.MoESettings(n_orders=1, spreads=(1.0,), learners=(), correct=False, test=False)
    model = gw.MoEClassifier([RidgeClassifier(), LogisticRegression()], gates=(), random_state=0, settings=settings)
    ridge, logistic = model.fit(X, y).expert_probabilities(X)[:, :, 1].T
    assert sorted(fits) == [320] * 5 + [400]
    assert np.abs(ridge - logistic).max() < 0.1
