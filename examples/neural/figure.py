"""The routers' region maps over training: squares of the plane above, characters below."""

from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from examples.neural.language import corpus
from examples.neural.regression import GRID, grid
from gatewise.app.figures.style import COLOURS, RC
from gatewise.paper.designs import DESIGNS

EIGHT = ListedColormap([*COLOURS, "#999999"])
SHOWN = " etaoinshrdlu,.\n"


def draw(plane: dict[int, np.ndarray], text: dict[int, np.ndarray], path: Path) -> None:
    """Write the figure: the true regions and the regressor's maps by step; the language model's below them."""
    with matplotlib.rc_context(RC):
        columns = max(1 + len(plane), len(text))
        figure = Figure(figsize=(2.4 * columns, 5.4), layout="constrained")
        panels = figure.subplots(2, columns)
        truth = DESIGNS["nonlinear"].weights(grid().double().numpy()).argmax(axis=1).reshape(GRID, GRID)
        _plane(panels[0, 0], truth, "truth: expert that leads")
        for panel, (step, labels) in zip(panels[0, 1:], plane.items(), strict=False):
            _plane(panel, labels, f"regressor, step {step}")
        panels[0, 0].set_ylabel("$x_2$")
        for number, (panel, (step, shares)) in enumerate(zip(panels[1], text.items(), strict=False)):
            image = _characters(panel, shares, f"language model, step {step}")
            panel.set_yticklabels(_labels() if number == 0 else [])
        figure.colorbar(image, ax=panels[1, -1], fraction=0.08, label="share of the character's tokens")
        figure.savefig(path)


def _plane(panel: matplotlib.axes.Axes, labels: np.ndarray, title: str) -> None:
    panel.imshow(labels, origin="lower", extent=(-1, 1, -1, 1), cmap=EIGHT, vmin=-0.5, vmax=7.5, interpolation="none")
    panel.set_title(title, fontsize=10)
    panel.set(xticks=[-1, 0, 1], yticks=[-1, 0, 1], xlabel="$x_1$")


def _characters(panel: matplotlib.axes.Axes, shares: np.ndarray, title: str) -> matplotlib.image.AxesImage:
    characters = corpus().characters
    rows = [characters.index(c) for c in SHOWN]
    image = panel.imshow(shares[rows], cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto", interpolation="none")
    panel.set_title(title, fontsize=10)
    panel.set(xticks=range(shares.shape[1]), xticklabels=range(1, shares.shape[1] + 1), xlabel="expert")
    panel.set_yticks(range(len(rows)))
    panel.tick_params(axis="y", labelsize=8)
    return image


def _labels() -> list[str]:
    return [{" ": "space", "\n": "new line"}.get(c, c) for c in SHOWN]
