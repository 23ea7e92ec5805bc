"""The layer for few tokens without a gradient, as in decoding: two kernels for one or two tokens, four for more."""

from typing import NamedTuple

import torch
from torch import Tensor

from gatewise.nn.fused.backend import blocks_of, early, INTERPRETED, next_power_of_two, triton
from gatewise.nn.fused.kernels.few_rows import (
    few_down_kernel,
    few_up_kernel,
    lone_down_kernel,
    lone_up_kernel,
    rank_kernel,
)
from gatewise.nn.fused.kernels.token_rows import combine_kernel

EARLY = not INTERPRETED  # kernels of one call overlap: each starts while the one before it ends
LONE = 2  # tokens up to which experts seldom meet two of them
FEW = 256  # tokens up to which reading the weights takes longer than anything else


class WeightTiles(NamedTuple):
    """Rows and depth of a block of weights, warps of a program, and blocks in flight; found by measurement."""

    rows: int
    depth: int
    warps: int
    stages: int


class FewTiles(NamedTuple):
    """The tiles of both products, for one token or two and for more."""

    lone_up: WeightTiles
    lone_down: WeightTiles
    up: WeightTiles
    down: WeightTiles


TILES = FewTiles(
    lone_up=WeightTiles(8, 1024, 8, 1),
    lone_down=WeightTiles(8, 1024, 8, 2),
    up=WeightTiles(64, 128, 4, 4),
    down=WeightTiles(128, 128, 4, 4),
)


def tokens_at_once(tokens: int, k: int, n_experts: int) -> int:
    """Tokens of a program at once: twice the mean of an expert, so that few experts read their weights twice.

    >>> [tokens_at_once(n, 8, 64) for n in (1, 64, 256)]
    [16, 16, 64]
    """
    return min(max(next_power_of_two(-(-2 * tokens * k // n_experts)), 16), 128)


def forward(x: Tensor, indices: Tensor, weights: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
    """As `gatewise.nn.fused.fused_swiglu`, without a gradient."""
    return (lone if len(x) <= LONE else few)(x, indices, weights, gate_up, down, TILES)


def lone(x: Tensor, indices: Tensor, weights: Tensor, gate_up: Tensor, down: Tensor, tiles: FewTiles) -> Tensor:
    """Every token reads the weights of its own experts."""
    hidden, out = x.new_empty(indices.numel(), down.shape[2]), torch.empty_like(x)
    lone_up(x, indices, gate_up, hidden, tiles.lone_up)
    lone_down(hidden, indices, weights, down, out, tiles.lone_down)
    return out


def lone_up(x: Tensor, indices: Tensor, gate_up: Tensor, hidden: Tensor, tiles: WeightTiles) -> None:
    """hidden (T K, h) by token: silu(gate x) * (up x)."""
    d, h, k = x.shape[1], hidden.shape[1], indices.shape[1]
    lone_up_kernel[(triton.cdiv(h, tiles.rows), len(hidden))](
        x, indices, gate_up, hidden, d, h, len(gate_up),
        k, tiles.rows, min(tiles.depth, next_power_of_two(d)), tiles.stages, EARLY, num_warps=tiles.warps,
    )  # fmt: skip


def lone_down(
    hidden: Tensor, indices: Tensor, weights: Tensor, down: Tensor, out: Tensor, tiles: WeightTiles
) -> None:
    """out (T, d): the weighted sum of down hidden over the experts of a token; ``tiles.rows`` are those of all K."""
    (tokens, k), (n_experts, d, h) = indices.shape, down.shape
    width = next_power_of_two(k)
    rows = max(tiles.rows // width, 1)
    lone_down_kernel[(triton.cdiv(d, rows), tokens)](
        hidden, indices, weights, down, out, d, h, n_experts,
        k, width, rows, min(tiles.depth, next_power_of_two(h)), EARLY, num_warps=tiles.warps, **early(EARLY),
    )  # fmt: skip


class Order(NamedTuple):
    """The assignments by expert: positions (T, K), rows (T K,), starts (M + 1,), as `rank_kernel` gives them."""

    positions: Tensor
    rows: Tensor
    starts: Tensor


def ranked(indices: Tensor, n_experts: int) -> Order:
    """The order of few assignments by expert, in one kernel."""
    labels, n, lines = indices.contiguous(), indices.numel(), 16
    positions = torch.empty(indices.shape, dtype=torch.int32, device=indices.device)
    rows, starts = positions.new_empty(n), positions.new_empty(n_experts + 1)
    grid = (triton.cdiv(n, lines) + triton.cdiv(n_experts + 1, lines),)
    rank_kernel[grid](labels, positions, rows, starts, n, n_experts, lines, min(next_power_of_two(n), 256), EARLY)
    return Order(positions, rows, starts)


def few(x: Tensor, indices: Tensor, weights: Tensor, gate_up: Tensor, down: Tensor, tiles: FewTiles) -> Tensor:
    """Every expert reads its weights once, for all its tokens."""
    (tokens, k), (n_experts, d, h) = indices.shape, down.shape
    order, at_once = ranked(indices, n_experts), tokens_at_once(tokens, k, n_experts)
    hidden, rows, out = x.new_empty(tokens * k, h), x.new_empty(tokens * k, d), torch.empty_like(x)
    up_rows(x, order, gate_up, hidden, k, at_once, tiles.up)
    down_rows(hidden, order, down, rows, at_once, tiles.down)
    width = min(next_power_of_two(d), 1024)
    combine_kernel[(tokens, triton.cdiv(d, width))](
        rows, order.positions, weights, out, d, k, True, width, EARLY, **early(EARLY)
    )
    return out


def up_rows(
    x: Tensor, order: Order, gate_up: Tensor, hidden: Tensor, k: int, at_once: int, tiles: WeightTiles
) -> None:
    """hidden (T K, h) by expert: silu(gate x) * (up x)."""
    d, h = x.shape[1], hidden.shape[1]
    few_up_kernel[(triton.cdiv(h, tiles.rows), len(order.starts) - 1)](
        x, order.rows, order.starts, blocks_of(gate_up.view(-1, h, d), [1, tiles.rows, tiles.depth]), hidden, k, d, h,
        tiles.rows, at_once, tiles.depth, tiles.stages, EARLY, num_warps=tiles.warps, **early(EARLY),
    )  # fmt: skip


def down_rows(hidden: Tensor, order: Order, down: Tensor, rows: Tensor, at_once: int, tiles: WeightTiles) -> None:
    """rows (T K, d) by expert: down hidden."""
    d, h = rows.shape[1], hidden.shape[1]
    few_down_kernel[(triton.cdiv(d, tiles.rows), len(order.starts) - 1)](
        hidden, order.starts, blocks_of(down, [1, tiles.rows, tiles.depth]), rows, d, h,
        tiles.rows, at_once, tiles.depth, tiles.stages, EARLY, num_warps=tiles.warps, **early(EARLY),
    )  # fmt: skip


few_swiglu = torch.library.custom_op("gatewise::few_swiglu", forward, mutates_args=())


@few_swiglu.register_fake
def _(x: Tensor, _indices: Tensor, _weights: Tensor, _gate_up: Tensor, _down: Tensor) -> Tensor:
    return torch.empty_like(x)
