"""Progress of fits: what listeners hear, what is shown, and what an interruption leaves."""

import io

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import gatewise as gw
from gatewise.progress import Bar, display, each, Lines, listen, Progress, reported, RUNNING, Step

X = np.random.default_rng(0).normal(size=(60, 2))
Y = X[:, 0] + 0.1 * np.sin(9 * X[:, 1])
LIGHT = gw.MoESettings(n_orders=1, spreads=(1.0,), learners=(), test=False)
EXPERTS = [("line", LinearRegression()), ("tree", DecisionTreeRegressor(max_depth=2, random_state=0))]
KNOWN = [lambda X: X[:, 0], lambda X: X[:, 1]]
GIVEN = [lambda X: np.tile([0.9, 0.1], (len(X), 1)), lambda X: np.tile([0.2, 0.8], (len(X), 1))]
GATE = gw.LinearGate(2)


class Interrupting(RegressorMixin, BaseEstimator):
    """Someone presses Ctrl-C during its fit."""

    def fit(self, X, y):
        raise KeyboardInterrupt

    def predict(self, X):
        return np.zeros(len(X))


def estimators(verbose):
    """Every estimator of the package with rows to fit it to."""
    labels, common = np.where(Y > 0, "a", "b"), {"random_state": 0, "verbose": verbose}
    classifiers = [LogisticRegression(), DecisionTreeClassifier(max_depth=2)]
    light = {"gates": ["linear"], "settings": LIGHT, **common}
    net = GATE.net(np.array([-1.0, 0.0, 1.0]), d=2)
    candidates = [("gate", gw.GateRegressor(KNOWN, GATE, n_starts=1)), *EXPERTS]
    return [
        (gw.MoERegressor(EXPERTS, **light), (X, Y)),
        (gw.MoEClassifier(classifiers, **light), (X, labels)),
        (gw.GateRegressor(KNOWN, GATE, n_starts=1, **common), (X, Y)),
        (gw.RouterAggregator(KNOWN, GATE, net, **common), (X, Y)),
        (gw.GateSelector(candidates, **common), (X, Y)),
        (gw.SharedRoutedRegressor(verbose=verbose), (X, Y)),
        (gw.ScoreRouter(cv=2, **common), (X, np.c_[X[:, 0] > 0, X[:, 0] < 0] * 1.0)),
        (gw.RouterClassifier(classifiers, gw.LinearGate(2), np.zeros((2, 1, 3)), **common), (X, labels)),
        (gw.SelectorClassifier(classifiers, **common), (X, labels)),
        (gw.GateClassifier(GIVEN, gw.LinearGate(2), n_starts=1, **common), (X, labels)),
    ]


def test_every_estimator_has_verbose():
    public = {name for name in gw.__all__ if hasattr(getattr(gw, name), "fit")}
    assert public - {type(one).__name__ for one, _ in estimators(0)} == set()
    assert all(one.get_params(deep=False)["verbose"] == 2 for one, _ in estimators(2))


@pytest.mark.parametrize("place", range(10))
def test_every_estimator_tells_its_stages_and_is_the_same_model(place, capsys):
    (loud, rows), (quiet, _) = estimators(2)[place], estimators(0)[place]
    steps: list[Step] = []
    with listen(steps.append):
        loud.fit(*rows)
    told = capsys.readouterr()
    quiet.fit(*rows)
    assert capsys.readouterr().err == "" == told.out
    assert RUNNING.get() is None
    stages = list(dict.fromkeys(step.stage for step in steps))
    assert stages
    assert {step.work for step in steps} == {type(loud).__name__}  # fits within the fit are quiet
    for name in stages:
        own = [step for step in steps if step.stage == name]
        assert own[0].done == 0
        assert own[-1].done == own[-1].total
        assert [step.done for step in own] == sorted(step.done for step in own)
        assert f"{name} {own[-1].total}/{own[-1].total}" in told.err
    if hasattr(loud, "predict"):
        np.testing.assert_array_equal(loud.predict(X[:5]), quiet.predict(X[:5]))


