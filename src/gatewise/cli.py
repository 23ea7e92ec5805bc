"""The command line: ``gatewise COMMAND``. It parses, calls and prints; the work is done elsewhere."""

import json
import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

try:
    import typer
    from rich.console import Console
except ModuleNotFoundError as error:  # pragma: no cover - seen only where the extra is not installed
    sys.exit(f"gatewise: {error.name} is not installed; the command line needs: pip install 'gatewise[cli]'")

import gatewise

app = typer.Typer(
    help="Learns where each model is right.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
reproduce = typer.Typer(help="The paper's simulations.", no_args_is_help=True)
app.add_typer(reproduce, name="reproduce")
bench = typer.Typer(help="Benchmarks against rivals.", no_args_is_help=True)
app.add_typer(bench, name="bench")
console = Console()


def _print_version(wanted: bool) -> None:
    if wanted:
        console.print(f"gatewise {gatewise.__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and leave.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Learns where each model is right."""


@app.command(epilog="Example: gatewise demo --out out")
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the figure.")] = Path("out"),
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the table as JSON, too.")] = None,
) -> None:
    """Learn routers on one of the paper's designs: a table and a figure."""
    from gatewise.experiments.demo import run_demo  # noqa: PLC0415 - `gatewise --help` need not wait for it
    from gatewise.report.demo import demo_figure, demo_table  # noqa: PLC0415

    with console.status("learning two routers from 400 rows"):
        result = run_demo()
    console.print(demo_table(result))
    if json_file is not None:
        json_file.write_text(json.dumps([asdict(row) for row in result.rows], indent=2) + "\n")
    console.print(f"figure: {demo_figure(result, out / 'demo.png')}", soft_wrap=True, highlight=False)


Reps = Annotated[int, typer.Option(min=2, help="Samples drawn at every size.")]
Seed = Annotated[int, typer.Option(min=0, help="Fixes every sample.")]
Jobs = Annotated[int, typer.Option(help="Processes; the results do not depend on it.")]
Out = Annotated[Path, typer.Option(help="Folder for the figure.")]
Json = Annotated[Path | None, typer.Option("--json", help="Write the figures as JSON, too.")]


@reproduce.command(epilog="Example: gatewise reproduce rates --reps 100 --jobs 2")
def rates(reps: Reps = 100, seed: Seed = 0, jobs: Jobs = 1, json_file: Json = None, out: Out = Path("out")) -> None:
    """Risk profiles of the Fourier example for n from 200 to 51,200, and their slopes (section 6)."""
    from gatewise.experiments import rates as experiment  # noqa: PLC0415
    from gatewise.report import reproduce as report  # noqa: PLC0415

    rows = experiment.run(reps=reps, seed=seed, jobs=jobs, progress=_progress)
    slopes = experiment.slopes(rows)
    for design in report.TITLES:
        console.print(report.rates_table(rows, design))
    console.print(report.slopes_table(slopes))
    _write_json(json_file, {"risks": [asdict(row) for row in rows], "slopes": [asdict(row) for row in slopes]})
    _show_path(report.rates_figure(rows, out / "rates.png"))


@reproduce.command(epilog="Example: gatewise reproduce shared --reps 200")
def shared(
    reps: Reps = 200,
    seed: Seed = 0,
    jobs: Jobs = 1,
    json_file: Json = None,
    out: Out = Path("out"),
    coordinates: Annotated[
        str, typer.Option(help="Local coordinates: fixed, or moving with the threshold.")
    ] = "fixed",
) -> None:
    """Prediction error with and without a shared expert, the threshold unknown (fig:fourier-simulation)."""
    from gatewise.experiments import shared_figure as experiment  # noqa: PLC0415
    from gatewise.report import reproduce as report  # noqa: PLC0415

    rows = experiment.run(reps=reps, seed=seed, jobs=jobs, coordinates=coordinates, progress=_progress)
    console.print(report.figure_table(rows))
    _write_json(json_file, [asdict(row) for row in rows])
    _show_path(report.shared_figure(rows, out / "shared.png"))


@reproduce.command("two-stage", epilog="Example: gatewise reproduce two-stage")
def two_stage(
    reps: Reps = 100, seed: Seed = 0, jobs: Jobs = 1, json_file: Json = None, out: Out = Path("out")
) -> None:
    """The bias of the plain two-stage rule, and the residualization that mends it."""
    from gatewise.experiments import two_stage as experiment  # noqa: PLC0415
    from gatewise.report import reproduce as report  # noqa: PLC0415

    rows = experiment.run(reps=reps, seed=seed, jobs=jobs, progress=_progress)
    console.print(report.two_stage_table(rows))
    _write_json(json_file, [asdict(row) for row in rows])
    _show_path(report.two_stage_figure(rows, out / "two-stage.png"))


@reproduce.command(epilog="Example: gatewise reproduce scales --reps 100")
def scales(reps: Reps = 100, seed: Seed = 0, jobs: Jobs = 1, json_file: Json = None) -> None:
    """How often the scale of every component of a tree of regions is recovered."""
    from gatewise.experiments import scales as experiment  # noqa: PLC0415
    from gatewise.report import reproduce as report  # noqa: PLC0415

    rows = experiment.run(reps=reps, seed=seed, jobs=jobs, progress=_progress)
    console.print(report.scales_table(rows))
    _write_json(json_file, [asdict(row) for row in rows])


@bench.command(epilog="Example: gatewise bench real --only mpg --jobs 2")
def real(
    suite: Annotated[str, typer.Option(help="named (24 data sets) or development (14 others).")] = "named",
    only: Annotated[str | None, typer.Option(help="One data set of the suite.")] = None,
    splits: Annotated[int, typer.Option(min=1, help="Random splits of every data set.")] = 5,
    competitor: Annotated[list[str] | None, typer.Option(help="Only these; repeat the option for several.")] = None,
    jobs: Jobs = 1,
    json_file: Json = None,
    out: Annotated[Path, typer.Option(help="Folder for the figure and what is done so far.")] = Path("out/bench"),
) -> None:
    """Five experts on real data, combined by each competitor: test errors and ranks. Goes on where it stopped."""
    from gatewise.experiments.real import competitors, goals, run, select, summary  # noqa: PLC0415
    from gatewise.report import real as report  # noqa: PLC0415

    chosen = competitors.find_competitors(competitor)
    results = run.run(select(suite, only), splits, chosen, jobs, out, progress=_progress)
    errors = summary.mean_errors(results)
    standings, facts = summary.standings(errors), summary.fact_means(results)
    console.print(report.errors_table(errors))
    console.print(report.standings_table(standings))
    reached = goals.goals(results)
    if reached:
        console.print(report.goals_table(reached))
    parts: dict[str, list[Any]] = {"results": results, "standings": standings, "goals": reached}
    _write_json(json_file, {"facts": facts} | {key: [asdict(one) for one in rows] for key, rows in parts.items()})
    _show_path(report.real_figure(errors, standings, out / f"real-{suite}.png"))


@bench.command(epilog="Example: gatewise bench locality --reps 20 --jobs 2")
def locality(
    reps: Reps = 20,
    seed: Seed = 0,
    jobs: Jobs = 1,
    json_file: Json = None,
    out: Annotated[Path, typer.Option(help="Folder for what is done so far.")] = Path("out/bench"),
) -> None:
    """Designs on which a gate is the truth, the experts known: distance from the truth at n = 1,000."""
    from gatewise.experiments import locality as experiment  # noqa: PLC0415
    from gatewise.report.real import locality_table  # noqa: PLC0415

    rows = experiment.run(reps, seed, jobs, store=out / "locality.sqlite", progress=_progress)
    ratios = experiment.ratios(rows)
    console.print(locality_table(rows))
    for design, values in ratios.items():
        console.print(f"{design}: gatewise over {json.dumps(values)}", soft_wrap=True)
    _write_json(json_file, {"rows": [asdict(row) for row in rows], "ratios": ratios})


def _progress(items: Iterable[Any], total: int) -> Iterable[Any]:
    from rich.progress import track  # noqa: PLC0415

    return track(items, total=total, console=Console(stderr=True), description="samples")


def _write_json(path: Path | None, content: Any) -> None:
    if path is not None:
        path.write_text(json.dumps(content, indent=2) + "\n")


def _show_path(path: Path) -> None:
    console.print(f"figure: {path}", soft_wrap=True, highlight=False)


@app.command(epilog="Example: gatewise verify --quick --only thm:metric_entropy")
def verify(
    quick: Annotated[bool, typer.Option("--quick", help="Smaller samples: under a minute.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of all checks.")] = 0,
    only: Annotated[str | None, typer.Option(help="Run the claims whose label contains this.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the table as JSON, too.")] = None,
) -> None:
    """Check the paper's claims numerically: a table, and exit code 1 when one fails."""
    from rich.progress import Progress  # noqa: PLC0415 - `gatewise --help` need not wait for it

    from gatewise.experiments.verify import run_checks, select_checks  # noqa: PLC0415
    from gatewise.report.verify import verify_table  # noqa: PLC0415

    checks = select_checks(only)
    rows = []
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task(checks[0].label, total=len(checks))
        for row in run_checks(checks, seed, quick):
            rows.append(row)
            following = checks[len(rows)].label if len(rows) < len(checks) else "done"
            progress.update(task, advance=1, description=following)
    console.print(verify_table(rows))
    if json_file is not None:
        json_file.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n")
    if not all(row.passed for row in rows):
        raise typer.Exit(1)


def main() -> None:
    """Run the command line; bad input is one line and exit code 2."""
    try:
        app()
    except (ValueError, OSError) as error:
        sys.exit(_complain(error))


def _complain(error: Exception) -> int:
    print(f"gatewise: {error}", file=sys.stderr)  # noqa: T201 - the one line that a user sees
    return 2
