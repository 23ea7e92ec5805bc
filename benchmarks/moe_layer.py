"""A sparse layer of gatewise.nn against plain torch: 64 SwiGLU experts, K = 6, forward and backward, one thread.

The rival loops over the experts and multiplies the tokens of each, gathered once; the dense layer asks all 64 experts
for all tokens, in two large matrix products.
Decoding: one token through 256 experts, K = 8, forward only, against transformers' block with the same parameters.
"""

from typing import Any

import torch
from torch.nn.functional import linear, silu

from benchmarks.timing import in_turn, save, Times
from gatewise import nn

TOKENS, D, HIDDEN, M, K = (512, 2048), 256, 128, 64, 6


def layer(selection: nn.Dense | nn.TopK) -> nn.MoELayer:
    torch.manual_seed(0)
    return nn.MoELayer(nn.SwiGLUExperts(M, D, HIDDEN), nn.Router(nn.LinearScores(D, M), selection))


def step(module: nn.MoELayer, x: torch.Tensor) -> None:
    """Forward and backward, parameters and input."""
    module.zero_grad()
    x.grad = None
    module(x).square().sum().backward()


def loop_step(module: nn.MoELayer, x: torch.Tensor) -> torch.Tensor:
    """The same in plain torch: tokens sorted by expert, one pair of products an expert, and one sum at the end.

    The stacked matrices are unbound once: an index by expert would fill a gradient of all experts for each of them.
    """
    module.zero_grad()
    x.grad = None
    routing = module.router(x)
    order = routing.indices.flatten().argsort(stable=True)
    counts = torch.bincount(routing.indices.flatten(), minlength=M).tolist()
    tokens = order // K
    rows = []
    matrices = zip(module.experts.gate_up.unbind(), module.experts.down.unbind(), strict=True)
    for part, (first, second) in zip(x[tokens].split(counts), matrices, strict=True):
        gate, up = linear(part, first).chunk(2, dim=-1)
        rows.append(linear(silu(gate) * up, second))
    weighted = torch.cat(rows) * routing.weights.flatten()[order, None]
    y = torch.zeros_like(x).index_add(0, tokens, weighted)
    y.square().sum().backward()
    return y


def decoding() -> Times:
    """Seconds of one token of size 256 through 256 experts of hidden size 128, K = 8: a block of OLMoE, and ours."""
    from transformers.models.olmoe.modeling_olmoe import OlmoeConfig, OlmoeSparseMoeBlock  # noqa: PLC0415

    sizes = {"hidden_size": D, "intermediate_size": HIDDEN, "num_experts": 256, "num_experts_per_tok": 8}
    block = OlmoeSparseMoeBlock(OlmoeConfig(**sizes)).eval()
    with torch.no_grad():
        for parameter in block.parameters():
            parameter.normal_(std=0.05)
        ours, x = nn.from_transformers(block), torch.randn(1, 1, D)
        return in_turn({"transformers": lambda: block(x), "ours": lambda: ours(x)}, rounds=200)


def measure(tokens: int, rounds: int) -> dict[str, Any]:
    x = torch.randn(tokens, D, requires_grad=True)
    sparse, dense = layer(nn.TopK(K)), layer(nn.Dense())
    torch.testing.assert_close(loop_step(sparse, x), sparse(x), rtol=1e-4, atol=1e-5)
    jobs = {
        "sparse": lambda: step(sparse, x),
        "loop": lambda: loop_step(sparse, x),
        "dense": lambda: step(dense, x),
    }
    times = in_turn(jobs, rounds)
    return {
        "tokens": tokens,
        "seconds": times.medians(),
        "sparse_over_unbound_loop": times.ratio("sparse", "loop"),
        "sparse_over_dense": times.ratio("sparse", "dense"),
    }


def run() -> dict[str, Any]:
    decode = decoding()
    return {
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "d": D,
        "hidden": HIDDEN,
        "M": M,
        "K": K,
        "rows": [measure(tokens, rounds=7) for tokens in TOKENS],
        "active_share": K / M,
        "decoding_seconds": decode.medians(),
        "decoding_over_transformers": decode.ratio("ours", "transformers"),
    }


def main() -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        save("moe_layer", run())
    finally:
        torch.set_num_threads(threads)


if __name__ == "__main__":
    main()
