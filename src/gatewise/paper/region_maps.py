"""`fig:all-gating-results`: where each gate says that each expert leads, and where it does.

Nine panels, designs by gates, at the settings of `table1.STATED` and the larger n. The true leader is the argmax of
the true gate. The panels show the first replication; agreement is the fraction of a grid on the square where the
estimated leader is the true one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gatewise.arrays import as_count, Floats
from gatewise.paper.designs import DESIGNS
from gatewise.paper.runner import Runner
from gatewise.paper.table1 import ALL_ROWS, draw, learn_kernel, learn_net, SETTINGS, STATED
from gatewise.paper.table1_gates import GATES, KERNELS, NETS

NAME = "regions/2"  # the second number goes up when a replication's result would change
SIDE = 65
AXIS = np.linspace(-1.0, 1.0, SIDE)
GRID = np.stack([axis.ravel() for axis in np.meshgrid(AXIS, AXIS)], axis=1)  # x1 runs fastest


@dataclass(frozen=True)
class Panel:
    """One gate on one design: its weights on the grid (SIDE, SIDE, 3), rows by x2, in the first replication."""

    design: str
    gate: str
    n: int
    readout: str
    setting: str
    agreement: float
    agreement_sd: float
    reps: int
    weights: Floats

    def record(self) -> dict[str, Any]:
        """The panel without its weights, for JSON."""
        return {name: value for name, value in vars(self).items() if name != "weights"}


class PanelKind(NamedTuple):
    """Which gate on which design is shown, at which sample size, setting and readout."""

    design: str
    gate: str
    n: int
    setting: str
    readout: str


def replicate(
    design: str, gate: str, n: int, setting: str, readout: str, replication: int, seed: int
) -> dict[str, Any]:
    """The agreement, and in the first replication the learned weights on the grid, (SIDE^2, 3), else None."""
    chosen = DESIGNS[design]
    sample = draw(chosen, n, replication, seed)
    if gate == "kernel":
        weights = KERNELS[design].weights(GRID, learn_kernel(design, sample))
    else:
        learned = learn_net(NETS[design, gate], sample, SETTINGS[setting], chosen.noise_sd)
        if readout == "aggregate":
            weights = np.concatenate([learned.weights(part) for part in np.split(GRID, SIDE)])
        else:
            theta = learned.nearest(sample.X, sample.F, learned.weights(sample.X))
            weights = learned.described.gate.weights(GRID, theta)
    agreement = (weights.argmax(axis=1) == chosen.weights(GRID).argmax(axis=1)).mean()
    return {"agreement": float(agreement), "weights": weights if replication == 0 else None}


def run(reps: int = 1, seed: int = 0, runner: Runner | None = None) -> list[Panel]:
    """The nine panels, rows of the figure first; the agreement is averaged over ``reps`` replications."""
    as_count(reps, "reps")
    kinds = [_kind(design, gate) for design in DESIGNS for gate in GATES]
    tasks = [(*kind, r, seed) for r in range(reps) for kind in kinds]
    results = (runner or Runner()).run(NAME, replicate, tasks)
    return [_panel(kind, results[i :: len(kinds)]) for i, kind in enumerate(kinds)]


def _kind(design: str, gate: str) -> PanelKind:
    setting, readout = (ALL_ROWS, "erm") if gate == "kernel" else STATED[design]
    return PanelKind(design, gate, max(DESIGNS[design].sizes), setting, readout)


def _panel(kind: PanelKind, results: Sequence[dict[str, Any]]) -> Panel:
    agreements = np.array([result["agreement"] for result in results])
    return Panel(
        **kind._asdict(),
        agreement=float(agreements.mean()),
        agreement_sd=float(agreements.std(ddof=1)) if len(agreements) > 1 else 0.0,
        reps=len(agreements),
        weights=np.array(results[0]["weights"]).reshape(SIDE, SIDE, 3),
    )
