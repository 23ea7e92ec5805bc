"""All benchmarks of the project in one table."""

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from benchmarks.figures import Reached


def bench_table(rows: Sequence[Reached]) -> Table:
    """One line for each figure; a missed goal says so."""
    known = [row for row in rows if row.value is not None]
    missed = sum(row.met is False for row in known)
    absent = sorted({row.headline.benchmark for row in rows} - {row.headline.benchmark for row in known})
    table = Table(
        title="Benchmarks",
        caption=f"x: times as fast; {len(known)} figures, {missed} goals missed"
        + f"; not run: {', '.join(absent)}" * bool(absent),
    )
    table.add_column("benchmark")
    table.add_column("what")
    for name in ("reached", "goal"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("")
    before = ""
    for row in known:
        name = row.headline.benchmark
        verdict = {True: "met", False: "[bold]missed[/bold]", None: ""}[row.met]
        table.add_row(name if name != before else "", row.headline.what, _reached(row), _goal(row), verdict)
        before = name
    return table


def bench_records(rows: Sequence[Reached]) -> list[dict[str, Any]]:
    """The same for a JSON file."""
    return [
        {
            "benchmark": row.headline.benchmark,
            "what": row.headline.what,
            "reached": row.value,
            "unit": row.headline.unit,
            "goal": row.headline.goal,
            "met": row.met,
        }
        for row in rows
    ]


def _reached(row: Reached) -> str:
    return f"{row.value:.3g} {row.headline.unit}".replace("times as fast", "x")


def _goal(row: Reached) -> str:
    if row.headline.goal is None:
        return ""
    return f"{'>=' if row.headline.better == 'more' else '<='} {row.headline.goal:g}"