def test_counts_and_time_left():
    steps: list[Step] = []
    progress = Progress(steps.append, "work")
    progress.stage("first", total=4, done=1)
    progress.step("a")
    progress.step("b")
    progress.stage("second")
    assert [(s.stage, s.done, s.total) for s in steps] == [
        ("first", 1, 4), ("first", 2, 4), ("first", 3, 4), ("first", 4, 4), ("second", 0, 1),
    ]  # fmt: skip
    assert steps[0].left is None
    assert steps[1].left == pytest.approx(2.0 * steps[1].seconds)  # one took so long, two are left
    assert steps[3].left == 0.0


def test_lines_when_piped_and_one_line_a_stage_unless_asked():
    for verbose, expected in ((1, 1), (2, 4)):
        stream = io.StringIO()
        assert isinstance(display(verbose, stream), Lines)
        with reported("fit", verbose, stream) as progress:
            progress.stage("experts", 3)
            for name in "abc":
                progress.step(name)
        lines = stream.getvalue().splitlines()
        assert len(lines) == expected
        assert lines[-1].startswith("fit: experts 3/3, c, in " if verbose > 1 else "fit: experts 3/3, in ")


def test_of_unlike_pieces_the_time_left_is_told_by_what_they_usually_take():
    steps = []
    progress = Progress(steps.append, "fit")
    progress.stage("list", total=3, costs=[0.1, 4.0, 8.0])
    for _ in range(3):
        progress.step()
    assert steps[0].left is steps[1].left is None  # the first piece says little of the others
    assert steps[2].left == pytest.approx(8.0 / 4.1 * steps[2].seconds)
    assert steps[3].left == 0.0


def test_parts_of_a_piece_are_told_with_the_time_left(monkeypatch):
    monkeypatch.setattr("gatewise.progress.SOON", 0.0)
    steps = []
    progress = Progress(steps.append, "fit")
    progress.stage("list", total=2, costs=[1.0, 3.0])
    progress.part()  # of nothing
    progress.step("plain")
    progress.piece(30, "trees")
    for _ in range(3):
        progress.part(10)
    progress.step("trees")
    assert [(s.done, s.total, s.note) for s in steps[2:5]] == [(1, 2, "trees")] * 3
    assert len(steps) == 6
    assert steps[2].left == pytest.approx(steps[2].seconds * 2.0 / 2.0)  # 1 + 1 of 1 + 3 are done
    assert steps[4].left == 0.0
    progress.stage("next")
    progress.part()
    assert len(steps) == 7


def test_parts_are_told_now_and_then_only():
    steps = []
    progress = Progress(steps.append, "fit")
    progress.stage("list")
    progress.piece(1000)
    for _ in range(1000):
        progress.part()
    assert len(steps) == 1


@pytest.mark.parametrize("exact", [5000, 20])
def test_groups_of_the_list_tell_their_ensembles(exact, monkeypatch):
    monkeypatch.setattr("gatewise.progress.SOON", 0.0)
    monkeypatch.setattr("gatewise.kernels.trees.MOST_EXACT", exact)  # beyond, on several threads
    settings = gw.MoESettings(n_orders=1, spreads=(1.0,), test=False)
    model, quiet = (gw.MoERegressor(EXPERTS, cv=3, settings=settings, random_state=0) for _ in range(2))
    steps: list[Step] = []
    with listen(steps.append):
        model.fit(X, Y)
    counts = [step.note for step in steps if step.stage == "list of the router"]
    n_depths = len({c.depth for c in model.candidates_ if c.depth})
    assert counts.count("tree") == 4 * n_depths + 1  # three folds and all rows; and the whole group
    assert counts.count("shared") == 4 * 2 + 1
    assert counts.count("softmax") == 1
    np.testing.assert_array_equal(model.predict(X), quiet.fit(X, Y).predict(X))


