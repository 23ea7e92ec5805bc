"""Routers with random weights on the same hidden states, with the same loads: what a layer shows without learning."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from gatewise.arrays import Floats, Indices
from gatewise.nn.xray.layer_trace import LayerTrace

STEPS, FIRST_STEP, DECAY = 40, 0.5, 0.93
CALIBRATED = 8192  # tokens on which the loads are matched
SCORES = 2**24  # numbers that are held at once on a GPU; elsewhere one router after the other is faster


def random_choices(
    layer: LayerTrace, count: int, rng: np.random.Generator, device: torch.device | str = "cpu"
) -> Iterator[Indices]:
    """The experts (n, K) that each of ``count`` random linear routers chooses, all with the load of the layer.

    Scores are hidden states (n, d), less their mean, times a matrix (d, M) of independent normal numbers; a price
    is added to each column, such that every expert has its load.
    """
    generator = torch.Generator().manual_seed(int(rng.integers(2**62)))
    hidden = torch.from_numpy(layer.hidden).to(device)
    hidden = hidden - hidden.mean(0)
    n, k = layer.indices.shape
    some = torch.randperm(n, generator=generator)[:CALIBRATED].to(device)
    target = torch.from_numpy(expert_load(layer)).to(hidden)
    step = max(1, SCORES // (n * layer.n_experts)) if hidden.is_cuda else 1
    for start in range(0, count, step):
        size = (min(step, count - start), hidden.shape[1], layer.n_experts)
        scores = hidden @ torch.randn(size, generator=generator).to(device)  # (b, n, M)
        scores /= scores.flatten(1).std(1)[:, None, None] + 1e-12
        prices = matched_prices(scores[:, some], target, k)
        for one, price in zip(scores, prices, strict=True):
            yield _largest(one + price, k).cpu().numpy().astype(np.intp)


def matched_prices(scores: Tensor, load: Tensor, k: int) -> Tensor:
    """Prices (b, M) with which Top-K of scores (b, n, M) plus prices gives the experts about the given load, sum one.

    Each step moves a price by a part of the log ratio of the load that is wanted to the one that is there.

    >>> scores = torch.randn(1, 4000, 3, generator=torch.Generator().manual_seed(0))
    >>> prices = matched_prices(scores, torch.tensor([0.6, 0.3, 0.1]), 1)
    >>> ((scores + prices[:, None])[0].argmax(1).bincount() / 4000).round(decimals=2)
    tensor([0.6000, 0.3000, 0.1000])
    """
    batch, n, n_experts = scores.shape
    prices, step = scores.new_zeros(batch, n_experts), FIRST_STEP
    one = scores.new_ones(1).expand(batch, n * k)
    for _ in range(STEPS):
        chosen = _largest(scores + prices[:, None], k).flatten(1)
        found = torch.zeros_like(prices).scatter_add_(1, chosen, one) / (n * k)
        prices = prices + step * ((load + 1 / (n * k)) / (found + 1 / (n * k))).log().clamp(-2.0, 2.0)
        step *= DECAY
    return prices


def _largest(scores: Tensor, k: int) -> Tensor:
    """The places of the K largest of the last axis, in any order; one is found faster by itself."""
    return scores.argmax(-1, keepdim=True) if k == 1 else scores.topk(k, dim=-1, sorted=False).indices


def expert_load(layer: LayerTrace) -> Floats:
    """The fraction of all choices that each expert has, (M,), with sum one."""
    counts = np.bincount(layer.places.ravel(), minlength=layer.n_experts + 1)[: layer.n_experts]
    return np.asarray(counts / max(counts.sum(), 1))
