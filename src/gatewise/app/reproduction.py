"""Run a simulation of the paper and show it: functions that print tables, save figures and return plain records."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from gatewise.app.figures import outlook_tables, region_figure, selection_table, shared_expert_figures, table1_table
from gatewise.app.files import write_json
from gatewise.app.terminal import console, show_path
from gatewise.paper import (
    gate_choice,
    kernel_plan_choice,
    rates,
    region_maps,
    scale_recovery,
    shared_figure,
    table1,
    two_stage,
)
from gatewise.paper.outlook import (
    adaptive_k,
    coadaptation_rounds,
    exploration_budget,
    granularity_budget,
    load_balance,
)
from gatewise.paper.runner import Runner

Records = list[dict[str, Any]]


def show_table1(reps: int, seed: int, runner: Runner, out: Path) -> Records:
    """Run Table 1 and print its tables and verdict.

    Returns the rows of the stated settings as dicts; those of the common setting go to ``table1-common.json`` in out.
    """
    rows = table1.run(table1.stated_and_common(), reps, seed, runner)
    for design in table1.STATED:
        console.print(table1_table.table1(rows, design))
    for line in table1_table.verdict_lines(rows):
        console.print(line)
    write_json(out / "table1-common.json", [asdict(row) for row in table1.select(rows, table1.COMMON)])
    return [asdict(row) for row in table1.select(rows, table1.STATED)]


def show_settings(reps: int, seed: int, runner: Runner) -> Records:
    """Print, and return as dicts, how well each possible reading of the paper's settings matches its figures."""
    rows = table1.run(table1.every_setting(), reps, seed, runner)
    console.print(table1_table.settings_table(rows))
    return [asdict(row) for row in rows]


def show_regions(reps: int, seed: int, runner: Runner, out: Path) -> Records:
    """The nine panels and how much of the square each gets right."""
    panels = region_maps.run(reps, seed, runner)
    console.print(region_figure.regions_table(panels))
    show_path(region_figure.regions_figure(panels, out / "regions.png"))
    return [panel.record() for panel in panels]


def show_shared(reps: int, seed: int, runner: Runner, out: Path, coordinates: str = "fixed") -> Records:
    """The two-panel figure, its table, and where the caption's claim holds."""
    rows = shared_figure.run(reps=reps, seed=seed, coordinates=coordinates, runner=runner)
    console.print(shared_expert_figures.figure_table(rows))
    for line in shared_expert_figures.claim_lines(rows):
        console.print(line)
    show_path(shared_expert_figures.shared_figure(rows, out / "shared.png"))
    return [{**asdict(row), "claim": row.claim} for row in rows]


def show_rates(reps: int, seed: int, runner: Runner, out: Path) -> dict[str, Any]:
    """Risks, slopes and their figure."""
    rows = rates.run(reps=reps, seed=seed, runner=runner)
    slopes = rates.slopes(rows)
    for design in shared_expert_figures.TITLES:
        console.print(shared_expert_figures.rates_table(rows, design))
    console.print(shared_expert_figures.slopes_table(slopes))
    show_path(shared_expert_figures.rates_figure(rows, out / "rates.png"))
    return {"risks": [asdict(row) for row in rows], "slopes": [asdict(row) for row in slopes]}


def show_two_stage(reps: int, seed: int, runner: Runner, out: Path) -> Records:
    """Slope and error of the one-stage and two-stage rules, and their figure."""
    rows = two_stage.run(reps=reps, seed=seed, runner=runner)
    console.print(shared_expert_figures.two_stage_table(rows))
    show_path(shared_expert_figures.two_stage_figure(rows, out / "two-stage.png"))
    return [asdict(row) for row in rows]


def show_scales(reps: int, seed: int, runner: Runner) -> Records:
    """Simulate nested regions, and print how often the estimator finds which regions share each component."""
    rows = scale_recovery.run(reps=reps, seed=seed, runner=runner)
    console.print(shared_expert_figures.scales_table(rows))
    return [asdict(row) for row in rows]


def show_selection(
    sizes: list[int],
    reps: int,
    seed: int,
    runner: Runner,
    burn_in: float | None = None,
    orders: int = 1,
    radius: float | None = None,
) -> Records:
    """Risks of the gate classes, and how often each is selected."""
    setting = gate_choice.SelectionSetting(burn_in=burn_in, n_orders=orders, radius=radius)
    rows = gate_choice.run(sizes, reps, seed, setting, runner)
    for table in selection_table.selection_tables(rows):
        console.print(table)
    return [asdict(row) for row in rows]


def show_outlook(reps: int | None, seed: int, runner: Runner) -> dict[str, Records]:
    """The five experiments of the outlook; each has its own number of samples unless ``reps`` is given."""
    parts: dict[str, tuple[Any, Any, int]] = {
        "adaptive_k": (adaptive_k.run, outlook_tables.activation_table, adaptive_k.REPS),
        "exploration": (exploration_budget.run, outlook_tables.exploration_table, exploration_budget.REPS),
        "load": (load_balance.run, outlook_tables.load_table, load_balance.REPS),
        "granularity": (granularity_budget.run, outlook_tables.granularity_table, granularity_budget.REPS),
        "coadaptation": (coadaptation_rounds.run, outlook_tables.coadaptation_table, coadaptation_rounds.REPS),
    }
    found = {}
    for name, (run, table, usual) in parts.items():
        rows = run(reps or usual, seed, runner)
        console.print(table(rows))
        found[name] = [asdict(row) for row in rows]
    return found


def show_kernel_plan(reps: int, seed: int, runner: Runner) -> Records:
    """What the choice of the mesh and of the number of experts from data loses to the best of the grid."""
    rows = kernel_plan_choice.run(reps, seed, runner)
    console.print(outlook_tables.kernel_plan_table(rows))
    return [asdict(row) for row in rows]
