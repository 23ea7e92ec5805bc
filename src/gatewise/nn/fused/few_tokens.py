"""The layer for few tokens without a gradient, as in decoding: three kernels for one token, four for more."""

from typing import NamedTuple

import torch
from torch import Tensor

from gatewise.nn.fused.backend import blocks_of, early, INTERPRETED, next_power_of_two, triton
from gatewise.nn.fused.kernels.few_rows import few_down_kernel, few_up_kernel, gather_kernel, rank_kernel

EARLY = not INTERPRETED  # kernels of one call overlap: each starts while the one before it ends
FEW = 256  # tokens up to which reading the weights takes longer than anything else
CACHED = 40_000_000  # bytes of the second product's weights that the L2 cache can hold beside the rest


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


LONE = FewTiles(up=WeightTiles(64, 128, 4, 2), down=WeightTiles(64, 128, 4, 4))  # one token
TILES = {  # by the number of tokens that a program takes at once
    16: FewTiles(up=WeightTiles(64, 128, 4, 2), down=WeightTiles(64, 128, 4, 4)),
    32: FewTiles(up=WeightTiles(64, 64, 4, 3), down=WeightTiles(64, 64, 4, 4)),
    64: FewTiles(up=WeightTiles(64, 64, 4, 3), down=WeightTiles(128, 64, 4, 3)),
    128: FewTiles(up=WeightTiles(128, 64, 8, 4), down=WeightTiles(128, 64, 8, 6)),
}


class Order(NamedTuple):
    """The assignments by expert: labels, positions (T, K), rows (T K,), starts (M + 1,), as `rank_kernel` has them.

    One token needs no order: its positions, rows and starts are its labels, which nobody reads as such.
    """

    labels: Tensor
    positions: Tensor
    rows: Tensor
    starts: Tensor
    n_experts: int

    @property
    def is_lone(self) -> bool:
        return len(self.labels) == 1

    @property
    def groups(self) -> int:
        """Programs that share a block of rows: one for each expert, or for each assignment of one token."""
        return self.labels.shape[1] if self.is_lone else self.n_experts


def ordered(indices: Tensor, n_experts: int) -> Order:
    """The order of few assignments by expert, in one kernel, or none for one token."""
    if len(indices) == 1:
        return Order(indices, indices, indices, indices, n_experts)
    n, lines = indices.numel(), 16
    positions = torch.empty(indices.shape, dtype=torch.int32, device=indices.device)
    rows, starts = positions.new_empty(n), positions.new_empty(n_experts + 1)
    grid = (triton.cdiv(n, lines) + triton.cdiv(n_experts + 1, lines),)
    width = min(next_power_of_two(n), 256)
    rank_kernel[grid](indices, positions, rows, starts, n, n_experts, lines, width, EARLY)
    return Order(indices, positions, rows, starts, n_experts)


def tokens_at_once(tokens: int, k: int, n_experts: int) -> int:
    """Tokens of a program at once: twice the mean of an expert, so that few experts read their weights twice.

    >>> [tokens_at_once(n, 8, 64) for n in (1, 64, 256)]
    [16, 16, 64]
    """
    return min(max(next_power_of_two(-(-2 * tokens * k // n_experts)), 16), 128)


def forward(x: Tensor, indices: Tensor, weights: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
    """As `gatewise.nn.fused.fused_swiglu`, without a gradient: every expert reads its weights once."""
    (tokens, k), (n_experts, d, h) = indices.shape, down.shape
    at_once, order = tokens_at_once(tokens, k, n_experts), ordered(indices, n_experts)
    tiles = LONE if order.is_lone else TILES[at_once]
    hidden, rows, out = x.new_empty(tokens * k, h), x.new_empty(tokens * k, d), torch.empty_like(x)
    up_rows(x, order, gate_up, hidden, at_once, tiles.up)
    down_rows(hidden, order, down, rows, at_once, tiles.down)
    width = min(next_power_of_two(d), 1024)
    gather_kernel[(tokens, triton.cdiv(d, width))](
        rows, order.positions, weights, out, n_experts, d, k, width, order.is_lone, EARLY, **early(EARLY)
    )
    return out


def up_rows(x: Tensor, order: Order, gate_up: Tensor, hidden: Tensor, at_once: int, tiles: WeightTiles) -> None:
    """hidden (T K, h) by expert: silu(gate x) * (up x)."""
    d, h, k = x.shape[1], hidden.shape[1], order.labels.shape[1]
    first = EARLY and not order.is_lone
    few_up_kernel[(triton.cdiv(h, tiles.rows), order.groups)](
        x, order.labels, order.rows, order.starts, blocks_of(gate_up.view(-1, h, d), [1, tiles.rows, tiles.depth]),
        hidden, order.n_experts, k, d, h, tiles.rows, at_once, tiles.depth, tiles.stages, order.is_lone, EARLY,
        num_warps=tiles.warps, **early(first),
    )  # fmt: skip


def down_rows(hidden: Tensor, order: Order, down: Tensor, rows: Tensor, at_once: int, tiles: WeightTiles) -> None:
    """rows (T K, d) by expert: down hidden."""
    d, h = rows.shape[1], hidden.shape[1]
    fits = len(hidden) * d * h * down.element_size() <= CACHED and d >= tiles.rows
    lines = next_power_of_two(triton.cdiv(h, 64)) if order.is_lone and fits else 0
    few_down_kernel[(triton.cdiv(d, tiles.rows), order.groups)](
        hidden, order.labels, order.starts, blocks_of(down, [1, tiles.rows, tiles.depth]), down, rows,
        order.n_experts, d, h, tiles.rows, at_once, tiles.depth, tiles.stages, order.is_lone, EARLY, lines,
        num_warps=tiles.warps, **early(EARLY),
    )  # fmt: skip


few_swiglu = torch.library.custom_op("gatewise::few_swiglu", forward, mutates_args=())


@few_swiglu.register_fake
def _(x: Tensor, _indices: Tensor, _weights: Tensor, _gate_up: Tensor, _down: Tensor) -> Tensor:
    return torch.empty_like(x)
