"""Sigmoids of classifiers without probabilities, fitted to decisions on rows that the folds hold out."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import GroupKFold, StratifiedKFold, TimeSeriesSplit
from sklearn.neighbors import KNeighborsClassifier
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


@pytest.mark.parametrize("classifier", [SVC(), RidgeClassifier()])
def test_one_row_of_a_class_changes_nothing_for_the_others(classifier):
    """A class with one row cannot be calibrated: the others are as without it, and it has probability 0."""
    X, codes, weight = drawn(2)
    rare, others = np.where(np.arange(150) == 7, 2, codes), np.flatnonzero(np.arange(150) != 7)
    splits = list(StratifiedKFold(3).split(X, codes))
    (model,), held = pool_of(classifier, 3, weight).fit(X, rare.astype(float), splits)
    left = [tuple(np.searchsorted(others, part[part != 7]) for part in split) for split in splits]
    (plain,), expected = pool_of(classifier, 2, weight[others]).fit(X[others], codes[others].astype(float), left)
    np.testing.assert_array_equal(model.predict(X), np.pad(plain.predict(X), ((0, 0), (0, 1))))
    np.testing.assert_array_equal(held.F[held.rows != 7, 0, :2], expected.F[:, 0])
    assert (held.F[:, 0, 2] == 0.0).all()


def test_rows_in_time_are_calibrated_by_earlier_rows():
    """The first split has no earlier held-out rows: its experts calibrate themselves, in the order of time."""
    X, codes, weight = drawn(2)
    splits = list(TimeSeriesSplit(3).split(X))
    F = pool_of(RidgeClassifier(), 2, weight).hold_out(X, codes.astype(float), splits).F[:, 0]
    (known, first), (train, second), _ = splits
    alone = ClassExpert(RidgeClassifier(), LABELS[:2], in_time=True).fit(X[known], codes[known], weight[known])
    np.testing.assert_array_equal(F[: len(first)], alone.predict(X[first]))
    before, after = (RidgeClassifier().fit(X[part], LABELS[codes[part]]) for part in (known, train))
    sigmoid = fit_sigmoid(decisions(before, X[first], 2), LABELS[codes[first]], weight[first])
    expected = sigmoid.predict_proba(decisions(after, X[second], 2))
    np.testing.assert_array_equal(F[len(first) : len(first) + len(second)], expected)


def test_a_class_that_comes_late_is_calibrated_once_it_was_held_out():
    """Decisions of experts that did not know the class are on another scale, and calibrate no others."""
    X, codes, weight = drawn(3, 300)
    codes = np.where((np.arange(300) < 110) & (codes == 1), 0, codes)  # splits begin at 75, 150, 225
    F = pool_of(SVC(), 3, weight).hold_out(X, codes.astype(float), list(TimeSeriesSplit(3).split(X))).F[:, 0]
    np.testing.assert_allclose(F.sum(axis=1), 1.0)
    assert (F[:75, 1] == 0.0).all()
    assert (F[75:, 1] > 0.0).all()


def test_class_weights_by_label_reach_every_fit():
    X, codes, _ = drawn(2)
    settings = gw.MoESettings(n_orders=1, spreads=(1.0,), learners=(), correct=False, test=False)
    experts = [SVC(class_weight={"a": 9, "b": 1, "c": 1}), LogisticRegression()]
    rare = LABELS[np.where(np.arange(150) == 7, 2, codes)]
    for y, cv in ((LABELS[codes], TimeSeriesSplit(3)), (rare, 3)):
        model = gw.MoEClassifier(experts, gates=(), cv=cv, random_state=0, settings=settings).fit(X, y)
        np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


class Nearest(ClassifierMixin, BaseEstimator):
    """A classifier without probabilities that gives the label of the nearest row, and counts its fits."""

    fits = 0

    def fit(self, X, y):
        type(self).fits += 1
        self.near_, self.classes_ = KNeighborsClassifier(1).fit(X, y), np.unique(y)
        return self

    def predict(self, X):
        return self.near_.predict(X)


def test_labels_are_calibrated_by_the_folds_and_their_weights():
    """p(c | k) = (N_kc + q_c) / (N_k + 1), in units of the mean weight, without a fit beyond those of the folds."""
    X, codes, weight = drawn(3)
    splits, Nearest.fits = list(StratifiedKFold(3).split(X, codes)), 0
    (model,), held = pool_of(Nearest(), 3, weight).fit(X, codes.astype(float), splits)
    assert Nearest.fits == 4
    said = np.concatenate([KNeighborsClassifier(1).fit(X[a], codes[a]).predict(X[b]) for a, b in splits])

    def line(entries, k):
        rows = held.rows[entries]
        share = weight[rows] / weight[rows].mean()
        q = (np.bincount(codes[rows], share, 3) + 0.5) / (len(rows) + 1.5)
        N = np.bincount(codes[rows], share * (said[entries] == k), 3)
        return (N + q) / (N.sum() + 1.0)

    new = Nearest().fit(X, codes).predict(X + 0.5)
    np.testing.assert_allclose(model.predict(X + 0.5), [line(np.arange(150), k) for k in new])
    others = np.flatnonzero(held.fold != 1)
    np.testing.assert_allclose(held.F[held.fold == 1, 0], [line(others, k) for k in said[held.fold == 1]])


def test_labels_of_rows_in_groups_are_as_sure_as_they_are_right():
    """Each group is copies of one row, whose label it knows only where a fold divides the group."""
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(60), 5)
    X, y = rng.normal(size=(60, 2))[group], rng.integers(2, size=60)[group]
    (model,), held = pool_of(Nearest(), 2, np.ones(300)).fit(
        X, y.astype(float), list(GroupKFold(5).split(X, y, group))
    )
    for p in (model.predict(X), held.F[:, 0]):
        assert p.max(axis=1).mean() < 0.7


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
