"""The command line: ``gatewise COMMAND``. It parses, calls and prints; the work is done elsewhere."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

try:
    import typer
    from rich.console import Console
except ModuleNotFoundError as error:  # pragma: no cover - seen only where the extra is not installed
    sys.exit(f"gatewise: {error.name} is not installed; the command line needs: pip install 'gatewise[cli]'")

import gatewise
from gatewise.app.model_commands import app as model
from gatewise.app.model_commands import demo_page
from gatewise.app.reproduce_commands import app as reproduce
from gatewise.app.terminal import show_path

app = typer.Typer(
    help="Learns where each model is right.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(model)
app.add_typer(reproduce, name="reproduce")
console = Console()


def _print_version(wanted: bool) -> None:
    if wanted:
        console.print(f"gatewise {gatewise.__version__}", highlight=False)
        raise typer.Exit


@app.callback(
    epilog="Examples:\n\n"
    "gatewise demo\n\n"
    "gatewise fit houses.csv --target price --out price.skops\n\n"
    "gatewise predict price.skops new-houses.csv --out prices.csv\n\n"
    "gatewise report price.skops houses.csv --out price.html"
)
def root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and leave.", callback=_print_version, is_eager=True)
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error came from.")] = False,
) -> None:
    """Learns where each model is right."""


@app.command(epilog="Example: gatewise demo --out out")
def demo(
    out: Annotated[Path, typer.Option(help="Folder for all that it makes.")] = Path("out"),
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the first table as JSON, too.")] = None,
) -> None:
    """Learn routers on one of the paper's designs; then fit, predict and report on a small table."""
    from gatewise.app.figures.demo_figure import demo_figure, demo_table  # noqa: PLC0415
    from gatewise.paper.demo import run_demo  # noqa: PLC0415 - `gatewise --help` need not wait for it

    with console.status("learning two routers from 400 rows"):
        result = run_demo()
    console.print(demo_table(result))
    if json_file is not None:
        json_file.write_text(json.dumps([asdict(row) for row in result.rows], indent=2) + "\n")
    show_path(demo_figure(result, out / "demo.png"))
    demo_page(out)


@app.command(epilog="Example: gatewise verify --quick --only thm:metric_entropy")
def verify(
    quick: Annotated[bool, typer.Option("--quick", help="Smaller samples: under a minute.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of all checks.")] = 0,
    only: Annotated[str | None, typer.Option(help="Run the claims whose label contains this.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the table as JSON, too.")] = None,
) -> None:
    """Check the paper's claims numerically: a table, and exit code 1 when one fails."""
    from rich.progress import Progress  # noqa: PLC0415 - `gatewise --help` need not wait for it

    from gatewise.app.figures.verify_table import verify_table  # noqa: PLC0415
    from gatewise.paper.verify import run_checks, select_checks  # noqa: PLC0415

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


@app.command(hidden=True, context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def bench() -> None:
    """Say where the benchmarks are now."""
    raise ValueError(
        "the benchmarks are no longer part of the package: in the project's source folder, `make bench` runs them "
        "all, `make bench-real` those on real data, and `python -m benchmarks.NAME` one of them (real, locality, "
        "regret, figures, ...)"
    )


def main() -> None:
    """Run the command line; bad input is one line and exit code 2. ``--debug`` may stand anywhere."""
    given = sys.argv[1:]
    try:
        app(args=[word for word in given if word != "--debug"])
    except Exception as error:
        if "--debug" in given or not _is_about_the_input(error):
            raise
        print(f"gatewise: {one_line(error)}", file=sys.stderr)  # noqa: T201 - the one line that a user sees
        sys.exit(2)


def _is_about_the_input(error: Exception) -> bool:
    """Whether an error speaks of what the user gave: a bad value or file, or an expert that its notes name."""
    return isinstance(error, ValueError | OSError | RuntimeError) or bool(getattr(error, "__notes__", ()))


def one_line(error: Exception) -> str:
    """The message of an error and its notes, such as the name of the expert that raised it, on one line.

    >>> error = ValueError("no\\nneighbours")
    >>> error.add_note("raised by the expert 'knn'")
    >>> one_line(error)
    "no neighbours (raised by the expert 'knn')"
    """
    message = " ".join(str(error).split()) or type(error).__name__
    notes = [" ".join(note.split()) for note in getattr(error, "__notes__", ())]
    return f"{message} ({'; '.join(notes)})" if notes else message
