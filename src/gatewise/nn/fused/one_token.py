"""The layer for one token without a gradient, as in decoding one sequence: two kernels."""

from typing import NamedTuple

import torch
from torch import Tensor

from gatewise.nn.fused.backend import EARLY, early, next_power_of_two, triton
from gatewise.nn.fused.kernels.token_products import token_down_kernel, token_up_kernel


class VectorTiles(NamedTuple):
    """Rows and columns of a block of weights, warps of a program, and early blocks of each expert."""

    rows: int
    columns: int
    warps: int
    held: int = 0


TOKEN_UP = VectorTiles(rows=4, columns=2048, warps=4)  # found by measurement, as is what follows


def down_tiles(k: int) -> VectorTiles:
    """The tiles of the second product of K experts: of a thread's 128 registers, blocks that come early take 96.

    256 columns of a row are a warp's 32 reads of 16 bytes, each 4 registers of a thread; their sums take 8.

    >>> down_tiles(8), down_tiles(2)
    (VectorTiles(rows=4, columns=256, warps=4, held=3), VectorTiles(rows=4, columns=512, warps=4, held=5))
    """
    each = 2 if k <= 4 else 1
    return VectorTiles(4, 256 * each, 4, (104 - 8 * each) // (4 * k * each))


def one_token(x: Tensor, indices: Tensor, weights: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
    """As `gatewise.nn.fused.fused_swiglu` for x (1, d), without a gradient."""
    k, h = indices.shape[1], down.shape[2]
    hidden, y = x.new_empty(k, h), torch.empty_like(x)
    token_up(x, indices, weights, gate_up, hidden, TOKEN_UP)
    token_down(hidden, indices, down, y, down_tiles(k))
    return y


def token_up(
    x: Tensor, indices: Tensor, weights: Tensor, gate_up: Tensor, hidden: Tensor, tiles: VectorTiles
) -> None:
    """hidden (K, h): weight * silu(gate x) * (up x)."""
    d, (k, h) = x.shape[1], hidden.shape
    columns = min(tiles.columns, next_power_of_two(d))
    token_up_kernel[(triton.cdiv(h, tiles.rows), k)](
        x, indices, weights, gate_up, hidden, len(gate_up), d, h, tiles.rows, columns, EARLY, num_warps=tiles.warps
    )


def token_down(hidden: Tensor, indices: Tensor, down: Tensor, y: Tensor, tiles: VectorTiles) -> None:
    """y (1, d): the sum over the experts of down hidden."""
    (k, h), (n_experts, d, _) = hidden.shape, down.shape
    held = min(tiles.held, triton.cdiv(h, tiles.columns))
    token_down_kernel[(triton.cdiv(d, tiles.rows),)](
        hidden, indices, down, y, n_experts, d, h, k, held, tiles.rows, tiles.columns, EARLY,
        num_warps=tiles.warps, **early(EARLY),
    )  # fmt: skip
