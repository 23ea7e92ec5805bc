"""A search for the tiles of the kernels for few tokens, kernel by kernel: ``python -m benchmarks.gpu_tiles``.

It prints for every kernel, shape and number of tokens the fastest tiles, as (rows, depth, warps, stages) or for one
token (rows, columns, warps, held), and the time over that of reading the weights. The tiles of
`gatewise.nn.fused.few_tokens` and `one_token` are chosen from it.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.gpu_clock import bandwidth, graph_ms, kernel_sources
from benchmarks.gpu_rivals import plain
from benchmarks.gpu_tokens import experts, SHAPES, tokens
from gatewise.nn.fused.autograd import fused
from gatewise.nn.fused.few_tokens import down_rows, forward, ordered, tokens_at_once, up_rows, WeightTiles
from gatewise.nn.fused.one_token import down_tiles, token_down, TOKEN_UP, token_up, VectorTiles

TOKEN_UPS = (
    *((4, 2048, 4, 0), (2, 2048, 4, 0), (8, 2048, 8, 0), (4, 1024, 4, 0), (8, 1024, 4, 0)),
    *((8, 512, 8, 0), (2, 4096, 4, 0), (16, 256, 4, 0)),
)
TOKEN_DOWNS = tuple(
    (rows, columns, warps, held)
    for rows, warps in ((4, 4), (8, 8), (2, 2))
    for columns, held in ((256, 0), (256, 2), (256, 3), (256, 4), (512, 1), (512, 4), (512, 5), (1024, 2))
)
UP = ((64, 64, 4, 3), (64, 128, 4, 2), (64, 128, 4, 3), (128, 64, 8, 3), (128, 64, 8, 4))
DOWN = ((64, 64, 4, 4), (64, 128, 4, 3), (64, 128, 4, 4), (128, 64, 4, 3), (128, 64, 8, 4), (128, 64, 8, 6))


def try_all(
    job: Callable[[tuple[int, ...]], None], choices: Sequence[tuple[int, ...]]
) -> dict[tuple[int, ...], float]:
    """Milliseconds by tiles, the fastest first; tiles that the GPU has no room for are left out."""
    found = {}
    for choice in choices:
        try:
            found[choice] = graph_ms(lambda c=choice: job(c), 21)
        except Exception as error:  # out of shared memory or registers, in words of Triton's own
            print(choice, type(error).__name__, str(error)[:80])
            torch.cuda.synchronize()
    return dict(sorted(found.items(), key=lambda item: item[1]))


def jobs(x: Tensor, indices: Tensor, weights: Tensor, gate_up: Tensor, down: Tensor) -> dict[str, Any]:
    """The kernels for these tensors, each with the tiles to try; one token's second product after its first."""
    (n, k), (n_experts, d, h) = indices.shape, down.shape
    hidden, rows, y = x.new_empty(n * k, h).normal_(), x.new_empty(n * k, d), torch.empty_like(x)

    def first(tiles: VectorTiles) -> None:
        token_up(x, indices, weights, gate_up, hidden, tiles)

    def pair(up: VectorTiles, second: VectorTiles) -> None:
        first(up)
        token_down(hidden, indices, down, y, second)

    if n == 1:
        return {
            "up": (lambda c: first(VectorTiles(*c)), TOKEN_UPS),
            "up, then down": (lambda c: pair(VectorTiles(*c), down_tiles(k)), TOKEN_UPS),
            "up and down": (lambda c: pair(TOKEN_UP, VectorTiles(*c)), TOKEN_DOWNS),
        }
    order, at_once = ordered(indices, n_experts), tokens_at_once(n, k, n_experts)
    return {
        "up": (lambda c: up_rows(x, order, gate_up, hidden, at_once, WeightTiles(*c)), UP),
        "down": (lambda c: down_rows(hidden, order, down, rows, at_once, WeightTiles(*c)), DOWN),
    }


@torch.no_grad()
def search(counts: list[int]) -> dict[str, Any]:
    torch.manual_seed(0)
    found = bandwidth()
    tb_s, result = max(found.values()), []
    print(found)
    for shape, (d, h, n_experts, k) in SHAPES.items():
        stacked = experts(d, h, n_experts)
        for n in counts:
            x, indices, weights = tokens(n, d, n_experts, k)
            used = int(indices.unique().numel())
            for kernel, (job, choices) in jobs(x, indices, weights, *stacked).items():
                floor = used * {"up": 2, "down": 1}.get(kernel, 3) * d * h * 2 / tb_s / 1e9
                times = {str(tiles): ms / floor for tiles, ms in try_all(job, choices).items()}
                result.append({"shape": shape, "tokens": n, "kernel": kernel, "floor_ms": floor, "over_floor": times})
                best = list(times.items())[:4]
                print(shape, n, kernel, f"{floor * 1000:.1f} us", *(f"{t}: {v:.2f}" for t, v in best), flush=True)
        result += [whole(shape, n, stacked, tb_s) for n in (1, 2, 4, 256, 512, 1024)]
        del stacked
        torch.cuda.empty_cache()
    return {"bandwidth": found, "kernel_sources": kernel_sources(), "rows": result}


def whole(shape: str, n: int, stacked: tuple[Tensor, Tensor], tb_s: float) -> dict[str, Any]:
    """The whole layer by each of its paths, to see where one should give way to the next."""
    d, h, n_experts, k = SHAPES[shape]
    x, indices, weights = tokens(n, d, n_experts, k)
    floor = int(indices.unique().numel()) * 6 * d * h / tb_s / 1e9
    paths: dict[str, Callable[[], Any]] = {
        "few": lambda: forward(x, indices, weights, *stacked),
        "fused": lambda: fused(x, indices, weights, *stacked, False),
        "plain": lambda: plain(x, indices, weights, *stacked),
    }
    times = {}
    for name, job in paths.items():
        try:
            times[name] = graph_ms(job, 21) / floor
        except Exception as error:  # as above
            print(shape, n, name, type(error).__name__, str(error)[:80])
    print(
        shape, n, "whole layer", f"{floor * 1000:.1f} us", {key: round(v, 2) for key, v in times.items()}, flush=True
    )
    return {"shape": shape, "tokens": n, "kernel": "whole layer", "floor_ms": floor, "over_floor": times}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out"), help="the folder of the JSON file")
    parser.add_argument("--tokens", type=int, nargs="+", default=[1, 8, 64, 256])
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "gpu_tiles.json").write_text(json.dumps(search(options.tokens), indent=1) + "\n")


if __name__ == "__main__":
    main()
