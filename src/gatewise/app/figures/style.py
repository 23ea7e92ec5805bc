"""The colours and settings of all figures, for colour-blind readers, too, and how they are saved."""

from pathlib import Path
from typing import Any

from gatewise.app.files import as_output, has_mark, MARK, Output

# Okabe and Ito's palette, without black. Light blue comes late: on a map a paled blue looks like it.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#F0E442")

RC: Any = {
    "figure.dpi": 110,
    "savefig.dpi": 160,
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
}


def save_figure(figure: Any, place: Path | Output) -> Path:
    """Save a figure as a PNG file that says that Gatewise made it; the path."""
    output = as_output(place, [".png"])
    with output.replacing(has_mark) as part:
        figure.savefig(part, metadata={"Software": MARK.decode()})
    return output.path
