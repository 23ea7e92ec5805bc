"""Routers with random weights on the same hidden states, with the same loads: what a layer shows without learning."""

import numpy as np
import torch
from torch import Tensor

from gatewise.arrays import Floats, Indices
from gatewise.nn.xray.layer_trace import LayerTrace

STEPS, FIRST_STEP, DECAY = 40, 0.5, 0.93
CALIBRATED = 8192  # tokens on which the loads are matched


def random_choices(layer: LayerTrace, rng: np.random.Generator, device: torch.device | str = "cpu") -> Indices:
    """The experts (n, K) that a random linear router chooses, with prices that give every expert its load.

    Scores are hidden states (n, d), less their mean, times a matrix (d, M) of independent normal numbers; a price
    is added to each column.
    """
    generator = torch.Generator().manual_seed(int(rng.integers(2**62)))
    hidden = torch.from_numpy(layer.hidden).to(device)
    matrix = torch.randn(hidden.shape[1], layer.n_experts, generator=generator).to(device)
    scores = (hidden - hidden.mean(0)) @ matrix
    scores /= scores.std() + 1e-12
    n, k = layer.indices.shape
    some = torch.randperm(n, generator=generator)[:CALIBRATED].to(device)
    target = torch.from_numpy(expert_load(layer)).to(scores)
    prices = matched_prices(scores[some], target, k)
    return (scores + prices).topk(k, dim=1).indices.cpu().numpy().astype(np.intp)


def matched_prices(scores: Tensor, load: Tensor, k: int) -> Tensor:
    """Prices (M,) with which Top-K of scores (n, M) plus prices gives the experts about the given load, sum one.

    Each step moves a price by a part of the log ratio of the load that is wanted to the one that is there.

    >>> scores = torch.randn(4000, 3, generator=torch.Generator().manual_seed(0))
    >>> prices = matched_prices(scores, torch.tensor([0.6, 0.3, 0.1]), 1)
    >>> ((scores + prices).argmax(1).bincount() / 4000).round(decimals=2)
    tensor([0.6000, 0.3000, 0.1000])
    """
    prices, step, size = torch.zeros_like(load), FIRST_STEP, scores.shape[0] * k
    for _ in range(STEPS):
        chosen = (scores + prices).topk(k, dim=1).indices
        found = chosen.flatten().bincount(minlength=len(load)) / size
        prices = prices + step * ((load + 1 / size) / (found + 1 / size)).log().clamp(-2.0, 2.0)
        step *= DECAY
    return prices


def expert_load(layer: LayerTrace) -> Floats:
    """The fraction of all choices that each expert has, (M,), with sum one."""
    counts = np.bincount(layer.places.ravel(), minlength=layer.n_experts + 1)[: layer.n_experts]
    return np.asarray(counts / max(counts.sum(), 1))
