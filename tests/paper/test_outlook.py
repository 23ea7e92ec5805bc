"""The experiments of the outlook: seeded, resumable, and within their bars."""

import json
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest

from gatewise.paper import kernel_plan_choice
from gatewise.paper.outlook import (
    adaptive_k,
    coadaptation_rounds,
    exploration_budget,
    granularity_budget,
    load_balance,
)
from gatewise.paper.outlook.ratios import mean_ratio
from gatewise.paper.runner import Runner
from gatewise.paper.store import Store


def test_ratios_against_many_samples():
    """The two one-sided bounds leave the true quotient out in about a tenth of the samples."""
    rng = np.random.default_rng(0)
    below = rng.exponential(size=(2000, 40)) + 1.0
    above = 0.5 * below + rng.exponential(size=(2000, 40))
    missed = [not r.low <= 1.0 <= r.high for r in (mean_ratio(a, b) for a, b in zip(above, below, strict=True))]
    assert 0.07 < np.mean(missed) < 0.14


@pytest.mark.parametrize(
    ("work", "task"),
    [
        (adaptive_k.replicate, ("one here, three there", 2.0, 0, 0)),
        (exploration_budget.replicate, ("linear crossing", 60, 0, 0)),
        (granularity_budget.replicate, (1, 0, 0)),
        (coadaptation_rounds.replicate, ("three sectors", 0, 0)),
    ],
    ids=["activation", "exploration", "granularity", "co-adaptation"],
)
def test_a_replication_is_fixed_by_its_task(work, task):
    assert work(*task) == work(*task)


def test_a_run_goes_on_where_it_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(granularity_budget, "JUMPS", (1,))
    store = Store(tmp_path / "runs.sqlite")
    first = granularity_budget.run(2, 0, Runner(store=store))

    def fails(*_):
        raise AssertionError

    again = granularity_budget.run(2, 0, Runner(backend=fails, store=store))
    assert again == first


def test_a_coin_between_two_values_of_k():
    errors = np.array([4.0, 3.0, 0.0])
    assert adaptive_k.interpolated(errors, 1.0) == 4.0
    assert adaptive_k.interpolated(errors, 1.5) == 3.0  # between K = 1 and K = 3
    assert adaptive_k.interpolated(errors, 3.0) == 0.0


DOCS = Path(__file__).parents[2] / "docs"
NAMES = {"one here, three there": "one expert here, three there"}


def two(ratio):
    return "{:.2f} ({:.2f}, {:.2f})".format(*ratio)


def table_lines(filed):
    """The lines of the guide's tables, from the figures that `gatewise reproduce outlook --json` wrote."""
    for design, group in groupby(filed["adaptive_k"], key=lambda row: row["design"]):
        ratios = [row["ratio"] for row in group]
        values = ", ".join(f"{ratio[0]:.2f}" for ratio in ratios)
        yield f"| {NAMES.get(design, design)} | {values} | {max(ratio[2] for ratio in ratios):.2f} |"
    for row in filed["exploration"]:
        half = "" if row["half"] is None else two(row["half"])
        errors = f"{row['by_margin']:.4f} | {row['uniform']:.4f}"
        yield f"| {row['design']} | {row['budget']} | {errors} | {two(row['ratio'])} | {half} |"
    for (design, gate), group in groupby(filed["load"], key=lambda row: (row["design"], row["gate"])):
        prices = [row["price"] for row in group][1:]
        values = " | ".join(f"{price[0]:.2f}" for price in prices)
        yield f"| {design}, {gate} | {values} | {prices[-1][2]:.2f} |"
    for row in filed["granularity"]:
        errors = " | ".join(f"{1000 * error:.2f}" for error in [*row["errors"], row["chosen"]])
        yield f"| {row['jumps']} | {errors} | {two(row['ratio'])} | {two(row['fine'])} |"


def test_the_guides_tables_are_those_of_one_run():
    guide = (DOCS / "outlook.md").read_text()
    filed = json.loads((DOCS / "assets" / "outlook.json").read_text())
    lines = list(table_lines(filed))
    assert len(lines) == 6 + 20 + 6 + 4
    assert [line for line in lines if line not in guide] == []
    words = " ".join(guide.split())
    plans = [f"{row['design']} {two(row['ratio'])}" for row in filed["kernel_plan"]]
    assert [plan for plan in plans if plan not in words] == []


def test_the_filed_run_is_within_the_bars():
    filed = json.loads((DOCS / "assets" / "outlook.json").read_text())
    for row in filed["adaptive_k"]:
        assert row["ratio"][2] <= (0.85 if row["design"] == "one here, three there" else 1.02)
    assert max(row["ratio"][2] for row in filed["exploration"]) <= 1.10
    assert max(row["fit_gap"] for row in filed["load"]) <= 0.01
    assert max(row["ratio"][2] for row in filed["kernel_plan"]) <= 1.35
    assert len(filed["kernel_plan"]) == 5
    fine = {row["jumps"]: row["fine"] for row in filed["granularity"]}
    assert fine[16][2] < 1.0 < fine[0][1]
    for row in filed["coadaptation"]:
        assert row["some_high"] <= 0.1 if row["truth"] == "one plane" else row["some_low"] >= 0.9


@pytest.mark.slow
def test_adaptive_active_sets_within_their_bars():
    for row in adaptive_k.run(30):
        assert row.ratio.high <= (0.85 if row.design == "one here, three there" else 1.02)


@pytest.mark.slow
def test_exploration_near_borders_is_never_far_behind():
    assert all(row.ratio.high <= 1.1 for row in exploration_budget.run())


@pytest.mark.slow
def test_loads_are_met():
    for row in load_balance.run(3):
        assert row.fit_gap <= 0.01
        assert row.fresh_z < 2.0


@pytest.mark.slow
def test_fine_experts_win_where_the_borders_are_and_nowhere_else():
    rows = {row.jumps: row for row in granularity_budget.run(20)}
    assert rows[16].fine.high < 1.0 < rows[0].fine.low
    assert all(row.ratio.high < 1.35 for row in rows.values())


@pytest.mark.slow
def test_no_specialist_is_found_where_there_is_none():
    for row in coadaptation_rounds.run(60):
        if row.truth == "one plane":
            assert row.some_high <= 0.1
        elif row.round > 0:
            assert row.some_low >= 0.9


@pytest.mark.slow
def test_the_mesh_from_data_loses_little():
    assert all(row.ratio.high <= 1.35 for row in kernel_plan_choice.run())
