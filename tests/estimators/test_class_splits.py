"""Splits of rows with classes: those whose training rows tell the class that is held out are refused."""

import warnings

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneGroupOut,
    LeaveOneOut,
    RepeatedStratifiedKFold,
    StratifiedGroupKFold,
    StratifiedKFold,
    TimeSeriesSplit,
)
from sklearn.naive_bayes import GaussianNB

import gatewise as gw
from gatewise.estimators.class_splits import class_splits, told_by_shares

COIN = np.random.default_rng(0).integers(0, 2, 100)
PURE = np.repeat(np.arange(20), 5)  # groups: all rows of one have the class of its parity
FIRST = np.arange(100)
PLAIN = [("bayes", GaussianNB()), ("prior", DummyClassifier(strategy="prior"))]
BARE = gw.MoESettings(n_orders=1, spreads=(1.0,), correct=False, learners=(), test=False)


def of(cv, codes, weight=None, groups=None):
    weight = np.ones(len(codes)) if weight is None else weight
    return class_splits(cv, codes[:, None], codes, weight, {} if groups is None else {"groups": groups}, 0)


@pytest.mark.parametrize(
    ("cv", "codes", "groups", "remedy"),
    [
        (LeaveOneOut(), COIN, None, "Use StratifiedKFold"),
        (100, COIN, None, "Use StratifiedKFold"),
        (KFold(50), COIN, None, "Use StratifiedKFold"),
        (KFold(5), np.sort(COIN), None, "Use StratifiedKFold"),
        (KFold(3), np.arange(99) // 33, None, "Use StratifiedKFold"),
        (LeaveOneGroupOut(), PURE % 2, PURE, "Use StratifiedGroupKFold with fewer folds"),
        (None, (PURE % 4) % 2, PURE % 4, "Use StratifiedGroupKFold with fewer folds"),
        (None, PURE % 3, PURE % 3, "Use StratifiedGroupKFold with fewer folds"),
        (None, COIN, COIN, "all training rows are of one class"),
        (
            [(np.flatnonzero(COIN), np.flatnonzero(1 - COIN)), (np.flatnonzero(1 - COIN), np.flatnonzero(COIN))],
            COIN,
            None,
            "of one class",
        ),
    ],
)
def test_splits_that_tell_the_class_are_refused(cv, codes, groups, remedy):
    with pytest.raises(ValueError, match=f"cv: .*{remedy}"):
        of(cv, codes, groups=groups)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "cv",
    [
        None,
        5,
        KFold(5),
        KFold(10, shuffle=True, random_state=0),
        StratifiedKFold(10),
        RepeatedStratifiedKFold(n_splits=5, n_repeats=2, random_state=0),
        GroupKFold(5),
        StratifiedGroupKFold(5),
        TimeSeriesSplit(4),
    ],
)
@pytest.mark.parametrize("n_classes", [2, 4])
def test_ordinary_splits_pass_unchanged(cv, n_classes, seed):
    rng = np.random.default_rng(seed)
    codes, groups = rng.integers(0, n_classes, 200), rng.permutation(np.arange(200) // 4)
    grouped = isinstance(cv, GroupKFold | StratifiedGroupKFold)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        splits = of(cv, codes, groups=groups if grouped else None)
    if hasattr(cv, "get_n_splits"):
        assert len(splits) == cv.get_n_splits(codes, codes, groups)


def test_groups_of_one_class_pass_where_every_fold_has_some_of_each():
    assert len(of(None, PURE % 2, groups=PURE)) == 5


def test_shares_that_follow_the_held_out_labels_count_as_nothing():
    """A trend over time: what became frequent before stays frequent."""
    rng = np.random.default_rng(0)
    codes = (rng.random(600) < np.linspace(0.1, 0.9, 600)).astype(np.intp)
    splits = list(TimeSeriesSplit(5).split(codes))
    assert told_by_shares(splits, codes, np.ones(600)) == 0.0
    assert len(of(TimeSeriesSplit(5), codes)) == 5


def test_what_is_told_lies_between_nothing_and_all_and_does_not_depend_on_names():
    rng = np.random.default_rng(1)
    for n_folds in (2, 5, 20, 60):
        codes, weight = rng.integers(0, 3, 60), rng.exponential(size=60)
        splits = list(KFold(n_folds, shuffle=True, random_state=0).split(codes))
        told = told_by_shares(splits, codes, weight)
        assert 0.0 <= told <= 1.0 + 1e-12
        assert told_by_shares(splits[::-1], 2 - codes, 3.0 * weight) == pytest.approx(told)


def test_many_classes_of_one_or_two_rows_pass_by_default():
    codes = np.repeat(np.arange(30), np.tile([1, 1, 2, 6], 8)[:30])
    assert len(of(None, codes)) == 5
    assert len(of(StratifiedKFold(5), codes)) == 5


def test_a_split_that_trains_on_one_class_is_left_out_with_a_warning():
    splits = list(StratifiedKFold(4, shuffle=True, random_state=0).split(COIN, COIN))
    first, held = splits[0]
    bad = [(first[COIN[first] == 0], held), *splits[1:]]
    with pytest.warns(UserWarning, match="cv: in 1 of 4 splits all training rows are of one class"):
        kept = of(bad, COIN)
    assert len(kept) == 3
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 2)) + COIN[:, None]
    model = gw.MoEClassifier(PLAIN, gates=["linear"], cv=bad, random_state=0, settings=BARE)
    with pytest.warns(UserWarning, match="one class"):
        model.fit(X, COIN)
    assert not np.isin(held, model.out_of_fold_.rows).any()


def test_rows_of_weight_zero_are_no_training_rows():
    weight = np.where((COIN == 1) & (FIRST < 20), 0.0, 1.0)
    first = [(FIRST[:20], FIRST[20:30])]
    with pytest.warns(UserWarning, match="in 1 of 6 splits"):
        assert len(of([*first, *StratifiedKFold(5).split(COIN, COIN)], COIN, weight)) == 5


@pytest.mark.parametrize(("cv", "groups"), [(LeaveOneOut(), None), (None, COIN)])
def test_the_classifier_refuses_such_splits(cv, groups):
    X = np.random.default_rng(0).normal(size=(100, 2))
    with pytest.raises(ValueError, match="cv: "):
        gw.MoEClassifier(PLAIN, gates=["linear"], cv=cv, random_state=0, settings=BARE).fit(X, COIN, groups=groups)
