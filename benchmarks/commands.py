"""``gatewise bench ...``: Gatewise against its rivals."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from gatewise.app.terminal import console, Jobs, Json, Reps, Seed, show_path, show_progress, write_json

app = typer.Typer(invoke_without_command=True)


@app.callback(epilog="Examples: gatewise bench, gatewise bench --run, gatewise bench real --only mpg")
def summary(
    context: typer.Context,
    results: Annotated[Path | None, typer.Option(help="Folder of results, if not the checkout's.")] = None,
    run: Annotated[bool, typer.Option("--run", help="Run all benchmarks first: many minutes.")] = False,
    json_file: Json = None,
) -> None:
    """Benchmarks against rivals: without a command, a table of the results in a checkout."""
    if context.invoked_subcommand is not None:
        return
    from benchmarks import figures as bench_results  # noqa: PLC0415
    from benchmarks.figures_table import bench_records, bench_table  # noqa: PLC0415

    folder = bench_results.results_folder() if results is None else results
    if not folder.is_dir():
        raise ValueError(f"{folder}: no such folder")
    if run:
        bench_results.run_benchmarks(folder)
    rows = bench_results.read_results(folder)
    console.print(bench_table(rows))
    write_json(json_file, bench_records(rows))


@app.command(epilog="Example: gatewise bench real --only mpg --jobs 2")
def real(
    suite: Annotated[str, typer.Option(help="named (24 data sets) or development (14 others).")] = "named",
    only: Annotated[str | None, typer.Option(help="One data set of the suite.")] = None,
    splits: Annotated[int, typer.Option(min=1, help="Random splits of every data set.")] = 5,
    competitor: Annotated[list[str] | None, typer.Option(help="Only these; repeat the option for several.")] = None,
    jobs: Jobs = -1,
    json_file: Json = None,
    out: Annotated[Path, typer.Option(help="Folder for the figure and what is done so far.")] = Path("out/bench"),
) -> None:
    """Five experts on real data, combined by each competitor: test errors and ranks. Goes on where it stopped."""
    from benchmarks import real_tables as report  # noqa: PLC0415
    from benchmarks.real import competitors, goals, run, select, summary  # noqa: PLC0415

    chosen = competitors.find_competitors(competitor)
    results = run.run(select(suite, only), splits, chosen, jobs, out, progress=show_progress)
    errors = summary.mean_errors(results)
    standings, facts = summary.standings(errors), summary.fact_means(results)
    console.print(report.errors_table(errors))
    console.print(report.standings_table(standings))
    reached = goals.goals(results)
    if reached:
        console.print(report.goals_table(reached))
    parts: dict[str, list[Any]] = {"results": results, "standings": standings, "goals": reached}
    write_json(json_file, {"facts": facts} | {key: [asdict(one) for one in rows] for key, rows in parts.items()})
    show_path(report.real_figure(errors, standings, out / f"real-{suite}.png"))


@app.command(epilog="Example: gatewise bench locality --reps 20 --jobs 2")
def locality(
    reps: Reps = 20,
    seed: Seed = 0,
    jobs: Jobs = -1,
    json_file: Json = None,
    out: Annotated[Path, typer.Option(help="Folder for what is done so far.")] = Path("out/bench"),
) -> None:
    """Designs on which a gate is the truth, the experts known: distance from the truth at n = 1,000."""
    from benchmarks import locality as experiment  # noqa: PLC0415
    from benchmarks.real_tables import locality_table  # noqa: PLC0415

    rows = experiment.run(reps, seed, jobs, store=out / "locality.sqlite", progress=show_progress)
    ratios = experiment.ratios(rows)
    console.print(locality_table(rows))
    for design, values in ratios.items():
        console.print(f"{design}: gatewise over {json.dumps(values)}", soft_wrap=True)
    write_json(json_file, {"rows": [asdict(row) for row in rows], "ratios": ratios})


@app.command(epilog="Example: gatewise bench regret --reps 20")
def regret(
    reps: Reps = 20,
    seed: Seed = 0,
    jobs: Jobs = -1,
    json_file: Json = None,
    out: Annotated[Path, typer.Option(help="Folder for what is done so far.")] = Path("out/bench"),
) -> None:
    """What MoERegressor loses to the best candidate of its own list, on designs with known experts."""
    from benchmarks import regret as experiment  # noqa: PLC0415
    from benchmarks.real_tables import regret_table  # noqa: PLC0415
    from gatewise.backends import processes  # noqa: PLC0415
    from gatewise.paper.runner import Runner  # noqa: PLC0415
    from gatewise.paper.store import Store  # noqa: PLC0415

    rows = experiment.run(
        reps=reps, seed=seed, runner=Runner(processes(jobs), Store(out / "regret.sqlite"), show_progress)
    )
    console.print(regret_table(rows))
    write_json(json_file, [asdict(row) for row in rows])
