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

app = typer.Typer(
    help="Learns where each model is right.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
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


def main() -> None:
    """Run the command line; bad input is one line and exit code 2."""
    try:
        app()
    except (ValueError, OSError) as error:
        sys.exit(_complain(error))


def _complain(error: Exception) -> int:
    print(f"gatewise: {error}", file=sys.stderr)  # noqa: T201 - the one line that a user sees
    return 2
