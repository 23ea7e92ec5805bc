"""``python -m benchmarks.real.choose``: settings of the router, chosen on one half of the data, judged on another."""

from pathlib import Path
from typing import Annotated

import typer

from benchmarks.archive import restore
from benchmarks.command import start
from benchmarks.real import report
from benchmarks.real.choice import best_settings, crossed, entry_name, least_mean, losses
from benchmarks.real.competitors import OURS, RIVALS, router
from benchmarks.real.grid import GRID
from benchmarks.real.run import run, stored_results
from benchmarks.real.suites import DATA_SETS, HALVES
from benchmarks.timing import provenance
from gatewise.app.files import write_json
from gatewise.app.terminal import console, Jobs, show_progress


def main(
    pool: Annotated[
        list[str] | None, typer.Option(help="default or strong; repeat for both, chosen together.")
    ] = None,
    splits: Annotated[int | None, typer.Option(min=1, help="At most so many splits of every data set.")] = None,
    jobs: Jobs = -1,
    stored: Annotated[bool, typer.Option("--stored", help="Only what is done already; runs nothing.")] = False,
    json_file: Annotated[Path, typer.Option("--json", help="Where the tables go.")] = Path(
        "benchmarks/results/real.json"
    ),
    out: Annotated[Path, typer.Option(help="Folder for what is done so far.")] = Path("out/bench"),
) -> None:
    """Every setting of the grid and every rival on every data set. Goes on where it stopped."""
    routers = [router(settings, entry_name(name)) for name, settings in GRID.items()]
    results = {}
    for one in pool or ["default"]:
        restore(f"real_{one}", out / f"results-{one}.sqlite")
        rivals = [rival for rival in RIVALS if one in rival.pools]
        if stored:
            results[one] = stored_results(DATA_SETS, [*rivals, *routers], out, one)
        else:
            results[one] = run(DATA_SETS, splits, [*rivals, *routers], jobs, out, show_progress, one)
    names = [[data.name for data in half] for half in HALVES]
    everything = [name for half in names for name in half]
    tables, grid = crossed(results, names, list(GRID)), list(GRID)
    console.print(report.choice_table([losses(results, some, grid) for some in (*names, everything)]))
    for table in tables:
        console.print(report.crossed_table(table))
    shipped = best_settings(results, everything, grid)
    console.print(f"chosen on both halves: {shipped}")
    by_mean = crossed(results, names, grid, least_mean)
    console.print("with settings of the least mean, whatever its error:")
    for table in by_mean:
        (ours,) = (one for one in table.standings if one.competitor == OURS)
        told = f"{table.settings}: rank {ours.mean_rank:.2f}, {ours.geometric_mean:.3f} over the best"
        console.print(f"  {table.pool}, {table.rows}: {told}, worst {ours.worst:.3f} ({ours.worst_data})")
    counts = {one: len({(r.data, r.split) for r in rows}) for one, rows in results.items()}
    found = {
        "chosen": shipped,
        "splits": splits,
        "splits_run": counts,
        "tables": [table.record() for table in tables],
        "least_mean": [{**table.record(), "mse": {}, "facts": {}} for table in by_mean],
    }
    write_json(json_file, {"benchmark": "real", **provenance(), **found})


if __name__ == "__main__":
    start(main)
