"""The nine panels of `fig:all-gating-results`, with the true borders drawn over the estimated regions."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.patheffects import withStroke
from numpy.typing import NDArray
from rich.box import SIMPLE
from rich.table import Table
from scipy.ndimage import distance_transform_edt, zoom

from gatewise.app.figures.style import COLOURS, RC, save_figure
from gatewise.arrays import Floats
from gatewise.paper.designs import Design, DESIGNS
from gatewise.paper.region_maps import Panel, SIDE
from gatewise.paper.table1_gates import GATES

# Weights are smooth: they are interpolated to ten times the grid's points, so that borders are sharp.
_ZOOM = ((SIDE - 1) * 10 + 1) / SIDE
GATE_TITLES = {"linear": "linear gate", "quadratic": "quadratic gate", "kernel": "Gaussian-kernel gate"}


def regions_table(panels: Sequence[Panel]) -> Table:
    """The part of the square, in percent, where each gate's largest weight is that of the truly leading expert."""
    table = Table(title=f"Share of the square where the true leader leads: {_which(panels)}", box=SIMPLE)
    table.add_column("design")
    table.add_column("n", justify="right")
    for gate in GATES:
        table.add_column(GATE_TITLES[gate], justify="right")
    for design in DESIGNS:
        mine = [panel for panel in panels if panel.design == design]
        table.add_row(design, str(mine[0].n), *(f"{_share(panel)} (l1 {panel.l1:.3f})" for panel in mine))
    return table


def _which(panels: Sequence[Panel]) -> str:
    return f"in each panel the median of {panels[0].reps} replications by l1 error"


def regions_figure(panels: Sequence[Panel], path: Path) -> Path:
    """Draw the nine panels into a file: a row for each design, a column for each gate.

    Colours show the expert of largest estimated weight, lines the true borders. Every panel is the replication with
    the median l1 error.
    """
    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(9.2, 9.9), layout="constrained")
        axes: Any = figure.subplots(len(DESIGNS), len(GATES), sharex=True, sharey=True)
        for panel, place in zip(panels, axes.ravel(), strict=True):
            _draw(place, panel)
        for place, gate in zip(axes[0], GATES, strict=True):
            place.set_title(f"{GATE_TITLES[gate]}\n{place.get_title()}")
        for place, design in zip(axes[:, 0], DESIGNS.values(), strict=True):
            place.set_ylabel(f"{design.name} design, n = {max(design.sizes):,}\n$x_2$")
        for place in axes[-1]:
            place.set_xlabel("$x_1$")
        handles: list[Any] = [Patch(color=colour, label=f"expert {m + 1}") for m, colour in enumerate(COLOURS[:3])]
        handles.append(Line2D([], [], color="black", linewidth=1.6, label="true border, true leader's number"))
        figure.legend(handles=handles, loc="outside upper center", ncols=4)
        figure.supxlabel(_which(panels), fontsize=10)
        return save_figure(figure, path)


def _draw(place: Axes, panel: Panel) -> None:
    fine = np.stack([zoom(panel.weights[:, :, m], _ZOOM, order=3) for m in range(3)], axis=2)
    axis = np.linspace(-1.0, 1.0, len(fine))
    box = (-1.0, 1.0, -1.0, 1.0)
    colours = ListedColormap(COLOURS[:3])
    place.imshow(fine.argmax(axis=2), extent=box, origin="lower", cmap=colours, vmin=0, vmax=2, interpolation="none")
    true = _true_leader(DESIGNS[panel.design], axis)
    for m in range(3):
        for colour, width in (("white", 3.2), ("black", 1.5)):  # dark on light: seen on every colour
            place.contour(axis, axis, true == m, levels=[0.5], colors=colour, linewidths=width)
        # The number stands where its region is widest.
        room = distance_transform_edt(np.pad(true == m, 1))[1:-1, 1:-1]
        i, j = np.unravel_index(int(room.argmax()), true.shape)
        text = place.text(axis[j], axis[i], str(m + 1), ha="center", va="center", fontsize=13, fontweight="bold")
        text.set_path_effects([withStroke(linewidth=3, foreground="white")])
    place.set_title(f"{_share(panel)} right", fontsize=10)
    place.set_xticks([-1, 0, 1])
    place.set_yticks([-1, 0, 1])
    for spine in place.spines.values():
        spine.set_visible(True)


def _true_leader(design: Design, axis: Floats) -> NDArray[np.intp]:
    points = np.stack([grid.ravel() for grid in np.meshgrid(axis, axis)], axis=1)
    leader: NDArray[np.intp] = design.weights(points).argmax(axis=1)
    return leader.reshape(len(axis), len(axis))


def _share(panel: Panel) -> str:
    return f"{100 * panel.agreement:.0f} %"
