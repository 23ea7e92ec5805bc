"""The layer for few tokens without a gradient, as in decoding: two kernels for one token, four for more."""

from typing import NamedTuple

import torch
from torch import Tensor

from gatewise.nn.fused.backend import blocks_of, EARLY, early, next_power_of_two, triton
from gatewise.nn.fused.kernels.few_rows import few_down_kernel, few_up_kernel, gather_kernel, rank_kernel
from gatewise.nn.fused.one_token import one_token

FEW = 256  # tokens up to which reading the weights takes longer than anything else


class WeightTiles(NamedTuple):
    """Rows and depth of a block of weights, warps of a program, and blocks in flight; found by measurement."""

    rows: int
    depth: int
    warps: int
    stages: int


class FewTiles(NamedTuple):
    """The tiles of both products."""

    up: WeightTiles
    down: WeightTiles


TILES = {  # by the number of tokens that a program takes at once
    16: FewTiles(up=WeightTiles(64, 128, 4, 2), down=WeightTiles(64, 128, 4, 4)),
    32: FewTiles(up=WeightTiles(64, 64, 4, 3), down=WeightTiles(64, 64, 4, 4)),
    64: FewTiles(up=WeightTiles(64, 64, 4, 3), down=WeightTiles(128, 64, 4, 3)),
    128: FewTiles(up=WeightTiles(128, 64, 8, 4), down=WeightTiles(128, 64, 8, 6)),
}


class Order(NamedTuple):
    """The assignments by expert: positions (T, K), rows (T K,), starts (M + 1,), as `rank_kernel` has them."""

    positions: Tensor
    rows: Tensor
    starts: Tensor


def ordered(indices: Tensor, n_experts: int) -> Order:
    """The order of few assignments by expert, in one kernel."""
    n, lines = indices.numel(), 16
    positions = torch.empty(indices.shape, dtype=torch.int32, device=indices.device)
    rows, starts = positions.new_empty(n), positions.new_empty(n_experts + 1)
    grid = (triton.cdiv(n, lines) + triton.cdiv(n_experts + 1, lines),)
    width = min(next_power_of_two(n), 256)
    rank_kernel[grid](indices, positions, rows, starts, n, n_experts, lines, width, EARLY)
    return Order(positions, rows, starts)


def tokens_at_once(tokens: int, k: int, n_experts: int) -> int:
    """Tokens of a program at once: twice the mean of an expert, so that few experts read their weights twice.

    >>> [tokens_at_once(n, 8, 64) for n in (1, 64, 256)]
    [16, 16, 64]
    """
    return min(max(next_power_of_two(-(-2 * tokens * k // n_experts)), 16), 128)


def forward(x: Tensor, indices: Tensor, weights: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
    """As `gatewise.nn.fused.fused_swiglu`, without a gradient: every expert reads its weights once."""
    (tokens, k), (n_experts, d, h) = indices.shape, down.shape
    if tokens == 1:
        return one_token(x, indices, weights, gate_up, down)
    hidden, rows, out = x.new_empty(tokens * k, h), x.new_empty(tokens * k, d), torch.empty_like(x)
    order = ordered(indices, n_experts)
    at_once = tokens_at_once(tokens, k, n_experts)
    up_rows(x, order, gate_up, hidden, at_once, TILES[at_once].up)
    down_rows(hidden, order, down, rows, at_once, TILES[at_once].down)
    width = min(next_power_of_two(d), 1024)
    gather_kernel[(tokens, triton.cdiv(d, width))](
        rows, order.positions, weights, out, d, k, width, EARLY, **early(EARLY)
    )
    return out


def up_rows(x: Tensor, order: Order, gate_up: Tensor, hidden: Tensor, at_once: int, tiles: WeightTiles) -> None:
    """hidden (T K, h) by expert: silu(gate x) * (up x)."""
    d, h, (n_experts, k) = x.shape[1], hidden.shape[1], (len(gate_up), order.positions.shape[1])
    few_up_kernel[(triton.cdiv(h, tiles.rows), n_experts)](
        x, order.rows, order.starts, blocks_of(gate_up.view(-1, h, d), [1, tiles.rows, tiles.depth]), hidden, k, d, h,
        tiles.rows, at_once, tiles.depth, tiles.stages, EARLY, num_warps=tiles.warps, **early(EARLY),
    )  # fmt: skip


def down_rows(hidden: Tensor, order: Order, down: Tensor, rows: Tensor, at_once: int, tiles: WeightTiles) -> None:
    """rows (T K, d) by expert: down hidden."""
    d, h = rows.shape[1], hidden.shape[1]
    few_down_kernel[(triton.cdiv(d, tiles.rows), len(down))](
        hidden, order.starts, blocks_of(down, [1, tiles.rows, tiles.depth]), rows, d, h,
        tiles.rows, at_once, tiles.depth, tiles.stages, EARLY, num_warps=tiles.warps, **early(EARLY),
    )  # fmt: skip


few_swiglu = torch.library.custom_op("gatewise::few_swiglu", forward, mutates_args=())


@few_swiglu.register_fake
def _(x: Tensor, _indices: Tensor, _weights: Tensor, _gate_up: Tensor, _down: Tensor) -> Tensor:
    return torch.empty_like(x)
