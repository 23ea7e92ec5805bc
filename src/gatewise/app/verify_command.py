"""``gatewise verify``: the paper's claims, checked numerically."""

from dataclasses import asdict
from typing import Annotated

import typer
from rich.progress import Progress

from gatewise.app.files import write_json
from gatewise.app.terminal import console, Json

app = typer.Typer()


@app.command(epilog="Example: gatewise verify --quick --only thm:metric_entropy")
def verify(
    quick: Annotated[bool, typer.Option("--quick", help="Smaller samples: under a minute.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of all checks.")] = 0,
    only: Annotated[str | None, typer.Option(help="Run the claims whose label contains this.")] = None,
    json_file: Json = None,
) -> None:
    """Check the paper's claims numerically: a table, and exit code 1 when one fails."""
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
    write_json(json_file, [asdict(row) for row in rows])
    if not all(row.passed for row in rows):
        raise typer.Exit(1)
