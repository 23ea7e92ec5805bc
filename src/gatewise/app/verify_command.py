"""``gatewise verify``: the paper's claims, checked numerically."""

from dataclasses import asdict
from time import perf_counter
from typing import Annotated

import typer

from gatewise.app.files import claim_json, write_json
from gatewise.app.terminal import console, Jobs, Json, show_progress

KEYS = ("label", "computed", "figure", "law", "passed")  # of its JSON
app = typer.Typer()


@app.command(epilog="Example: gatewise verify --quick --only thm:metric_entropy")
def verify(
    quick: Annotated[bool, typer.Option("--quick", help="Smaller samples: under a minute.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of all checks.")] = 0,
    only: Annotated[str | None, typer.Option(help="Run the claims whose label contains this.")] = None,
    jobs: Jobs = -1,
    json_file: Json = None,
) -> None:
    """Check the paper's claims numerically: a table, and exit code 1 when one fails."""
    from gatewise.app.figures.verify_table import verify_table  # noqa: PLC0415
    from gatewise.backends import in_turn, processes  # noqa: PLC0415
    from gatewise.paper.verify import run_checks, select_checks  # noqa: PLC0415

    place = claim_json(json_file, KEYS)
    checks = select_checks(only)
    backend = in_turn if len(checks) == 1 else processes(jobs)
    start, found = perf_counter(), {}
    for number, row in show_progress(run_checks(checks, seed, quick, backend), 0, len(checks), "verify", "claims"):
        found[number] = row
    rows = [found[number] for number in range(len(checks))]
    console.print(verify_table(rows, perf_counter() - start))
    write_json(place, [asdict(row) for row in rows])
    if not all(row.passed for row in rows):
        raise typer.Exit(1)
