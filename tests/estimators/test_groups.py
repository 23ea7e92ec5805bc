"""Groups of rows that depend on one another: no fold and no part of the test of gates divides one."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GroupKFold, KFold
from sklearn.naive_bayes import GaussianNB

import gatewise as gw
from gatewise.estimators.validation import make_splits
from gatewise.router import training

GROUP = np.repeat(np.arange(30), 10)
LEVELS = [("low", DummyRegressor(strategy="constant", constant=-1.0)), ("high", DummyRegressor(constant=1.0))]
LEVELS[1][1].set_params(strategy="constant")
SMALL = gw.MoESettings(learners=())


def effects(seed):
    """Rows of a group lie at one place and share one effect: a gate that is judged on its own groups finds it."""
    rng = np.random.default_rng(seed)
    place, effect = rng.uniform(-1, 1, (30, 1)), rng.normal(size=30)
    return place[GROUP] + 0.001 * rng.normal(size=(300, 1)), effect[GROUP] + 0.1 * rng.normal(size=300)


def divided(folds):
    """The groups that have rows in several folds."""
    homes = [set(GROUP[fold]) for fold in folds]
    return {g for g in range(30) if sum(g in home for home in homes) > 1}


@pytest.mark.parametrize("cv", [None, 3])
def test_folds_that_are_not_given_divide_no_group(cv):
    X, y = effects(0)
    splits = make_splits(cv, X, y, {"groups": GROUP}, 7)
    assert len(splits) == (cv or 5)
    assert not divided([test for _, test in splits])
    again, other = (make_splits(cv, X, y, {"groups": GROUP}, seed) for seed in (7, 8))
    np.testing.assert_array_equal(splits[0][1], again[0][1])
    assert not np.array_equal(splits[0][1], other[0][1])
    assert len(make_splits(None, X, y, {"groups": GROUP > 14}, 0)) == 2


def sets_of_the_test(monkeypatch, **given):
    """The sets of rows that the test of gates takes."""
    found, plain = [], training._test_folds
    monkeypatch.setattr(training, "_test_folds", lambda task: found.append(plain(task)) or found[-1])
    X, y = effects(0)
    gw.MoERegressor([LinearRegression(), Ridge(9.0)], gates=["linear"], random_state=0, settings=SMALL, **given).fit(
        X, y, groups=GROUP
    )
    return found[0]


@pytest.mark.parametrize("cv", [None, GroupKFold(5), KFold(5, shuffle=True, random_state=0)])
def test_the_test_of_gates_divides_no_group(monkeypatch, cv):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("warnings.warn", lambda *_, **__: None)  # scikit-learn's, that KFold takes no groups
        sets = sets_of_the_test(monkeypatch, cv=cv)
    assert not divided(sets)
    assert sum(map(len, sets)) == 300


def test_given_experts_are_judged_on_groups_that_their_gates_have_not_seen():
    parts = training._in_parts(300, 0, units=GROUP)
    assert not divided([parts.rows[parts.fold == j] for j in range(5)])
    np.testing.assert_array_equal(np.sort(parts.rows), np.arange(300))
    for number, train in enumerate(parts.train):
        np.testing.assert_array_equal(train, np.sort(parts.rows[parts.fold != number]))


@pytest.mark.parametrize("given", [False, True])
def test_effects_of_groups_are_no_gain(given):
    """What a gate learns of the groups of the fit is worth nothing on others: it must not be told to pay."""
    pays = []
    for seed in range(6):
        X, y = effects(seed)
        pool = [(name, expert.fit(X, y)) for name, expert in LEVELS] if given else LEVELS
        model = gw.MoERegressor(pool, cv="prefit" if given else None, random_state=seed, settings=SMALL)
        verdict = model.fit(X, y, groups=GROUP).verdict_
        pays.append(verdict.gates)
        assert verdict.gain.value < 0.4  # with divided groups it is 0.8
    assert sum(pays) <= 1


CASES = {
    r"shape \(300,\)": GROUP[:50],
    r"not \(300, 2\)": np.column_stack([GROUP, GROUP]),
    "must not be missing": np.where(GROUP == 3, np.nan, GROUP),
    "not missing": np.array(["a", None, "b"] * 100, dtype=object),
    "of one type, not of int, str": np.array(["a", 1, "b"] * 100, dtype=object),
    "at least two groups": np.zeros(300),
}


@pytest.mark.parametrize("cv", [None, "prefit"])
@pytest.mark.parametrize("words", CASES)
def test_an_error_names_the_groups(words, cv):
    X, y = effects(0)
    match = "groups.*" + words.replace("not missing", "must not be missing")
    pool = [(name, expert.fit(X, y)) for name, expert in LEVELS]
    with pytest.raises(ValueError, match=match):
        gw.MoERegressor(pool, cv=cv).fit(X, y, groups=CASES[words])
    if cv is None:
        with pytest.raises(ValueError, match=match):
            gw.MoEClassifier([LogisticRegression(), GaussianNB()]).fit(X, y > 0, groups=CASES[words])


def test_splits_must_hold_out_rows():
    X, y = effects(0)
    with pytest.raises(ValueError, match="cv must hold out rows, but none of its 1 splits"):
        gw.MoERegressor([Ridge()], cv=[(np.arange(300), np.arange(0))]).fit(X, y)


def test_copies_of_a_row_are_one_group_of_the_test():
    X, y = effects(0)
    source = np.arange(300) // 2
    task = training.TrainingTask(X, y, np.ones(300), None, None, [], None, {}, (), SMALL, 0, source=source)
    np.testing.assert_array_equal(task.units, source)
    np.testing.assert_array_equal(replace(task, groups=GROUP).units, GROUP)
    assert replace(task, source=np.arange(300)).units is None
    assert replace(task, source=None).units is None
