"""`fig:all-gating-results`: where each gate says that each expert leads, and where it does.

Nine panels, designs by gates, at the settings of `table1.STATED` and the larger n. The true leader is the argmax of
the true gate. A panel shows the replication whose l1 error in `tab:mc-summary` is the median of all (the lower one of
two); agreement is the fraction of a grid on the square where its estimated leader is the true one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gatewise.arrays import as_count, Floats
from gatewise.paper import table1
from gatewise.paper.designs import DESIGNS
from gatewise.paper.runner import Runner
from gatewise.paper.table1 import ALL_ROWS, draw, learn_kernel, learn_net, SETTINGS, STATED
from gatewise.paper.table1_gates import GATES, KERNELS, NETS

NAME = "regions/3"  # the second number goes up when a replication's result would change
SIDE = 65
AXIS = np.linspace(-1.0, 1.0, SIDE)
GRID = np.stack([axis.ravel() for axis in np.meshgrid(AXIS, AXIS)], axis=1)  # x1 runs fastest


@dataclass(frozen=True)
class Panel:
    """One gate on one design: its weights on the grid (SIDE, SIDE, 3), rows by x2, in the median replication.

    ``shown`` is the number of that replication out of ``reps``, ``l1`` its error in `tab:mc-summary`.
    """

    design: str
    gate: str
    n: int
    readout: str
    setting: str
    agreement: float
    reps: int
    shown: int
    l1: float
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
    """The agreement, and the learned weights on the grid, (SIDE^2, 3), of one replication."""
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
    return {"agreement": float(agreement), "weights": weights}


def run(reps: int = 100, seed: int = 0, runner: Runner | None = None) -> list[Panel]:
    """The nine panels, rows of the figure first, each the median of ``reps`` replications of Table 1 by l1 error."""
    as_count(reps, "reps")
    runner = runner or Runner()
    kinds = [_kind(design, gate) for design in DESIGNS for gate in GATES]
    cells = [(kind.design, kind.gate, kind.n, kind.setting) for kind in kinds]
    results = runner.run(table1.NAME, table1.replicate, [(*cell, r, seed) for r in range(reps) for cell in cells])
    errors = [[own[kind.readout][0] for own in results[i :: len(kinds)]] for i, kind in enumerate(kinds)]
    shown = [median_place(own) for own in errors]
    maps = runner.run(NAME, replicate, [(*kind, r, seed) for kind, r in zip(kinds, shown, strict=True)])
    return [
        Panel(
            **kind._asdict(),
            agreement=found["agreement"],
            reps=reps,
            shown=place,
            l1=own[place],
            weights=np.array(found["weights"]).reshape(SIDE, SIDE, 3),
        )
        for kind, own, place, found in zip(kinds, errors, shown, maps, strict=True)
    ]


def median_place(values: Sequence[float]) -> int:
    """The place of the median, the lower one of two.

    >>> median_place([3.0, 1.0, 2.0, 9.0])
    2
    """
    return int(np.argsort(values, kind="stable")[(len(values) - 1) // 2])


def _kind(design: str, gate: str) -> PanelKind:
    setting, readout = (ALL_ROWS, "erm") if gate == "kernel" else STATED[design]
    return PanelKind(design, gate, max(DESIGNS[design].sizes), setting, readout)
