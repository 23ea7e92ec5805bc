"""A gate of one's own in a net, in `MoERegressor` and on the page: ``python -m examples.own_gate [FOLDER]``.

One expert is right inside a circle, the other outside. A gate that looks at the distance from the centre is fifteen
lines; nets, Top-K, the learned list, the verdict and the page come with it.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

import gatewise as gw
from gatewise.app.models.fitting import fit_table
from gatewise.app.models.tables import training_table
from gatewise.app.page.findings import find
from gatewise.app.page.page_file import write_page
from gatewise.experts import ColumnExpert
from gatewise.gates import register_gate, ScoreGate


@dataclass(frozen=True)
class RingGate(ScoreGate):
    """Score beta |x - center|^2 + alpha: regions are disks and what lies around them."""

    center: float = 0.0
    columns: int = 2

    def features(self, X):
        squares = ((X[:, : self.columns] - self.center) ** 2).sum(axis=1)
        return np.column_stack([squares, np.ones(len(X))])


register_gate("ring", RingGate)  # from here on "ring" is a name like "linear"


def sample(n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Two forecasts, one right inside the circle of radius 0.6, the other outside."""
    X = rng.uniform(-1.0, 1.0, (n, 2))
    inner, outer = 2.0 + X[:, 0], -1.0 + np.sin(3.0 * X[:, 1])
    truth = np.where((X**2).sum(axis=1) < 0.36, inner, outer)
    columns = {"east": X[:, 0], "north": X[:, 1], "inner": inner, "outer": outer}
    return pd.DataFrame({**columns, "level": truth + 0.3 * rng.normal(size=n)})


def in_a_net(frame: pd.DataFrame) -> float:
    """The share of rows whose better expert leads, after aggregation over a net of ring gates."""
    X = frame[["east", "north"]].to_numpy()
    experts = [("inner", lambda X: 2.0 + X[:, 0]), ("outer", lambda X: -1.0 + np.sin(3.0 * X[:, 1]))]
    gate = RingGate(2)
    net = gate.net([np.linspace(-30.0, 0.0, 31), np.linspace(0.0, 12.0, 25)], d=2)
    router = gw.RouterAggregator(experts, gate, net, random_state=0).fit(X, frame["level"])
    inside = (X**2).sum(axis=1) < 0.36
    return float(((router.gate_weights(X)[:, 0] > 0.5) == inside).mean())


def in_the_list() -> gw.MoERegressor:
    """The learned list with the registered gate beside the linear one."""
    experts = [("inner", ColumnExpert("inner")), ("outer", ColumnExpert("outer"))]
    return gw.MoERegressor(experts, gates=["linear", "ring"], k=None, random_state=0)


def main(folder: Path) -> None:
    """Run all three and print what came out."""
    frame = sample(800, np.random.default_rng(0))
    print(f"net of 775 ring gates: the right expert leads at {in_a_net(frame):.0%} of the rows")
    model = in_the_list()
    saved = fit_table(model, training_table(frame, "level"), None)
    print(f"MoERegressor: {model.verdict_}")
    folder.mkdir(parents=True, exist_ok=True)
    print(f"page: {write_page(find(saved, frame), folder / 'own_gate.html', 'ring gate', 'made-up table')}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "out"))
