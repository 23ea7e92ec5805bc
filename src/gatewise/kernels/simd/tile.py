"""The tile: 64 neighbouring candidates that the sweeps take together, at one observation after another.

A tile is always full, so no loop has a remainder. Loops that keep their numbers in registers over several
observations take half a tile at a time, a strip of 32 candidates.
"""

from math import prod

import numpy as np

from gatewise.arrays import Floats
from gatewise.kernels.compiled import inner, leaf
from gatewise.kernels.simd.lanes import Lanes, load, store, WIDTH

Strip = tuple[Lanes, Lanes, Lanes, Lanes]

TILE = 64
STRIP = 4 * WIDTH
SPAN = 16  # observations whose residuals are held at a time: TILE x SPAN residuals fit the first-level cache
MEMBERS = 8  # tiles of a unit, which read the same part of a table while it is in that cache


def aligned(*shapes: tuple[int, ...]) -> list[Floats]:
    """Arrays of these shapes, not filled. Each starts at a cache line, so that no load of eight numbers crosses one.

    They share one allocation, because memory that was freed as a whole is more often reused without new pages.
    """
    starts = np.cumsum([0] + [-(-prod(shape) // WIDTH) * WIDTH for shape in shapes])
    room = np.empty(starts[-1] + WIDTH)
    first = -(room.ctypes.data // room.itemsize) % WIDTH
    return [room[first + at :][: prod(shape)].reshape(shape) for at, shape in zip(starts, shapes, strict=False)]


@inner
def aligned_rows(n_rows: int, n_columns: int) -> Floats:
    """An array (n_rows, n_columns), not filled, that starts at a cache line; for compiled code."""
    room = np.empty(n_rows * n_columns + WIDTH)
    start = -(room.ctypes.data // 8) % WIDTH
    return room[start : start + n_rows * n_columns].reshape(n_rows, n_columns)


@leaf
def load_strip(array: Floats, at: int) -> Strip:
    """The 32 neighbours of a contiguous array from place ``at`` on."""
    return load(array, at), load(array, at + WIDTH), load(array, at + 2 * WIDTH), load(array, at + 3 * WIDTH)


@leaf
def store_strip(array: Floats, at: int, x: Strip) -> None:
    """Write 32 neighbours of a contiguous array from place ``at`` on."""
    store(array, at, x[0])
    store(array, at + WIDTH, x[1])
    store(array, at + 2 * WIDTH, x[2])
    store(array, at + 3 * WIDTH, x[3])
