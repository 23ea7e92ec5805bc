"""``python -m benchmarks.real``: a pool of experts on real data, combined by every competitor."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks.command import start
from benchmarks.real import report
from benchmarks.real.competitors import find_competitors
from benchmarks.real.goals import goals
from benchmarks.real.pools import find_pool
from benchmarks.real.run import run
from benchmarks.real.suites import select
from benchmarks.real.summary import fact_means, mean_errors, standings
from benchmarks.timing import provenance
from gatewise.app.files import write_json
from gatewise.app.terminal import console, Jobs, Json, show_path, show_progress


def main(
    suite: Annotated[str, typer.Option(help="all; one half, first or second; or outside.")] = "all",
    only: Annotated[str | None, typer.Option(help="One data set of the suite.")] = None,
    splits: Annotated[int | None, typer.Option(min=1, help="At most so many splits of every data set.")] = None,
    pool: Annotated[str, typer.Option(help="default or strong.")] = "default",
    competitor: Annotated[list[str] | None, typer.Option(help="Only these; repeat the option for several.")] = None,
    jobs: Jobs = -1,
    json_file: Json = None,
    out: Annotated[Path, typer.Option(help="Folder for the figure and what is done so far.")] = Path("out/bench"),
) -> None:
    """Experts on real data, combined by each competitor: test errors and ranks. Goes on where it stopped."""
    chosen = find_competitors(competitor, find_pool(pool).name)
    results = run(select(suite, only), splits, chosen, jobs, out, show_progress, pool)
    errors, reached = mean_errors(results), goals(results, pool)
    ranks = standings(errors)
    console.print(report.errors_table(errors))
    console.print(report.standings_table(ranks))
    if reached:
        console.print(report.goals_table(reached))
    parts: dict[str, list[Any]] = {"results": results, "standings": ranks, "goals": reached}
    records = {key: [asdict(one) for one in rows] for key, rows in parts.items()}
    write_json(json_file, {"benchmark": f"real-{suite}", **provenance(), "facts": fact_means(results)} | records)
    show_path(report.real_figure(errors, ranks, out / f"real-{suite}-{pool}.png"))


if __name__ == "__main__":
    start(main)
