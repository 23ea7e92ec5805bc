"""The demonstration's table and figure."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from numpy.typing import NDArray
from rich.table import Table

from gatewise.experiments.demo import DemoRow, gate_model
from gatewise.report.style import COLOURS, RC

Floats = NDArray[np.float64]


def demo_table(rows: Sequence[DemoRow]) -> Table:
    """The demonstration's figures as a table for the terminal."""
    table = Table(title="Distance to the truth on the paper's nonlinear design")
    table.add_column("prediction")
    table.add_column("RMSE", justify="right")
    table.add_column("experts asked per row", justify="right")
    best = min(row.rmse for row in rows)
    for row in rows:
        # The dense gate is the truth of this design: what is left is rounding.
        rmse = f"{row.rmse:.4f}" if row.rmse > 1e-9 else "0 (the truth)"
        style = "bold" if row.rmse == best else None
        table.add_row(row.method, rmse, f"{row.evaluations_per_row:g}", style=style)
    return table


def demo_figure(path: Path, resolution: int = 241) -> Path:
    """Draw the regions of the gate, its Top-2 weights and the Top-1 error over [-1, 1]^2."""
    axis = np.linspace(-1.0, 1.0, resolution)
    X = np.stack([grid.ravel() for grid in np.meshgrid(axis, axis)], axis=1)
    truth = gate_model(None).predict(X)
    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(10.5, 4.0), layout="constrained")
        left, middle, right = figure.subplots(1, 3, sharey=True)
        _regions(left, axis, gate_model(1).gate_weights(X))
        _mixing(middle, axis, gate_model(2).gate_weights(X))
        error = np.abs(gate_model(1).predict(X) - truth).reshape(resolution, resolution)
        shade = right.pcolormesh(axis, axis, error, cmap="cividis", rasterized=True)
        right.set_title("|error| of Top-1: largest at the borders")
        figure.colorbar(shade, ax=right, label="distance to the truth", shrink=0.73)
        for panel in (left, middle, right):
            panel.set_aspect("equal")
            panel.set_xlabel("$x_1$")
            panel.set_xticks([-1, 0, 1])
            panel.set_yticks([-1, 0, 1])
        left.set_ylabel("$x_2$")
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path)
    return path


def _regions(panel: Axes, axis: Floats, weights: Floats) -> None:
    leader = weights.argmax(axis=1).reshape(axis.size, axis.size)
    panel.pcolormesh(axis, axis, leader, cmap=ListedColormap(COLOURS[:3]), vmin=0, vmax=2, rasterized=True)
    panel.set_title("Top-1: who is asked where")
    handles = [Patch(color=colour, label=f"expert {m + 1}") for m, colour in enumerate(COLOURS[:3])]
    panel.legend(handles=handles, loc="lower left", frameon=True, framealpha=0.9, fontsize=8)


def _mixing(panel: Axes, axis: Floats, weights: Floats) -> None:
    colours = np.array([matplotlib.colors.to_rgb(colour) for colour in COLOURS[:3]])
    panel.imshow((weights @ colours).reshape(axis.size, axis.size, 3), origin="lower", extent=(-1.0, 1.0, -1.0, 1.0))
    panel.set_title("Top-2: colours mixed by weight")
