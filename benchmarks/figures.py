"""``python -m benchmarks.figures``: the figures of all benchmarks, read from their JSON files, beside their goals."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from benchmarks.command import start
from benchmarks.headlines import Headline, HEADLINES, Key
from benchmarks.timing import RESULTS
from gatewise.app.files import write_json
from gatewise.app.terminal import console, Json


@dataclass(frozen=True)
class Reached:
    """A headline and what was reached; None where the benchmark was not run."""

    headline: Headline
    value: float | None

    @property
    def met(self) -> bool | None:
        """Whether the goal was met; None without a goal or a figure."""
        goal = self.headline.goal
        if goal is None or self.value is None:
            return None
        return self.value >= goal if self.headline.better == "more" else self.value <= goal


def read_results(folder: Path = RESULTS) -> list[Reached]:
    """All headlines with the figures of the files in a folder."""
    if not folder.is_dir():
        raise ValueError(f"{folder}: no such folder")
    return [
        Reached(headline, _value(headline, _read(folder / f"{headline.benchmark}.json"))) for headline in HEADLINES
    ]


def figures_table(rows: Sequence[Reached]) -> Table:
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


def figure_records(rows: Sequence[Reached]) -> list[dict[str, Any]]:
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


def main(
    results: Annotated[Path, typer.Option(help="Folder of results.")] = RESULTS,
    json_file: Json = None,
) -> None:
    """The figures that the benchmarks left in their JSON files, beside the goals that were set for them."""
    rows = read_results(results)
    console.print(figures_table(rows))
    write_json(json_file, figure_records(rows))


def _read(path: Path) -> Any:
    if not path.is_file():
        return None
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: cannot be read as JSON: {error}") from error


def _value(headline: Headline, content: Any) -> float | None:
    try:
        value = _worst(_follow(content, headline.path))
        return value if headline.over is None else value / _worst(_follow(content, headline.over))
    except (KeyError, StopIteration, TypeError):
        return None


def _follow(content: Any, path: tuple[Key, ...]) -> Any:
    for key in path:
        if isinstance(key, str):
            content = content[key]
        else:
            content = next(row for row in content if all(row.get(name) == value for name, value in key.items()))
    return content


def _worst(found: Any) -> float:
    """A number, or the median of a spread; the largest of several: of a list, or of the alarms of several designs."""
    if isinstance(found, dict) and "median" in found:
        return float(found["median"])
    if isinstance(found, dict):
        return max(float(one["any_alarm"]) for one in found.values())
    return max(map(float, found)) if isinstance(found, list) else float(found)


def _reached(row: Reached) -> str:
    return f"{row.value:.3g} {row.headline.unit}".replace("times as fast", "x")


def _goal(row: Reached) -> str:
    if row.headline.goal is None:
        return ""
    return f"{'>=' if row.headline.better == 'more' else '<='} {row.headline.goal:g}"


if __name__ == "__main__":
    start(main)
