"""`tab:mc-summary` in the terminal: a run beside the published figures."""

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import NamedTuple

from rich.box import SIMPLE
from rich.table import Table
from rich.text import Text

from gatewise.paper.published import figure, judge, MEASURES, Off, off, PUBLISHED, stated
from gatewise.paper.table1 import COMMON, select, SETTINGS, STATED, Table1Choice, Table1Row
from gatewise.paper.table1_gates import GATES

MARK = "*"


def table1(rows: Sequence[Table1Row], design: str) -> Table:
    """The table of one design: for every gate and size the published row first, then ours.

    The columns "off" are our mean minus the published one, in standard errors.
    """
    mine = [row for row in rows if row.design == design]
    chosen = stated(mine, STATED)
    reps = mine[0].reps
    table = Table(
        title=f"{design} design, {reps} replications: error of the gate, mean (sd)",
        caption=f"{MARK} the stated readout, bold: the best gate. off: standard errors from the paper, "
        "! beyond 3 of them and beyond 10 %",
        box=SIMPLE,
        collapse_padding=True,
        pad_edge=False,
        show_edge=False,
    )
    for name in ("gate", "n", "rows", "readout", "l1", "off", "squared l2", "off"):
        table.add_column(name, justify="left" if name in ("gate", "rows", "readout") else "right")
    for gate in GATES:
        for n in sorted({row.n for row in mine}):
            table.add_row(gate, str(n), "paper", "", *_published(design, gate, n))
            for row in mine:
                if (row.gate, row.n) == (gate, n):
                    table.add_row("", "", *_ours(row, [other for other in chosen if other.n == n]))
        table.add_section()
    return table


def verdict_lines(rows: Sequence[Table1Row]) -> list[str]:
    """Sentences that count the means and orders that match, for the stated settings and for one common setting."""
    lines = ["Settings (the kernel gate: least squares over its weights on all rows, solved to the end)"]
    lines += [f"  {design}: {choice.setting}, {choice.readout}" for design, choice in STATED.items()]
    lines += [
        f"  {name}: {SETTINGS[name].text}"
        for name in dict.fromkeys(row.setting for row in rows if not _is_kernel(row))
    ]
    lines += _verdict("the stated settings", rows, STATED)
    common = next(iter(COMMON.values()))
    return lines + _verdict(f"one common setting ({common.setting}, {common.readout})", rows, COMMON)


def settings_table(rows: Sequence[Table1Row]) -> Table:
    """For every setting and readout, by design: how many means match the published ones, and how far they are off."""
    table = Table(
        title=f"Readings of the text against the paper, by design, {rows[0].reps} replications",
        caption="means within 3 standard errors or 10 %, in brackets the root mean square distance in standard "
        "errors; bold: the least of the nets. Without the two largest nets",
        box=SIMPLE,
    )
    table.add_column("setting")
    table.add_column("readout")
    designs = list(dict.fromkeys(row.design for row in rows))
    for design in designs:
        table.add_column(design, justify="right")
    kinds = list(dict.fromkeys((row.setting, row.readout) for row in sorted(rows, key=_is_kernel)))
    scores = {(kind, design): _distance(rows, kind, design) for kind in kinds for design in designs}
    least = {design: min(scores[kind, design].far for kind in kinds if kind[1] != "erm") for design in designs}
    for kind in kinds:
        found = [(scores[kind, design], scores[kind, design].far == least[design]) for design in designs]
        table.add_row(
            *kind, *(Text(f"{n} of {m} ({far:.1f})", style="bold" if best else "") for (n, m, far), best in found)
        )
    return table


class _Score(NamedTuple):
    matched: int
    means: int
    far: float


def _distance(rows: Sequence[Table1Row], kind: tuple[str, str], design: str) -> _Score:
    mine = [row for row in rows if (row.setting, row.readout, row.design) == (*kind, design)]
    found = [off(row, measure) for row in mine for measure in MEASURES]
    root = sqrt(sum(far.in_se**2 for far in found) / len(found))
    return _Score(sum(far.matches for far in found), len(found), root)


def _verdict(name: str, rows: Sequence[Table1Row], choices: Mapping[str, Table1Choice]) -> list[str]:
    found = judge(select(rows, dict(choices)), choices)
    lines = [
        f"With {name}: {found.matched} of {found.means} means within 3 standard errors or 10 %; "
        f"{found.ordered} of {found.pairs} pairs of gates in the published order, of those that differ there by more "
        "than 2 standard errors."
    ]
    for row, measure in found.missed:
        paper, ours, far = PUBLISHED[row.design, row.gate, row.n][measure], figure(row, measure), off(row, measure)
        lines.append(
            f"  not matched: {row.design} design, {row.gate} gate, n = {row.n}, {measure}: {ours.mean:.3f} against "
            f"{paper.mean:.3f} ({far.in_se:+.1f})"
        )
    return lines


def _is_kernel(row: Table1Row) -> bool:
    return row.gate == "kernel"


def _published(design: str, gate: str, n: int) -> list[Text | str]:
    parts: list[Text | str] = []
    for measure in MEASURES:
        mean, sd = PUBLISHED[design, gate, n][measure]
        best = min(PUBLISHED[design, other, n][measure].mean for other in GATES)
        parts += [_number(mean, sd, mean == best), ""]
    return parts


def _ours(row: Table1Row, chosen: Sequence[Table1Row]) -> list[Text | str]:
    mark = MARK if row in chosen else ""
    parts: list[Text | str] = ["" if _is_kernel(row) else row.setting, f"{row.readout}{mark}"]
    for measure in MEASURES:
        mean, sd = figure(row, measure)
        best = row in chosen and mean == min(figure(other, measure).mean for other in chosen)
        far = off(row, measure)
        parts += [_number(mean, sd, best), _distance_text(far)]
    return parts


def _distance_text(far: Off) -> str:
    """At most five characters, for a table of eighty columns."""
    digits = 1 if abs(far.in_se) < 9.95 else 0
    return f"{min(max(far.in_se, -999.0), 999.0):+.{digits}f}{'' if far.matches else '!'}"


def _number(mean: float, sd: float, best: bool) -> Text:
    return Text(f"{mean:.3f} ({sd:.3f})", style="bold" if best else "")