def test_stacks_of_classes_tell_their_samples(monkeypatch):
    monkeypatch.setattr("gatewise.progress.SOON", 0.0)
    settings = gw.MoESettings(n_orders=1, spreads=(1.0,), test=False)
    classifiers = [LogisticRegression(), DecisionTreeClassifier(max_depth=2)]
    steps: list[Step] = []
    with listen(steps.append):
        gw.MoEClassifier(classifiers, cv=3, settings=settings, random_state=0).fit(X, Y > 0)
    assert [step.note for step in steps if step.stage == "list of the router"].count("shared") == 4 * 2 + 1


def test_a_router_tells_what_follows_its_orders(monkeypatch):
    monkeypatch.setattr("gatewise.progress.SOON", 0.0)
    net = GATE.net(np.linspace(-3.0, 3.0, 30), d=2)
    for noise in ("gaussian", "student_t"):
        steps: list[Step] = []
        with listen(steps.append):
            gw.RouterAggregator(KNOWN, GATE, net, noise=noise, random_state=0).fit(X, Y)
        told = [(step.stage, step.done, step.total) for step in steps]
        gate, scale = "one gate near the aggregate", "scale of the noise"
        assert [one for one in told if one[0] == gate] == [(gate, done, 2) for done in range(3)]
        assert told.count((scale, 0, 1)) > 1  # the stage begins, and its parts
        assert told[-1] == (scale, 1, 1)


def test_the_pieces_of_a_stage_may_turn_out_later():
    steps = []
    assert list(each([3, 4], 2)) == [3, 4]
    with listen(steps.append), reported("fit") as progress:
        progress.stage("search")
        assert list(each([3, 4], 2)) == [3, 4]
    assert [(step.done, step.total) for step in steps] == [(0, 1), (1, 2), (2, 2)]


def test_a_long_stage_tells_the_time_left_now_and_then():
    stream = io.StringIO()
    lines = Lines(1, stream)
    for seconds in (3.0, 9.0, 12.0, 15.0, 25.0):
        lines(Step("fit", "experts", int(seconds), 30, seconds, 30.0 - seconds, "ridge"))
    assert stream.getvalue().splitlines() == [
        "fit: experts 12/30, 18.0 s left",
        "fit: experts 25/30, 5.0 s left",
    ]


def test_a_bar_on_a_terminal():
    console = pytest.importorskip("rich.console")
    stream = io.StringIO()
    bar = Bar(2, console.Console(file=stream, force_terminal=True, width=100))
    for done in range(3):
        bar(Step("fit", "experts", done, 2, 1.0, 2.0 - done, "[red]ridge"))
    bar.close()
    assert "fit: experts ([red]ridge)" in stream.getvalue()  # names are no markup
    assert "2/2" in stream.getvalue()


def test_an_interruption_leaves_the_old_model_and_says_so():
    model = gw.MoERegressor(EXPERTS, gates=["linear"], settings=LIGHT, random_state=0)
    wrong = [*EXPERTS, ("slow", Interrupting())]
    with pytest.raises(KeyboardInterrupt) as first:
        model.set_params(experts=wrong).fit(X, Y)
    assert first.value.__notes__ == ["MoERegressor: the fit was interrupted; the model is not fitted, as before"]
    before = model.set_params(experts=EXPERTS).fit(X, Y).predict(X)
    with pytest.raises(KeyboardInterrupt) as second:
        model.set_params(experts=wrong).fit(X, Y)
    assert "still answers by its earlier fit" in second.value.__notes__[0]
    np.testing.assert_array_equal(model.predict(X), before)


def test_verbose_is_checked():
    with pytest.raises(ValueError, match="verbose must be 0, 1 or 2, not 3"):
        gw.MoERegressor(EXPERTS, verbose=3).fit(X, Y)
