"""Routing with a given load: the entropic transport plan between tokens and experts."""

import torch
from torch import Tensor


def entropic_transport(
    scores: Tensor, load: Tensor | None = None, temperature: float = 1.0, n_iterations: int = 50
) -> Tensor:
    """The plan P (n, M) that maximises sum P * scores + T H(P) with row sums 1 and mean column sums ``load`` (M,).

    Sinkhorn's iteration in log space: P = softmax((scores + price) / T) with the price of every expert set, again and
    again, so that it gets its load; equal loads unless given. The rows of the result have sum one exactly.

    >>> scores = torch.tensor([[3.0, 0.0], [2.0, 0.0], [1.0, 0.0], [0.0, 0.0]])
    >>> entropic_transport(scores).mean(dim=0)
    tensor([0.5000, 0.5000])
    """
    n_experts = scores.shape[-1]
    wanted = scores.new_full((n_experts,), 1.0 / n_experts) if load is None else load.to(scores)
    if wanted.shape != (n_experts,) or bool((wanted <= 0).any()) or abs(float(wanted.sum()) - 1.0) > 1e-5:
        raise ValueError(f"load must be {n_experts} positive numbers with sum 1, not {wanted.tolist()}")
    logs = scores.float() / temperature
    price = logs.new_zeros(n_experts)
    for _ in range(n_iterations):
        plan = torch.log_softmax(logs + price, dim=-1)
        mean = torch.logsumexp(plan.reshape(-1, n_experts), dim=0) - torch.log(
            plan.new_tensor(float(plan.numel() // n_experts))
        )
        price = price + torch.log(wanted) - mean
    return torch.softmax(logs + price, dim=-1).to(scores.dtype)
