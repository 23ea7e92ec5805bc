"""The table of claims: what was computed, what came out, what must hold."""

from collections.abc import Sequence

from rich.markup import escape
from rich.table import Table

from gatewise.paper.verify import VerifyRow


def verify_table(rows: Sequence[VerifyRow], seconds: float) -> Table:
    """One row per claim, its label above what was computed; failures in bold red, the run's time in the title."""
    passed = sum(row.passed for row in rows)
    table = Table(title=f"{passed} of {len(rows)} claims hold, {seconds:.0f} seconds", show_lines=True)
    table.add_column("claim, and what was computed", width=28, overflow="fold")
    table.add_column("figure")
    table.add_column("law")
    table.add_column("", no_wrap=True)
    table.add_column("s", justify="right", no_wrap=True)
    for row in rows:
        claim = f"[bold]{escape(row.label)}[/bold]\n{escape(row.computed)}"
        verdict = "pass" if row.passed else "FAIL"
        style = None if row.passed else "bold red"
        table.add_row(claim, escape(row.figure), escape(row.law), verdict, f"{row.seconds:.1f}", style=style)
    return table
