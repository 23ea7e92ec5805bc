"""The table of claims: what was computed, what came out, what must hold."""

from collections.abc import Sequence

from rich.markup import escape
from rich.table import Table

from gatewise.experiments.verify import VerifyRow


def verify_table(rows: Sequence[VerifyRow]) -> Table:
    """One row per claim, failures in bold red, the total in the title."""
    passed, seconds = sum(row.passed for row in rows), sum(row.seconds for row in rows)
    table = Table(title=f"{passed} of {len(rows)} claims hold, {seconds:.0f} seconds", show_lines=True)
    for name, share in (("claim", 3), ("computed", 4), ("figure", 6), ("law", 4)):
        table.add_column(name, ratio=share, overflow="fold")
    table.add_column("", no_wrap=True)
    table.add_column("s", justify="right", no_wrap=True)
    for row in rows:
        cells = [escape(text) for text in (row.label, row.computed, row.figure, row.law)]
        verdict = "pass" if row.passed else "FAIL"
        table.add_row(*cells, verdict, f"{row.seconds:.1f}", style=None if row.passed else "bold red")
    return table
