"""Tables and figures of the shared-expert simulations."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FormatStrFormatter, LogLocator, NullFormatter, NullLocator
from rich.table import Table

from gatewise.app.figures.style import COLOURS, RC, save_figure
from gatewise.paper import rates
from gatewise.paper.scale_recovery import RecoveryRow
from gatewise.paper.shared_designs import SHARED_DESIGNS
from gatewise.paper.shared_figure import FigureRow
from gatewise.paper.two_stage import METHODS, plain_limit, StageRow

TITLES = {"simple-shared": "simple shared, complex routed", "complex-shared": "complex shared, simple routed"}


def rates_table(rows: Sequence[rates.RiskRow], design: str) -> Table:
    """Risk of every learner at every n, for one design: a row per n, so that it fits a terminal."""
    mine = [row for row in rows if row.design == design]
    learners = list(dict.fromkeys(row.learner for row in mine))
    table = _table(f"Mean integrated squared error, its standard error below: {TITLES[design]}", [])
    table.add_column("n", justify="right")
    for learner in learners:
        table.add_column(learner, justify="right")
    for n in sorted({row.n for row in mine}):
        at_n = {row.learner: row for row in mine if row.n == n}
        table.add_row(f"{n:,}", *(f"{at_n[name].risk:.2g}\n±{at_n[name].se:.1g}" for name in learners))
    return table


def slopes_table(slopes: Sequence[rates.Slope]) -> Table:
    """The fitted slopes of log risk on log n beside the exponents of the paper's rates."""
    table = _table(f"Slope of log risk on log n, n from {rates.SLOPE_FROM:,}", ["design", "learner"])
    for name in ("slope", "standard error", "paper"):
        table.add_column(name, justify="right")
    for row in slopes:
        expected = "" if row.expected is None else f"{row.expected:g}"
        table.add_row(row.design, row.learner, f"{row.slope:.3f}", f"{row.se:.2g}", expected)
    return table


def figure_table(rows: Sequence[FigureRow]) -> Table:
    """The mean errors that the figure shows, and the paired difference of the estimators with its standard error."""
    table = _table("Prediction error, threshold unknown", ["design"])
    for name in ("n", "shared (sd)", "pure (sd)", "pure - shared (se)"):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(
            row.design,
            str(row.n),
            f"{row.shared_mse:.4f} ({row.shared_sd:.4f})",
            f"{row.pure_mse:.4f} ({row.pure_sd:.4f})",
            f"{row.gain:.4f} ({row.gain_se:.1g})",
        )
    return table


def claim_lines(rows: Sequence[FigureRow]) -> list[str]:
    """Where the published caption's claim holds, by two standard errors of the paired difference."""
    lines = ["The caption says that the shared estimator has the lower error at every n."]
    for design, title in TITLES.items():
        for claim, words in (("holds", "so at"), ("open", "not settled at"), ("fails", "not so at")):
            mine = [row for row in rows if (row.design, row.claim) == (design, claim)]
            if mine:
                sizes = ", ".join(f"{row.n:,} ({row.gain / row.gain_se:+.1f})" for row in mine)
                lines.append(f"  {title}: {words} n = {sizes}")
    return [*lines, "In brackets: pure minus shared, in its standard errors; beyond two it counts as settled."]


def two_stage_table(rows: Sequence[StageRow]) -> Table:
    """The estimated shared slope and the prediction error of every method at every n."""
    table = _table("Shared slope (truth 1) and prediction error on the step design", ["method"])
    for name in ("n", "slope (sd)", "error (se)"):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(
            row.method, str(row.n), f"{row.slope:.3f} ({row.slope_sd:.3f})", f"{row.mse:.2g} ({row.mse_se:.1g})"
        )
    return table


def scales_table(rows: Sequence[RecoveryRow]) -> Table:
    """How often the scale of sharing of each component was recovered, at every n."""
    table = _table("Scales of sharing recovered", ["component", "true scale"])
    for name in ("n", "recovered"):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(row.component, row.scale, str(row.n), f"{row.recovered} of {row.runs}")
    return table


