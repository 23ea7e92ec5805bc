"""The fused SwiGLU experts on one GPU in bfloat16, forward, from one token to 16,384, against plain torch.

Every time is the median of a CUDA graph's replays, each after a flush of the caches. The floor is the time of
reading the weights of the experts that the routing uses once, at the bandwidth that the same run measured; beyond
some hundred tokens arithmetic takes longer than that, and the two dense products are the measure. Routings are
uniform at random. A graph of one layer also pays for its own start, some microseconds: for up to 256 tokens ``read``
is the time of a graph of one kernel that only reads as many bytes, and ``in_a_row`` the mean of eight layers in one
graph. Needs a GPU of compute capability 9.0 and Triton:
``python -m benchmarks.gpu_tokens``. It is not part of ``make bench``.
"""

from functools import partial
from multiprocessing import get_context
from typing import Any

import torch
from torch import Tensor

from benchmarks.gpu_clock import bandwidth, graph_ms, measured, read_ms
from benchmarks.gpu_rivals import dense_products, one_by_one, plain
from gatewise.nn.fused import fused_swiglu

TOKENS = (1, 8, 64, 256, 1024, 16_384)
SHAPES = {  # d, h, M, K
    "olmoe": (2048, 1024, 64, 8),
    "qwen3_30b": (2048, 768, 128, 8),
    "mixtral": (4096, 14336, 8, 2),
    "deepseek_moe": (2048, 1408, 64, 6),
}


def experts(d: int, h: int, n_experts: int) -> tuple[Tensor, Tensor]:
    """gate_up and down, with values of the size of a trained layer's."""
    gate_up = torch.randn(n_experts, 2 * h, d, device="cuda", dtype=torch.bfloat16) * d**-0.5
    return gate_up, torch.randn(n_experts, d, h, device="cuda", dtype=torch.bfloat16) * h**-0.5


def tokens(n: int, d: int, n_experts: int, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """x, indices and weights of n tokens with K experts each, uniform without repetition."""
    indices = torch.rand(n, n_experts, device="cuda").topk(k, dim=1).indices
    weights = torch.rand(n, k, device="cuda").softmax(1).bfloat16()
    return torch.randn(n, d, device="cuda").bfloat16(), indices, weights


def error(x: Tensor, indices: Tensor, weights: Tensor, gate_up: Tensor, down: Tensor) -> float:
    """|y - exact| / |exact| on the first 64 tokens; exact is the loop in float64."""
    some, n_experts = slice(0, 64), len(down)
    y = fused_swiglu(x, indices, weights, gate_up, down)[some].double()
    exact = torch.zeros_like(y)
    for m in range(n_experts):  # one expert in float64 at a time
        mine = torch.where(indices[some] == m, 0, -1)
        matrices = (gate_up[m : m + 1].double(), down[m : m + 1].double())
        exact += one_by_one(x[some].double(), mine, weights[some].double(), *matrices)
    return float((y - exact).norm() / exact.norm())


def measure(shape: str, n: int, stacked: tuple[Tensor, Tensor], tb_s: float) -> dict[str, Any]:
    """One shape at one number of tokens."""
    d, h, n_experts, k = SHAPES[shape]
    x, indices, weights = tokens(n, d, n_experts, k)
    used = int(indices.unique().numel())
    floor = used * 3 * d * h * 2 / tb_s / 1e9
    row = {"shape": shape, "d": d, "h": h, "M": n_experts, "K": k, "tokens": n, "experts_used": used}
    row["error"] = error(x, indices, weights, *stacked)
    jobs = {
        "fused": lambda: fused_swiglu(x, indices, weights, *stacked),
        "plain": lambda: plain(x, indices, weights, *stacked),
        "dense": dense_products(n * k, *stacked),
    }
    row["ms"] = {name: graph_ms(job) for name, job in jobs.items()} | {"floor": floor}
    row["over_floor"] = row["ms"]["fused"] / floor
    if n <= 256:
        row["ms"]["read"] = read_ms(used * 6 * d * h)
        row["in_a_row"] = in_a_row(shape, n, stacked, tb_s)
    row["plain_over_fused"] = row["ms"]["plain"] / row["ms"]["fused"]
    row["tflops"] = 6.0 * n * k * d * h / row["ms"]["fused"] / 1e9
    return row


def in_a_row(shape: str, n: int, stacked: tuple[Tensor, Tensor], tb_s: float) -> dict[str, float]:
    """The mean of eight layers with weights of their own in one graph, as in a model: each finds cold caches."""
    d, h, n_experts, k = SHAPES[shape]
    layers = [stacked, *(experts(d, h, n_experts) for _ in range(7))]
    inputs = [tokens(n, d, n_experts, k) for _ in layers]
    floor = sum(int(indices.unique().numel()) for _, indices, _ in inputs) * 6 * d * h / tb_s / 1e9
    paths = {"fused": fused_swiglu, "plain": plain}
    jobs = {
        name: lambda p=path: [p(*some, *layer) for some, layer in zip(inputs, layers, strict=True)]
        for name, path in paths.items()
    }
    times = {name: graph_ms(job, 21) for name, job in jobs.items()}
    ratios = {"over_floor": times["fused"] / floor, "plain_over_fused": times["plain"] / times["fused"]}
    return {f"{name}_ms": ms / len(layers) for name, ms in times.items()} | ratios


@torch.no_grad()
def shape_rows(shape: str, tb_s: float) -> list[dict[str, Any]]:
    """One shape at every number of tokens."""
    torch.manual_seed(0)
    d, h, n_experts, _ = SHAPES[shape]
    stacked, rows = experts(d, h, n_experts), []
    for n in TOKENS:
        rows.append(measure(shape, n, stacked, tb_s))
        print({key: rows[-1].get(key) for key in ("shape", "tokens", "over_floor", "plain_over_fused", "in_a_row")})
    return rows


def ceilings() -> dict[str, Any]:
    return {"bandwidth": bandwidth(), "one_kernel_us": 1000 * read_ms(1)}


def run() -> dict[str, Any]:
    """Every shape in a process of its own, so that none meets the memory that another has left behind."""
    alone = partial(get_context("spawn").Pool, 1)
    with alone() as process:
        found = process.apply(ceilings)
    rows = []
    for shape in SHAPES:
        with alone() as process:
            rows += process.apply(shape_rows, (shape, max(found["bandwidth"].values())))
    return {"dtype": "bfloat16", **found, "rows": rows}


def main() -> None:
    measured("gpu_tokens", run)


if __name__ == "__main__":
    main()
