"""Figures of the geometry: region maps, weights along a covariate, bands at borders, advantages with intervals."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from numpy.typing import ArrayLike, NDArray
from scipy.ndimage import distance_transform_edt

from gatewise.app.figures.style import COLOURS, RC, save_figure
from gatewise.arrays import as_positive, as_rows, as_vector, Floats
from gatewise.geometry import boundary_distance, box_quadrature, Domain, RegionMap, shrunken, Specialization
from gatewise.paper.nonlinear_geometry import GeometryRun, run_geometry

STYLES = ("-", "--", "-.", ":")
LINES = (*COLOURS[:6], "#000000")  # yellow is too pale for a line on white
EDGE = "#333333"


def region_figure(maps: Mapping[str, RegionMap], low: Sequence[float], high: Sequence[float]) -> Figure:
    """Region maps of two covariates side by side, each under its name; numbers name the experts, from 1."""
    if not maps:
        raise ValueError("maps must hold at least one region map under its name")
    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(3.6 * len(maps) + 0.4, 3.9), layout="constrained")
        panels = figure.subplots(1, len(maps), sharey=True, squeeze=False)[0]
        for panel, (name, regions) in zip(panels, maps.items(), strict=True):
            draw_regions(panel, regions, low, high)
            panel.set_title(name)
        panels[0].set_ylabel("$x_2$")
    return figure


def weights_figure(values: ArrayLike, weights: ArrayLike, covariate: str) -> Figure:
    """The weights (g, M) of a gate at values (g,) of one covariate, one line for each expert."""
    x = as_vector(values, "values")
    rows = as_rows(weights, "weights")
    if len(rows) != len(x):
        raise ValueError(f"weights must have one row per value, {len(x)}, not {len(rows)}")
    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(6.0, 3.4), layout="constrained")
        panel = figure.subplots()
        for m, line in enumerate(rows.T):
            # Colours come round after seven experts; the dashes then differ.
            style = STYLES[(m + 2 * (m // len(LINES))) % len(STYLES)]
            panel.plot(x, line, color=LINES[m % len(LINES)], linestyle=style, linewidth=2, label=f"expert {m + 1}")
        panel.set(xlabel=covariate, ylabel="weight", ylim=(-0.02, 1.02), xlim=(x.min(), x.max()))
        panel.set_title("Weights of the gate")
        panel.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def band_figure(regions: RegionMap, rho: float, low: Sequence[float], high: Sequence[float]) -> Figure:
    """Regions of two covariates with the boundary layers B_i(rho) hatched: what the interior loss leaves out."""
    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(4.4, 4.3), layout="constrained")
        panel = figure.subplots()
        draw_bands(panel, regions, rho, low, high)
        panel.set_ylabel("$x_2$")
    return figure


def advantage_figure(found: Specialization, quantity: Literal["advantage", "excess"] = "advantage") -> Figure:
    """One bar per expert with its interval: filled where the specialization is real, hatched where it may be luck."""
    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(6.4, 0.42 * len(found.experts) + 1.6), layout="constrained")
        draw_advantages(figure.subplots(), found, quantity)
    return figure


def geometry_figure(path: Path, run: GeometryRun | None = None) -> Path:
    """The figure of the guide: regions, borders, and the test of the real gate next to that of a shuffled one."""
    run = run_geometry() if run is None else run
    low, high = (-1.0, -1.0), (1.0, 1.0)
    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(10.5, 6.6), layout="constrained")
        parts: Any = figure.subfigures(2, 1, height_ratios=(1.55, 1.0))
        top, bottom = parts
        true, estimated, bands = top.subplots(1, 3, sharey=True)
        draw_regions(true, run.true_regions, low, high)
        draw_regions(estimated, run.estimated_regions, low, high)
        draw_bands(bands, run.true_regions, 0.08, low, high)
        true.set(title="True best-expert regions", ylabel="$x_2$")
        estimated.set_title("Estimated from 3,000 rows")
        real, luck = bottom.subplots(1, 2, sharex=True)
        draw_advantages(real, run.specialization, "excess")
        draw_advantages(luck, run.shuffled, "excess")
        for panel, name in ((real, "A gate that follows the regions"), (luck, "The same gate, shuffled")):
            panel.set_title(f"{name}. {panel.get_title()}")
        return save_figure(figure, path)


def draw_regions(
    panel: Axes, regions: RegionMap, low: Sequence[float], high: Sequence[float], resolution: int = 201
) -> NDArray[np.intp]:
    """Colour each region and write its expert's number into it; returns the regions' labels on a square grid."""
    (a, b), (c, d) = _pair(low, "low"), _pair(high, "high")
    X, _ = box_quadrature(low, high, resolution)
    labels: NDArray[np.intp] = np.asarray(regions(X)).reshape(resolution, resolution).T  # rows are x2
    count = int(labels.max()) + 1
    colours = ListedColormap([_colour(m) for m in range(count)])
    panel.imshow(
        labels, origin="lower", extent=(a, c, b, d), cmap=colours, vmin=-0.5, vmax=count - 0.5, alpha=0.75,
        interpolation="nearest", aspect="auto",
    )  # fmt: skip
    for m in np.unique(labels):
        _write_number(panel, labels == m, int(m), (a, b, c, d))
    panel.set_box_aspect(1)
    panel.locator_params(nbins=5)
    panel.set_xlabel("$x_1$")
    return labels


def draw_bands(panel: Axes, regions: RegionMap, rho: float, low: Sequence[float], high: Sequence[float]) -> None:
    """Colour each region and hatch what is nearer than rho to a border."""
    rho = as_positive(rho, "rho")
    draw_regions(panel, regions, low, high)
    X, _ = box_quadrature(low, high, 101)
    near = ~shrunken(boundary_distance(regions, X, Domain(tuple(low), tuple(high)), n_reference=60_000), rho)
    grid = near.reshape(101, 101).T.astype(float)
    x1, x2 = (np.unique(X[:, j]) for j in range(2))
    with matplotlib.rc_context({"hatch.linewidth": 0.7}):
        panel.contourf(x1, x2, grid, levels=[0.5, 1.5], colors="white", alpha=0.45)
        panel.contourf(x1, x2, grid, levels=[0.5, 1.5], colors="none", hatches=["////"])
    panel.set_title(rf"Boundary layers, $\rho$ = {rho:g} (hatched)")


def draw_advantages(panel: Axes, found: Specialization, quantity: Literal["advantage", "excess"]) -> None:
    """Draw each expert's advantage, or its excess over that on all rows, as a bar with an interval."""
    labels = {"advantage": "loss of the runner-up minus own, where chosen",
              "excess": "excess of the advantage where chosen"}  # fmt: skip
    if quantity not in labels:
        raise ValueError(f"quantity must be 'advantage' or 'excess', not {quantity!r}")
    for place, report in enumerate(found.experts):
        bar: Any = getattr(report, quantity)
        if not np.isfinite(bar.value):
            panel.text(0.0, place, " never chosen", va="center", fontsize=9)
            continue
        look: Any = {"color": _colour(report.expert)} if report.special else {"color": "white", "hatch": "////"}
        panel.barh(place, bar.value, height=0.62, edgecolor=EDGE, linewidth=0.8, **look)
        if np.isfinite([bar.low, bar.high]).all():
            error = [[bar.value - bar.low], [bar.high - bar.value]]
            panel.errorbar(bar.value, place, xerr=error, color="black", capsize=3, linewidth=1.2)
    panel.axvline(0.0, color="black", linewidth=0.8)
    panel.set_yticks(range(len(found.experts)), [f"expert {e.expert + 1} ({e.n_rows} rows)" for e in found.experts])
    panel.set_ylim(len(found.experts) - 0.4, -0.6)
    panel.set_xlabel(labels[quantity])
    special = [str(m + 1) for m in found.special]
    panel.set_title("Special: " + (", ".join(special) if special else "none"))


def _colour(m: int) -> str:
    return COLOURS[m % len(COLOURS)]


def _pair(values: Sequence[float], name: str) -> Floats:
    return as_vector(values, name, 2)


def _write_number(panel: Axes, region: NDArray[np.bool_], m: int, box: tuple[float, ...]) -> None:
    """The expert's number at the point of its region that is farthest from the rest; none where it would not fit."""
    depth = np.asarray(distance_transform_edt(np.pad(region, 1)))[1:-1, 1:-1]
    row, column = np.unravel_index(int(depth.argmax()), depth.shape)
    if depth[row, column] < 0.03 * len(depth):
        return
    x = box[0] + (column + 0.5) / depth.shape[1] * (box[2] - box[0])
    y = box[1] + (row + 0.5) / depth.shape[0] * (box[3] - box[1])
    halo = [withStroke(linewidth=3, foreground="white")]
    panel.text(x, y, str(m + 1), ha="center", va="center", fontweight="bold", path_effects=halo)
