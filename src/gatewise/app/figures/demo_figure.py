"""The demonstration's table and figure."""

from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from numpy.typing import NDArray
from rich.table import Table

from gatewise.app.figures.style import COLOURS, RC, save_figure
from gatewise.app.files import Output
from gatewise.arrays import Floats
from gatewise.estimators import RouterAggregator
from gatewise.paper.demo import Demo, DESIGN


def demo_table(demo: Demo) -> Table:
    """The demonstration's figures as a table for the terminal."""
    table = Table(
        title="Distance to the truth, the paper's quadratic design",
        caption=f"learned from 400 noisy rows, {demo.n_candidates:,} candidate gates",
    )
    table.add_column("prediction")
    table.add_column("RMSE", justify="right")
    table.add_column("experts asked per row", justify="right")
    best = min(row.rmse for row in demo.rows)
    for row in demo.rows:
        style = "bold" if row.rmse == best else None
        table.add_row(row.method, f"{row.rmse:.3f}", f"{row.evaluations_per_row:g}", style=style)
    return table


def demo_figure(demo: Demo, place: Path | Output, resolution: int = 161) -> Path:
    """Draw three panels into a file: true regions, learned regions, and the leading candidates' weights over time."""
    axis = np.linspace(-1.0, 1.0, resolution)
    X = np.stack([grid.ravel() for grid in np.meshgrid(axis, axis)], axis=1)
    shape = (resolution, resolution)
    true = DESIGN.weights(X).argmax(axis=1).reshape(shape)
    learned = demo.router.gate_weights(X).argmax(axis=1).reshape(shape)
    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(11.0, 3.9), layout="constrained")
        left, middle, right = figure.subplots(1, 3, width_ratios=(1, 1, 1.25))
        _regions(left, axis, true, "Where each expert leads: truth")
        _regions(middle, axis, learned, "learned from 400 rows (white: true border)")
        for expert in range(3):
            middle.contour(axis, axis, true == expert, levels=[0.5], colors="white", linewidths=1.2)
        handles = [Patch(color=colour, label=f"expert {m + 1}") for m, colour in enumerate(COLOURS[:3])]
        left.legend(handles=handles, loc="lower left", frameon=True, framealpha=0.9, fontsize=8)
        _weights(right, demo.router, demo.n_candidates)
        return save_figure(figure, place)


def _regions(panel: Axes, axis: Floats, leader: NDArray[np.intp], title: str) -> None:
    panel.pcolormesh(axis, axis, leader, cmap=ListedColormap(COLOURS[:3]), vmin=0, vmax=2, rasterized=True)
    panel.set_title(title)
    panel.set_aspect("equal")
    panel.set_xlabel("$x_1$")
    panel.set_ylabel("$x_2$")
    panel.set_xticks([-1, 0, 1])
    panel.set_yticks([-1, 0, 1])


def _weights(panel: Axes, router: RouterAggregator, n_candidates: int) -> None:
    steps = np.arange(len(router.weights_path_))
    for path in router.weights_path_.T:
        panel.plot(steps, path, color=COLOURS[0], alpha=0.5, linewidth=1)
    panel.axhline(1 / n_candidates, color="0.4", linestyle="--", linewidth=1)
    panel.text(steps[-1], 1 / n_candidates, "where all began ", ha="right", va="bottom", fontsize=8, color="0.3")
    panel.set_yscale("log")
    panel.set_xlabel("observations seen in the aggregation block")
    panel.set_ylabel("weight")
    panel.set_title(f"Ten leading candidates of {n_candidates:,}")
