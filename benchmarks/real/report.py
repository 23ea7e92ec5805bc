"""Tables and the figure of the benchmark on real data."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter
from rich.console import Group
from rich.table import Table

from benchmarks.real.choice import Crossed
from benchmarks.real.competitors import OURS
from benchmarks.real.facts import THIRDS
from benchmarks.real.goals import Goal
from benchmarks.real.summary import Errors, Standing
from gatewise.app.figures.style import COLOURS, RC
from gatewise.arrays import Floats

CLIP = 2.0  # ratios beyond stand at the border of the figure


def errors_table(errors: Errors) -> Table:
    """The least MSE of each data set and everyone's ratio to it; names of competitors wrap, to fit a terminal."""
    table = Table(title="Test MSE over the best of its row (mean of the splits)", padding=(0, 1, 0, 0), box=None)
    table.add_column("data set", no_wrap=True)
    table.add_column("best MSE", justify="right", no_wrap=True)
    for name in errors.competitors:
        table.add_column(name.replace(" ", "\n"), justify="right", min_width=5, overflow="fold")
    for i, data in enumerate(errors.data):
        ratios = [f"[bold]{r:.3f}[/bold]" if r == 1.0 else f"{r:.3f}" for r in errors.ratios[i]]
        table.add_row(data, f"{errors.mse[i].min():.4g}", *ratios)
    return table


def standings_table(standings: Sequence[Standing], title: str = "Over all data sets") -> Table:
    """Who is where."""
    table = Table(title=title)
    table.add_column("competitor")
    for name in ("mean rank", "geometric mean of MSE over best", "worst against simplex stack"):
        table.add_column(name, justify="right")
    for one in standings:
        worst = f"{one.worst:.3f} ({one.worst_data})"
        table.add_row(one.competitor, f"{one.mean_rank:.2f}", f"{one.geometric_mean:.3f}", worst)
    return table


def outside_table(table: Mapping[str, Any]) -> Group:
    """One pool on data that no choice has seen: who is where, and every entry of the grid."""
    ranks = [Standing(**one) for one in table["standings"]]
    unseen = f"{table['data_sets']} data sets that no choice has seen"
    head = f"{table['pool']} pool, {unseen}, settings {table['settings']!r}"
    grid = Table("settings", "MSE over the simplex stack's", "worst")
    for row in table["grid"]:
        grid.add_row(row["settings"], f"{row['over_stack']:.4f}", f"{row['worst']:.3f}")
    return Group(standings_table(ranks, head), grid)


def choice_table(losses: Sequence[Mapping[str, float]]) -> Table:
    """Every entry of the grid with its loss on the first half, on the second and on both."""
    table = Table(title="Geometric mean of MSE over the simplex stack's")
    table.add_column("settings")
    for name in ("first half", "second half", "both"):
        table.add_column(name, justify="right")
    for entry in losses[0]:
        table.add_row(entry, *(f"{np.exp(part[entry]):.4f}" for part in losses))
    return table


def crossed_table(part: Crossed) -> Group:
    """Standings on rows that had no part in the choice of the settings, and what the router said of itself."""
    title = f"{part.pool} pool, {part.rows}: {len(part.errors.data)} data sets, settings {part.settings!r}"
    return Group(standings_table(part.standings, title), *facts_lines(part.facts.get(OURS, {})))


def facts_lines(facts: Mapping[str, Any]) -> list[str]:
    """The router's verdicts, gains and intervals over all runs, a line each."""
    if not facts:
        return []
    runs = sum(facts["verdict"].values())
    verdicts = ", ".join(f"{word} {count / runs:.1%}" for word, count in facts["verdict"].items())
    thirds = ", ".join(f"{facts[f'coverage90_{third}']:.1%}" for third in THIRDS)
    return [
        f"verdicts of {runs} runs: {verdicts}",
        f"gain over the simplex stack: promised {facts['gain']:+.2%}, found {facts['test_gain']:+.2%};"
        f" in its interval {facts['gain_covered']:.1%}",
        f"90 % intervals cover {facts['coverage90']:.1%}; by thirds of the predicted sd {thirds}",
    ]


def goals_table(goals: Sequence[Goal]) -> Table:
    """Every goal with its bounds and the figure reached."""
    table = Table(title="Goals")
    table.add_column("goal")
    for name in ("wanted", "reached", "met"):
        table.add_column(name, justify="right")
    for goal in goals:
        bounds = [f"{sign} {bound:g}" for sign, bound in ((">=", goal.least), ("<=", goal.most)) if bound is not None]
        table.add_row(goal.name, ", ".join(bounds), f"{goal.reached:.3f}", "yes" if goal.met else "no")
    return table


def real_figure(errors: Errors, standings: Sequence[Standing], path: Path) -> Path:
    """A row per competitor, best rank on top; a dot per data set at its MSE over the least of the data set."""
    order = [errors.competitors.index(one.competitor) for one in standings]
    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(8.0, 0.9 + 0.5 * len(order)), layout="constrained")
        axes = figure.subplots()
        for place, (j, one) in enumerate(zip(order, standings, strict=True)):
            ratios = errors.ratios[:, j]
            shift = _apart(ratios)
            colour = COLOURS[5] if one.competitor == OURS else COLOURS[0]
            inside = ratios <= CLIP
            look: Any = {"color": colour, "alpha": 0.55, "linewidths": 0, "clip_on": False}
            axes.scatter(ratios[inside], place + shift[inside], s=22, **look)
            axes.scatter(np.full((~inside).sum(), CLIP), place + shift[~inside], s=30, marker=">", **look)
            axes.plot([one.geometric_mean] * 2, [place - 0.36, place + 0.36], color="black", linewidth=1.6)
        axes.set_xscale("log")
        axes.set_xlim(0.993, CLIP)
        ticks = [1.0, 1.05, 1.1, 1.2, 1.4, 1.6, 2.0]
        axes.xaxis.set_major_locator(FixedLocator(ticks))
        axes.xaxis.set_major_formatter(
            FuncFormatter(lambda value, _: f"{value:g}" if value < CLIP else f"{value:g} or more")
        )
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_yticks(range(len(order)), [f"{one.competitor}  {one.mean_rank:.1f}" for one in standings])
        axes.invert_yaxis()
        axes.set_xlabel("test MSE over the best of the data set")
        axes.set_title(f"{len(errors.data)} data sets; mean rank beside the name; bar: geometric mean")
        axes.grid(axis="x", color="0.9")
        axes.set_axisbelow(True)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path)
    return path


def _apart(values: Floats) -> Floats:
    """Small steps up and down, in the order of the values, so that neighbours do not cover one another."""
    steps = np.array([0.0, 0.16, -0.16, 0.27, -0.27])
    shift = np.empty(len(values))
    shift[np.argsort(values, kind="stable")] = steps[np.arange(len(values)) % len(steps)]
    return shift
