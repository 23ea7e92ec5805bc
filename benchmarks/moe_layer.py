"""A sparse layer of gatewise.nn against the dense one: 64 SwiGLU experts, K = 6, forward and backward, one thread.

The dense layer asks all 64 experts for all tokens, in two large matrix products; the naive one loops over the tokens.
Decoding: one token through 256 experts, K = 8, forward only, against transformers' block with the same parameters.
"""

from typing import Any

import torch
from torch.nn.functional import linear, silu

from benchmarks.timing import best_times, save
from gatewise import nn

TOKENS, D, HIDDEN, M, K = 2048, 256, 128, 64, 6
NAIVE_TOKENS = 64


def layer(selection: nn.Dense | nn.TopK) -> nn.MoELayer:
    torch.manual_seed(0)
    return nn.MoELayer(nn.SwiGLUExperts(M, D, HIDDEN), nn.Router(nn.LinearScores(D, M), selection))


def step(module: nn.MoELayer, x: torch.Tensor) -> None:
    """Forward and backward, parameters and input."""
    module.zero_grad()
    x.grad = None
    module(x).square().sum().backward()


def naive_step(module: nn.MoELayer, x: torch.Tensor) -> None:
    """The same, token by token."""
    module.zero_grad()
    x.grad = None
    routing = module.router(x)
    rows = []
    for token, chosen, weights in zip(x, routing.indices.tolist(), routing.weights, strict=True):
        y = torch.zeros_like(token)
        for m, weight in zip(chosen, weights, strict=True):
            gate, up = linear(token, module.experts.gate_up[m]).chunk(2)
            y = y + weight * linear(silu(gate) * up, module.experts.down[m])
        rows.append(y)
    torch.stack(rows).square().sum().backward()


def decoding() -> dict[str, float]:
    """Seconds of one token of size 256 through 256 experts of hidden size 128, K = 8: a block of OLMoE, and ours."""
    from transformers.models.olmoe.modeling_olmoe import OlmoeConfig, OlmoeSparseMoeBlock  # noqa: PLC0415

    sizes = {"hidden_size": D, "intermediate_size": HIDDEN, "num_experts": 256, "num_experts_per_tok": 8}
    block = OlmoeSparseMoeBlock(OlmoeConfig(**sizes)).eval()
    with torch.no_grad():
        for parameter in block.parameters():
            parameter.normal_(std=0.05)
        ours, x = nn.from_transformers(block), torch.randn(1, 1, D)
        return best_times({"transformers": lambda: block(x), "ours": lambda: ours(x)}, rounds=200)


def run() -> dict[str, Any]:
    x = torch.randn(TOKENS, D, requires_grad=True)
    few = torch.randn(NAIVE_TOKENS, D, requires_grad=True)
    sparse, dense = layer(nn.TopK(K)), layer(nn.Dense())
    seconds = best_times({"sparse": lambda: step(sparse, x), "dense": lambda: step(dense, x)}, rounds=5)
    decode = decoding()
    naive = best_times({"naive": lambda: naive_step(sparse, few), "sparse": lambda: step(sparse, few)}, rounds=2)
    return {
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "tokens": TOKENS,
        "d": D,
        "hidden": HIDDEN,
        "M": M,
        "K": K,
        "seconds": seconds,
        "sparse_over_dense": seconds["sparse"] / seconds["dense"],
        "active_share": K / M,
        "decoding_seconds": decode,
        "decoding_over_transformers": decode["ours"] / decode["transformers"],
        "naive_tokens": NAIVE_TOKENS,
        "naive_over_sparse": naive["naive"] / naive["sparse"],
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
