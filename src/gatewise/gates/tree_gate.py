"""Scores that are constant on boxes: the cells of a tree of cuts."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from gatewise.arrays import as_rows, Floats
from gatewise.gates.score import ScoreGate


@dataclass(frozen=True)
class TreeGate(ScoreGate):
    """Scores that are constant on the cells that cuts of single columns divide the space into.

    Cut j compares the column cuts[j][0] with the threshold cuts[j][1]; every cell of the earlier cuts is cut, so J
    cuts give 2^J cells, and a feature is 1 in its cell and 0 elsewhere. By its name, "tree", `MoERegressor` learns
    gates of boosted trees, which choose their own cuts.

    >>> TreeGate(2, cuts=((0, 0.0), (1, 0.5))).features(np.array([[-1.0, 0.0], [1.0, 0.0], [1.0, 1.0]]))
    array([[1., 0., 0., 0.],
           [0., 0., 1., 0.],
           [0., 0., 0., 1.]])
    """

    cuts: tuple[tuple[int, float], ...] = ((0, 0.0),)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.cuts or any(len(cut) != 2 or int(cut[0]) != cut[0] or cut[0] < 0 for cut in self.cuts):
            raise ValueError(f"cuts must hold pairs (column, threshold), not {self.cuts!r}")
        object.__setattr__(self, "cuts", tuple((int(column), float(value)) for column, value in self.cuts))

    def theta_shape(self, d: int) -> tuple[int, int]:
        last = max(column for column, _ in self.cuts)
        if last >= d:
            raise ValueError(f"cuts name column {last}, but there are {d} columns, from 0 on")
        return self.n_experts - 1, 2 ** len(self.cuts)

    def features(self, X: Any) -> Floats:
        rows = as_rows(X)
        self.theta_shape(rows.shape[1])
        cell = np.zeros(len(rows), dtype=np.intp)
        for column, threshold in self.cuts:
            cell = 2 * cell + (rows[:, column] > threshold)
        return np.asarray(np.eye(2 ** len(self.cuts))[cell])
