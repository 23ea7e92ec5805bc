"""Which row of the padded, sorted buffer belongs to which assignment: the plan that all kernels share."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

BLOCK = 128  # rows of a tile; every expert's rows start at a multiple of it


class RowPlan(NamedTuple):
    """The assignments (t, k) sorted by expert, each expert's rows padded to whole tiles of `BLOCK` rows.

    ``rows`` (R,) is the assignment t * K + k of a row, -1 for padding; ``positions`` (T, K) its inverse, -1 for a
    dropped assignment; ``starts`` (M,) and ``counts`` (M,) an expert's first row and number of assignments;
    ``experts`` (R / BLOCK,) the expert of a tile; ``tiles`` (1,) the number of tiles in use. All int32. R depends on
    the shapes alone, so nothing waits for the device.
    """

    rows: Tensor
    positions: Tensor
    starts: Tensor
    counts: Tensor
    experts: Tensor
    tiles: Tensor


def capacity(assignments: int, n_experts: int) -> int:
    """Rows that suffice whatever the routing: every expert wastes less than one tile.

    >>> capacity(1000, 8)
    1920
    """
    return (assignments // BLOCK + min(assignments, n_experts)) * BLOCK
