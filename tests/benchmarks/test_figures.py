"""The table of the filed figures, and the commands of the benchmarks that are quick enough to be run here."""

import importlib
import json
import pkgutil

import pytest

pytest.importorskip("typer")
pytest.importorskip("pandas")

import benchmarks.real
from benchmarks import figures, regret, specialists
from benchmarks.__main__ import BENCHMARKS
from benchmarks.headlines import HEADLINES
from benchmarks.timing import RESULTS


def test_the_filed_figures_are_one_table(benchmark_command, tmp_path):
    code, out, _ = benchmark_command(figures.main, "--json", "figures.json")
    assert code == 0
    assert "sparse_predict" in out
    rows = json.loads((tmp_path / "figures.json").read_text())
    assert len(rows) == len(HEADLINES)
    row = {(row["benchmark"], row["what"]): row for row in rows}["sparse_predict", "Top-1 of 16 against dense"]
    assert row["met"] == (row["reached"] <= row["goal"])


def test_a_folder_that_is_not_there_is_one_line(benchmark_command):
    code, _, err = benchmark_command(figures.main, "--results", "nowhere")
    assert (code, err) == (2, "benchmarks: nowhere: no such folder\n")


def test_every_filed_result_has_a_headline():
    rows = figures.read_results()
    assert {path.stem for path in RESULTS.glob("*.json")} <= {row.headline.benchmark for row in rows}
    for row in rows:  # a benchmark that was run has every figure; files without a commit are of older versions
        path = RESULTS / f"{row.headline.benchmark}.json"
        if not path.exists():
            assert row.value is None, row
        elif "run" in json.loads(path.read_text()):
            assert row.value is not None, row


def test_every_benchmark_that_files_figures_has_a_command():
    folders = [*benchmarks.__path__, *benchmarks.real.__path__]
    names = {module.name for module in pkgutil.iter_modules(folders)}
    assert {headline.benchmark.split("-")[0] for headline in HEADLINES} <= names  # "classes-strong" is of classes
    for module in BENCHMARKS:
        assert callable(importlib.import_module(module.__name__).main)


def test_level_and_power_of_few_runs(benchmark_command):
    code, out, _ = benchmark_command(specialists.main, "--level-runs", "1", "--power-runs", "1")
    assert code == 0
    assert len(json.loads(out)["power"]) == 5


def test_regret_of_the_best_candidate_is_nothing_below_zero():
    own, single, best, stack, count = regret.replicate("linear", 60, 0)
    assert best <= min(own * 1.5, single, stack)
    assert count > 10
