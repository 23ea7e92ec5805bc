"""How the products are cut into tiles: found by measurement on an H200, for wide and for narrow experts."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import Tensor

from gatewise.nn.fused.backend import processors
from gatewise.nn.fused.row_plan import BLOCK


class Tiles(NamedTuple):
    """Columns and depth of a tile, tiles of rows per group, and how one program works through its tiles.

    ``flatten`` loads the next tile's first blocks while the last tile is stored.
    """

    columns: int
    depth: int
    group: int
    stages: int
    flatten: bool = False

    def options(self, tensor: Tensor) -> dict[str, Any]:
        """The keywords of a kernel of `kernels.matmul` on the tensor's device, one program per multiprocessor."""
        return {
            "BM": BLOCK,
            "BN": self.columns,
            "BK": self.depth,
            "GROUP": self.group,
            "PROGRAMS": processors(tensor),
            "FLATTEN": self.flatten,
            "num_warps": 8,
            "num_stages": self.stages,
        }


class ProductTiles(NamedTuple):
    """The tiles of each product; ``gather`` says whether the first reads the tokens in place or a sorted copy."""

    up: Tiles
    down: Tiles
    back: Tiles
    outer: Tiles
    gather: bool


WIDE = ProductTiles(
    up=Tiles(columns=128, depth=64, group=12, stages=3, flatten=True),
    down=Tiles(columns=256, depth=64, group=8, stages=3, flatten=True),
    back=Tiles(columns=256, depth=64, group=8, stages=3),
    outer=Tiles(columns=256, depth=64, group=16, stages=3),
    gather=False,
)
NARROW = ProductTiles(
    up=Tiles(columns=128, depth=64, group=8, stages=4),
    down=Tiles(columns=256, depth=64, group=16, stages=4, flatten=True),
    back=Tiles(columns=256, depth=64, group=8, stages=4),
    outer=Tiles(columns=256, depth=64, group=16, stages=3),
    gather=True,
)


def choose(h: int) -> ProductTiles:
    """The tiles for experts of hidden size h.

    A sorted copy of the tokens costs bytes in proportion to d, reading them in place slows a product in proportion to
    d h: the copy pays for itself from about h = 1,000 on.
    """
    return NARROW if h < 1000 else WIDE
