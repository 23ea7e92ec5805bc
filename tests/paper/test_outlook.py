"""The experiments of the outlook: seeded, resumable, and within their bars."""

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


@pytest.mark.slow
def test_adaptive_active_sets_within_their_bars():
    for row in adaptive_k.run(30):
        assert row.ratio.high <= (0.85 if row.design == "one here, three there" else 1.02)


@pytest.mark.slow
def test_exploration_near_borders_is_never_far_behind():
    assert all(row.ratio.high <= 1.1 for row in exploration_budget.run(60))


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
    assert all(row.ratio.high <= 1.35 for row in kernel_plan_choice.run(8))
