"""The plots of the page, each an SVG image small enough for a phone's width."""

import base64
import warnings
from collections.abc import Callable, Sequence
from io import BytesIO
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import hsv_to_rgb, to_hex, to_rgb
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import NDArray

from gatewise.app.figures.geometry_figures import draw_advantages, LINES, STYLES
from gatewise.app.figures.style import COLOURS, RC
from gatewise.app.page.findings import BAND, Findings
from gatewise.app.page.importance import PlotAxis, RegionPlot, WeightProfile
from gatewise.app.page.scored_rows import RoutedRows

WIDTH = 4.8  # inches: text stays legible when the image is as wide as a phone
POINTS = 400  # rows drawn on a map
# A name may hold dollar signs, which must not be read as formulas.
LOOK = {**RC, "text.parse_math": False, "svg.fonttype": "path", "svg.hashsalt": "gatewise", "font.size": 10}


def image(draw: Callable[[Axes], None], height: float) -> str:
    """The plot that ``draw`` makes on empty axes, as a data URL of an SVG image of this height in inches."""
    with matplotlib.rc_context(LOOK), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # names may be in any script
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        draw(figure.subplots())
        buffer = BytesIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return "data:image/svg+xml;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


def colour(m: int) -> str:
    """The colour of expert m, everywhere on the page; no two experts have the same.

    Beyond the palette the hues go round by the golden angle, each round darker than the last.
    """
    if m < len(COLOURS):
        return COLOURS[m]
    turn, hue = divmod(m - len(COLOURS), 24)
    red, green, blue = hsv_to_rgb(((0.08 + 0.618034 * hue) % 1.0, 0.55, max(0.85 - 0.2 * turn, 0.2)))
    return to_hex((float(red), float(green), float(blue)))


def short(name: str, most: int = 26) -> str:
    """A name cut to at most ``most`` letters, to fit beside a plot.

    >>> short("a name that goes on and on", 10)
    'a name th…'
    """
    name = " ".join(name.split())
    return name if len(name) <= most else name[: most - 1] + "…"


def gain_plot(findings: Findings) -> str:
    """Plot of the fraction of squared error that Gatewise saves against every rival, with intervals."""
    rivals = [score for score in findings.scores if score.gain is not None]

    def draw(panel: Axes) -> None:
        for place, score in enumerate(rivals):
            value, low, high = (100.0 * end for end in score.gain or (0.0, 0.0, 0.0))
            low, high = max(low, -100.0), min(high, 100.0)
            sure = low > 0.0 or high < 0.0
            panel.plot([low, high], [place, place], color="#333333", linewidth=1.4, zorder=1)
            panel.plot(
                value, place, "o", color=LINES[0] if sure else "white", markeredgecolor="#333333", markersize=7
            )
        panel.axvline(0.0, color="#333333", linewidth=0.8, linestyle="--")
        panel.set_yticks(range(len(rivals)), [short(score.method) for score in rivals])
        panel.set_ylim(len(rivals) - 0.5, -0.5)
        panel.set_xlabel("squared error saved, %")

    return image(draw, 0.34 * len(rivals) + 1.0)


def map_plot(found: RegionPlot, rows: RoutedRows) -> str:
    """Map of the expert of largest weight over two columns, paler where its lead is small, with rows of the data."""

    def draw(panel: Axes) -> None:
        ordered = -np.sort(-found.weights, axis=2)
        leader, margin = found.weights.argmax(axis=2), ordered[..., 0] - ordered[..., 1]
        palette = np.array([to_rgb(colour(m)) for m in range(len(rows.names))])
        depth = (0.25 + 0.6 * np.clip(margin, 0.0, 1.0))[..., None]
        x, y = _places(found.x), _places(found.y)
        edges = _edges(x), _edges(y)
        panel.pcolormesh(*edges, depth * palette[leader] + (1.0 - depth), shading="flat", rasterized=True)
        if len(x) > 1 and len(y) > 1 and margin.min() < BAND < margin.max():
            panel.contour(x, y, margin, levels=[BAND], colors="white", linewidths=1.0)
        _draw_rows(panel, found, rows)
        _label(panel.xaxis, panel.set_xlabel, found.x)
        _label(panel.yaxis, panel.set_ylabel, found.y)
        panel.set(xlim=edges[0][[0, -1]], ylim=edges[1][[0, -1]])
        _legend(panel, rows.names, [*leader.ravel(), *rows.weights.argmax(axis=1)])

    return image(draw, 4.4)


