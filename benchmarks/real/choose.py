"""``python -m benchmarks.real.choose``: settings of the router, chosen on one half of the data, judged on another.

What both halves choose together is judged on data that no choice has seen.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.archive import restore
from benchmarks.command import start
from benchmarks.real import report
from benchmarks.real.choice import best_settings, ByPool, crossed, entry_name, judged, least_mean, losses
from benchmarks.real.competitors import OURS, RIVALS, router
from benchmarks.real.grid import GRID
from benchmarks.real.run import run, SplitResult, stored_results
from benchmarks.real.suites import HALVES, SUITES
from benchmarks.timing import provenance
from gatewise.app.files import write_json
from gatewise.app.terminal import console, Jobs, show_progress

SLOW = "DESReg"  # takes no part outside
OUTSIDE_SPLITS = 3


def gather(suite: str, pools: Sequence[str], splits: int | None, jobs: int, stored: bool, out: Path) -> ByPool:
    """The results of rivals and of the grid on a suite, for every pool; with ``stored`` only what is done already."""
    routers = [router(settings, entry_name(name)) for name, settings in GRID.items()]
    found: dict[str, list[SplitResult]] = {}
    for one in pools:
        rivals = [rival for rival in RIVALS if one in rival.pools and (suite, rival.name) != ("outside", SLOW)]
        if stored:
            found[one] = stored_results(SUITES[suite], [*rivals, *routers], out, one)
        else:
            found[one] = run(SUITES[suite], splits, [*rivals, *routers], jobs, out, show_progress, one)
    return found


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
    """Every setting of the grid and every rival on every data set, and on those that no choice has seen.

    Goes on where it stopped.
    """
    pools = pool or ["default"]
    for one in pools:
        restore(f"real_{one}", out / f"results-{one}.sqlite")
    results = gather("all", pools, splits, jobs, stored, out)
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
    unseen = gather("outside", pools, min(splits or OUTSIDE_SPLITS, OUTSIDE_SPLITS), jobs, stored, out)
    outside = judged(unseen, grid, shipped)
    for record in outside:
        console.print(report.outside_table(record))
    counts = {one: len({(r.data, r.split) for r in rows}) for one, rows in results.items()}
    found = {
        "chosen": shipped,
        "outside": outside,
        "splits": splits,
        "splits_run": counts,
        "tables": [table.record() for table in tables],
        "least_mean": [{**table.record(), "mse": {}, "facts": {}} for table in by_mean],
    }
    write_json(json_file, {"benchmark": "real", **provenance(), **found})


if __name__ == "__main__":
    start(main)
