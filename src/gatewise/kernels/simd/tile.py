"""The tile: 64 neighbouring candidates that every hot loop takes together, at one observation after another.

A tile is always full, so no loop has a remainder. Where its numbers stay in registers over several observations, half
of it is taken at a time: a strip.
"""

from math import prod

import numpy as np

from gatewise.arrays import Floats
from gatewise.kernels.compiled import compiled, compiled_leaf
from gatewise.kernels.simd.lanes import Lanes, load, store, WIDTH

Strip = tuple[Lanes, Lanes, Lanes, Lanes]

TILE = 64
STRIP = 4 * WIDTH
SPAN = 16  # observations whose residuals are held at a time: TILE x SPAN of them fit the first-level cache
MEMBERS = 8  # tiles of a unit, which meet the same stretch of a table while it is in that cache


def aligned(*shapes: tuple[int, ...]) -> list[Floats]:
    """Arrays, not filled, each of which starts a cache line, so that no load of lanes crosses one.

    They share one allocation: what was given back as a whole is more often had again without new pages.
    """
    starts = np.cumsum([0] + [-(-prod(shape) // WIDTH) * WIDTH for shape in shapes])
    room = np.empty(starts[-1] + WIDTH)
    first = -(room.ctypes.data // room.itemsize) % WIDTH
    return [room[first + at :][: prod(shape)].reshape(shape) for at, shape in zip(starts, shapes, strict=False)]


@compiled
def aligned_rows(n_rows: int, n_columns: int) -> Floats:
    """The same in compiled code, two-dimensional."""
    room = np.empty(n_rows * n_columns + WIDTH)
    start = -(room.ctypes.data // 8) % WIDTH
    return room[start : start + n_rows * n_columns].reshape(n_rows, n_columns)


@compiled_leaf
def load_strip(array: Floats, at: int) -> Strip:
    return load(array, at), load(array, at + WIDTH), load(array, at + 2 * WIDTH), load(array, at + 3 * WIDTH)


@compiled_leaf
def store_strip(array: Floats, at: int, x: Strip) -> None:
    store(array, at, x[0])
    store(array, at + WIDTH, x[1])
    store(array, at + 2 * WIDTH, x[2])
    store(array, at + 3 * WIDTH, x[3])