def profile_plot(found: WeightProfile, names: Sequence[str]) -> str:
    """Plot of the mean weights along one column: lines over numbers, dots over categories."""

    def draw(panel: Axes) -> None:
        x = _places(found.axis)
        for m, line in enumerate(found.weights.T):
            style = "" if found.axis.kind == "text" else STYLES[(m + 2 * (m // len(LINES))) % len(STYLES)]
            marker = "osD^vPX"[m % 7] if found.axis.kind == "text" else ""
            look: Any = {"color": LINES[m % len(LINES)], "linestyle": style, "marker": marker, "linewidth": 2}
            panel.plot(x, line, label=short(names[m]), **look)
        _label(panel.xaxis, panel.set_xlabel, found.axis)
        panel.set(ylabel="mean weight", ylim=(-0.02, 1.02))
        panel.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, fontsize=9)

    return image(draw, 3.4)


def advantage_plot(findings: Findings) -> str:
    """Plot of the test of specialization: each expert's advantage where it is chosen, less that over all rows."""

    def draw(panel: Axes) -> None:
        found = findings.specialization
        assert found is not None
        draw_advantages(panel, found, "excess")
        names = [short(findings.rows.names[one.expert]) for one in found.experts]
        panel.set_yticks(range(len(names)), names)
        panel.set_title("")
        panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.2g}"))
        panel.xaxis.set_major_locator(MaxNLocator(5))
        panel.set_xlabel("advantage where chosen, beyond that everywhere")

    return image(draw, 0.36 * len(findings.rows.names) + 1.1)


def active_plot(findings: Findings) -> str:
    """Plot of the squared error beyond that of the full gate, by the number of active experts, with intervals."""

    def draw(panel: Axes) -> None:
        for one in findings.active:
            panel.plot(
                [one.k, one.k], [100.0 * one.excess.low, 100.0 * one.excess.high], color="#333333", linewidth=1.4
            )
        k = [one.k for one in findings.active]
        panel.plot(k, [100.0 * one.excess.value for one in findings.active], "o-", color=LINES[0])
        panel.axhline(0.0, color="#333333", linewidth=0.8, linestyle="--")
        panel.set_xticks(k)
        panel.set(xlabel="experts that a row may use", ylabel="extra squared error, %")

    return image(draw, 2.9)


def margin_plot(findings: Findings) -> str:
    """Histogram over the rows of the largest weight less the second largest; the band at borders is shaded."""

    def draw(panel: Axes) -> None:
        panel.axvspan(0.0, BAND, color=COLOURS[1], alpha=0.25, linewidth=0)
        panel.hist(findings.margins.margins, bins=20, range=(0.0, 1.0), color=LINES[0], edgecolor="white")
        panel.set(xlabel="largest weight minus the second", ylabel="rows", xlim=(0.0, 1.0))

    return image(draw, 2.9)


def _places(axis: PlotAxis) -> NDArray[Any]:
    """The positions of the values on the axis: numbers at their value, categories at 0, 1, 2, ..."""
    return np.arange(len(axis.values), dtype=float) if axis.kind == "text" else axis.values.astype(float)


def _edges(places: NDArray[Any]) -> NDArray[Any]:
    """The borders of cells around g positions, (g + 1,): halfway between neighbours."""
    if len(places) == 1:
        return np.array([places[0] - 0.5, places[0] + 0.5])
    middle = 0.5 * (places[1:] + places[:-1])
    return np.array([2.0 * places[0] - middle[0], *middle, 2.0 * places[-1] - middle[-1]])


def _label(side: Any, set_label: Callable[[str], Any], axis: PlotAxis) -> None:
    set_label(short(axis.name, 40))
    if axis.kind == "text":
        side.set_ticks(range(len(axis.values)), [short(str(value), 12) for value in axis.values])
        if side.axis_name == "x" and len(axis.values) > 4:
            side.set_tick_params(rotation=35)
    elif axis.kind == "date":
        locator = AutoDateLocator(minticks=3, maxticks=7)  # type: ignore[no-untyped-call]
        side.set_major_locator(locator)
        side.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]


def _draw_rows(panel: Axes, found: RegionPlot, rows: RoutedRows) -> None:
    """Draw some rows of the data, coloured by their own leading expert; categories are jittered a little."""
    rng = np.random.default_rng(0)
    some = rng.permutation(len(rows.y))[:POINTS]
    leader = rows.weights[some].argmax(axis=1)
    place = []
    for axis in (found.x, found.y):
        values = rows.X[axis.name].to_numpy()[some]
        if axis.kind == "text":
            index = {value: float(number) for number, value in enumerate(axis.values)}
            values = np.array([index.get(value, np.nan) for value in values]) + rng.uniform(-0.3, 0.3, len(some))
        place.append(values.astype(float))
    colours = [colour(int(m)) for m in leader]
    panel.scatter(place[0], place[1], c=colours, s=13, edgecolors="white", linewidths=0.5, zorder=3)


def _legend(panel: Axes, names: Sequence[str], leading: Sequence[int]) -> None:
    handles = [Patch(color=colour(m), label=short(names[m])) for m in np.unique(leading)]
    panel.legend(handles=handles, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, fontsize=9)