def rates_figure(rows: Sequence[rates.RiskRow], path: Path) -> Path:
    """Risk against n on log axes, one panel a design; bars are two standard errors."""
    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(10.0, 4.2), layout="constrained")
        for panel, design in zip(figure.subplots(1, 2), TITLES, strict=True):
            mine = [row for row in rows if row.design == design]
            learners = list(dict.fromkeys(row.learner for row in mine))
            for learner, colour in zip(learners, COLOURS, strict=False):
                line = [row for row in mine if row.learner == learner]
                style = "--" if "gcv" in learner else "-"
                panel.errorbar(
                    [row.n for row in line],
                    [row.risk for row in line],
                    yerr=[2 * row.se for row in line],
                    color=colour,
                    linestyle=style,
                    marker="o",
                    markersize=3.5,
                    label=learner,
                )
            _log_axes(panel, sorted({row.n for row in mine}), "mean integrated squared error")
            panel.set_title(TITLES[design])
            if design == "complex-shared":
                floor = rates.bias_floor(SHARED_DESIGNS[design])
                panel.axhline(floor, color="0.5", linestyle=":", label=f"bias floor {floor:.3f}")
            panel.legend(fontsize=8)
        return save_figure(figure, path)


def shared_figure(rows: Sequence[FigureRow], path: Path) -> Path:
    """The paper's figure: mean error of both estimators with one standard deviation."""
    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(9.0, 3.8), layout="constrained")
        for panel, design in zip(figure.subplots(1, 2), TITLES, strict=True):
            mine = [row for row in rows if row.design == design]
            sizes = [row.n for row in mine]
            looks = (("shared", COLOURS[0], "o", 0.97), ("pure", COLOURS[1], "s", 1.03))  # a step aside, to see both
            for name, colour, marker, shift in looks:
                places = [n * shift for n in sizes]
                means = [getattr(row, f"{name}_mse") for row in mine]
                spread = [getattr(row, f"{name}_sd") for row in mine]
                below = [min(sd, 0.9 * mean) for sd, mean in zip(spread, means, strict=True)]  # no zero on a log axis
                look = {"color": colour, "marker": marker, "capsize": 3, "label": f"{name}-routed"}
                panel.errorbar(places, means, yerr=[below, spread], **look)
            _log_axes(panel, sizes, "prediction error")
            panel.set_title(TITLES[design])
            panel.legend()
        return save_figure(figure, path)


def two_stage_figure(rows: Sequence[StageRow], path: Path) -> Path:
    """The shared slope and the error of every method against n, with the limits of the plain two-stage rule."""
    slopes, floor = plain_limit()
    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(9.0, 3.8), layout="constrained")
        left, right = figure.subplots(1, 2)
        for i, (method, colour) in enumerate(zip(METHODS, COLOURS, strict=False)):
            mine = [row for row in rows if row.method == method]
            shift = 1.1 ** (i - 1)  # joint and residualized two-stage are the same numbers: side by side
            places = [row.n * shift for row in mine]
            look = {"color": colour, "marker": "os^"[i], "label": method, "capsize": 3}
            left.errorbar(places, [row.slope for row in mine], yerr=[row.slope_sd for row in mine], **look)
            right.errorbar(places, [row.mse for row in mine], yerr=[2 * row.mse_se for row in mine], **look)
        sizes = sorted({row.n for row in rows})
        _log_axes(right, sizes, "prediction error")
        right.axhline(floor, color="0.5", linestyle=":", label=f"limit of the plain rule, {floor:.4f}")
        right.legend(fontsize=8)
        _log_axes(left, sizes, "slope of the shared part")
        left.set_yscale("linear")
        left.axhline(1.0, color="black", linewidth=0.8)
        left.axhline(float(slopes[0]), color="0.5", linestyle=":")
        left.set_title("the plain rule takes the step for slope")
        right.set_title("and its error does not go away")
        return save_figure(figure, path)


def _table(title: str, columns: Sequence[str]) -> Table:
    table = Table(title=title)
    for name in columns:
        table.add_column(name)
    return table


def _log_axes(panel: Axes, sizes: Sequence[int], label: str) -> None:
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_xlabel("n")
    panel.set_ylabel(label)
    some = sizes if len(sizes) < 6 else sizes[::2]
    panel.xaxis.set_major_locator(FixedLocator([float(n) for n in some]))
    panel.xaxis.set_minor_locator(NullLocator())
    panel.set_xticklabels([f"{n:,}" for n in some])
    low, high = panel.get_ylim()
    panel.yaxis.set_major_locator(LogLocator(subs=(1.0,) if high > 100 * low > 0 else (1.0, 2.0, 5.0)))
    panel.yaxis.set_major_formatter(FormatStrFormatter("%g"))
    panel.yaxis.set_minor_formatter(NullFormatter())
