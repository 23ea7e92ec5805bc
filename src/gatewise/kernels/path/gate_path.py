"""The door of this folder: a path of gates, one for each penalty, and the mixtures of a gate at any rows."""

from typing import NamedTuple

import numpy as np

from gatewise.arrays import Floats, Indices
from gatewise.kernels.compiled import compiled_fma, inner_fma
from gatewise.kernels.path.packed_rows import GatePoint, mix, PackedRows
from gatewise.kernels.path.preconditioner import Preconditioner
from gatewise.kernels.path.truncated_newton import coarse, minimise, NewtonState, PLACE, RADIUS, Setting
from gatewise.kernels.simd.tile import TILE
from gatewise.kernels.top_k import comes_after


class PathWork(NamedTuple):
    """Room for the fit of a path: the point, the preconditioner and the state of Newton's method."""

    point: GatePoint
    preconditioner: Preconditioner
    state: NewtonState


def reordered(path: Floats, experts: Indices, columns: Indices) -> Floats:
    """A path (L, size) with its M experts, and the q columns of its linear part, in these orders.

    >>> reordered(np.array([[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]]), np.array([1, 0]), np.array([1, 0]))
    array([[3., 4., 1., 2., 6., 5.]])
    """
    cut = path.shape[1] - len(columns)
    theta = path[:, :cut].reshape(len(path), len(experts), cut // len(experts))[:, experts]
    return np.concatenate([theta.reshape(len(path), cut), path[:, cut:][:, columns]], axis=1)


@compiled_fma
def follow(
    rows: PackedRows,
    offset: Floats,
    kind: int,
    penalties: Floats,
    linear_penalties: Floats,
    tolerance: float,
    radius: float,
    work: PathWork,
    path: Floats,
) -> bool:
    """Fill path (L, size) with the parameters for pairs of penalties (L,), each fit starting near the one before it.

    On entry ``path`` holds a path that is known, or zeros: the first fit begins where that begins, and each later one
    at the fit before it plus what the known path adds from one pair to the next. False if the caller has to judge the
    mixture first and call again, as `minimise` says. A state whose numbers are zero begins a path, and every fit
    begins with a trust region of the given radius.
    """
    state = work.state
    numbers = state.numbers
    while numbers[PLACE] < penalties.size:
        place = int(numbers[PLACE])
        if numbers[RADIUS] == 0.0:
            numbers[RADIUS] = radius
            for k in range(state.x.size if place == 0 else 0):
                state.trial[k] = coarse(path[0, k])
        setting = Setting(offset, kind, penalties[place], linear_penalties[place], tolerance)
        if not minimise(rows, setting, work.point, work.preconditioner, state):
            return False
        for k in range(state.x.size):
            ahead = path[place + 1, k] - path[place, k] if place + 1 < penalties.size else 0.0
            state.trial[k] = coarse(state.x[k] + ahead)
            path[place, k] = state.x[k]
        for k in range(PLACE):
            numbers[k] = 0.0
        numbers[PLACE] += 1.0
    return True


@compiled_fma
def mixtures(rows: PackedRows, offset: Floats, path: Floats, ks: Indices, point: GatePoint, out: Floats) -> None:
    """The mixtures of every gate of a path (L, size) at the active tiles of rows, out (L, 1 + K, 64 T).

    First that of all experts, with the linear part; then, for every k of ks (K,), that of the k experts of largest
    weight, without it.
    """
    for place in range(path.shape[0]):
        mix(rows, offset, path[place], point)
        for tile in range(rows.n_tiles):
            if rows.active[tile]:
                for i in range(tile * TILE, (tile + 1) * TILE):
                    out[place, 0, i] = point.mixture[i]
                for number in range(ks.size):
                    _sparse_mixtures(rows, point.gates, tile, ks[number], out[place, number + 1])


@inner_fma
def _sparse_mixtures(rows: PackedRows, gates: Floats, tile: int, k: int, out: Floats) -> None:
    """The mixtures of the k experts of largest weight; of equal weights the first expert's comes first."""
    for i in range(TILE):
        last, last_index, mass, mixed = np.inf, -1.0, 0.0, 0.0
        for _ in range(k):
            best, best_index = -1.0, -1
            for m in range(rows.n_experts):
                g = gates[(tile * rows.n_experts + m) * TILE + i]
                if g > best and comes_after(g, float(m), last, last_index):
                    best, best_index = g, m
            last, last_index = best, float(best_index)
            mass += best
            mixed += best * rows.experts[(tile * rows.n_experts + best_index) * TILE + i]
        out[tile * TILE + i] = mixed / mass
