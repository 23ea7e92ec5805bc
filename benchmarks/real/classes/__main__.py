"""``python -m benchmarks.real.classes``: classifiers on real data, combined by every rival and by the router.

The router's settings are chosen on one half of the data sets from a declared grid and judged on the other, both ways.
"""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from benchmarks.archive import restore
from benchmarks.command import start
from benchmarks.real.classes.class_run import CLASS_GRID, run_classes, stored_results
from benchmarks.real.classes.class_sets import CLASS_SETS, halves
from benchmarks.real.classes.class_summary import class_standings, ClassStanding, crossed, grid_losses, record
from benchmarks.timing import provenance
from gatewise.app.files import write_json
from gatewise.app.terminal import console, Jobs, show_progress


def standings_table(standings: list[ClassStanding], title: str) -> Table:
    """Who is where."""
    found = Table(title=title)
    found.add_column("method")
    for name in ("rank", "accuracy rank", "excess", "worst against the stack", "calibration", "Brier", "AUC"):
        found.add_column(name, justify="right")
    for one in standings:
        numbers = (f"{one.calibration_error:.4f}", f"{one.brier:.4f}", f"{one.auc:.4f}")
        worst = f"{one.worst:+.4f} ({one.worst_data})"
        found.add_row(one.method, f"{one.rank:.2f}", f"{one.accuracy_rank:.2f}", f"{one.excess:.4f}", worst, *numbers)
    return found


def main(
    pool: Annotated[str, typer.Option(help="default or strong.")] = "default",
    splits: Annotated[int, typer.Option(min=1, help="So many random splits of every data set.")] = 1,
    only: Annotated[list[str] | None, typer.Option(help="Data sets; repeat the option for several.")] = None,
    jobs: Jobs = 1,
    stored: Annotated[bool, typer.Option("--stored", help="Only what is done already; runs nothing.")] = False,
    json_file: Annotated[Path, typer.Option("--json", help="Where the tables go.")] = Path(
        "benchmarks/results/classes.json"
    ),
    out: Annotated[Path, typer.Option(help="Folder for what is done so far.")] = Path("out/bench/classes"),
) -> None:
    """Every rival and every setting of the grid on every data set. Goes on where it stopped."""
    sets = [one for one in CLASS_SETS if not only or one.name in only]
    if not sets:
        raise ValueError(f"only must name some of {', '.join(one.name for one in CLASS_SETS)}")
    restore(f"classes_{pool}", out / f"results-{pool}.sqlite")
    if stored:
        results = stored_results(sets, splits, pool, out)
    else:
        results = run_classes(sets, splits, pool, jobs, out, show_progress)
    present = {one.data for one in results}
    names = [[one.name for one in half if one.name in present] for half in halves(CLASS_SETS)]
    if not all(names):
        raise ValueError("there must be results in both halves of the data sets; run more of them")
    grid = list(CLASS_GRID)
    parts = [[one for one in results if one.data in half] for half in names]
    losses = {part: grid_losses(rows, grid) for part, rows in zip(("first", "second"), parts, strict=True)}
    for entry in grid:
        console.print(f"{entry}: {losses['first'][entry]:+.4f} first half, {losses['second'][entry]:+.4f} second")
    chosen, judged = crossed(results, names, grid)
    standings = class_standings(judged)
    title = f"{pool} pool, {len(present)} data sets, {splits} split(s), settings {' and '.join(chosen)}"
    console.print(standings_table(standings, title))
    facts = {"pool": pool, "splits": splits, "data": sorted(present), "halves": names, "chosen": chosen}
    write_json(
        json_file, {"benchmark": "classes", **provenance(), **facts, "grid": losses, "standings": record(standings)}
    )


if __name__ == "__main__":
    start(main)
