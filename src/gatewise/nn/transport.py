"""Routing with a given load: the transport plan with entropy between tokens and experts, and scores that have it."""

from collections.abc import Sequence

import torch
from torch import Tensor

from gatewise.arrays import as_count
from gatewise.nn.float32_buffers import Float32Buffers
from gatewise.nn.functional import recomputing
from gatewise.nn.router_scores import Scores


def transport_prices(scores: Tensor, load: Tensor, n_iterations: int = 50, counted: Tensor | None = None) -> Tensor:
    """b (M,) with mean_t softmax(s_t + b) = load, over tokens with scores s (T, M), without a gradient.

    Sinkhorn's iteration in log space: the price of every expert is set, again and again, so that it gets its load.
    ``counted`` (T,) is False at tokens that are left out. The last price is 0, as in `gatewise.gates.load_prices`,
    which solves the same equation in float64 by Newton's method.
    """
    logs, wanted = scores.detach(), torch.log(load.to(scores))
    weights = _token_weights(logs, counted)
    price, least = wanted, torch.finfo(logs.dtype).tiny
    for _ in range(n_iterations):
        given = weights @ torch.softmax(logs + price, dim=-1)  # (M,)
        price = price + wanted - torch.log(given.clamp(min=least))
    return price - price[-1]


def _token_weights(scores: Tensor, counted: Tensor | None) -> Tensor:
    """Equal weights (T,) with sum one of the tokens that count."""
    weights = scores.new_ones(len(scores)) if counted is None else counted.to(scores.dtype)
    return weights / weights.sum().clamp(min=1.0)


def entropic_transport(
    scores: Tensor, load: Tensor | None = None, temperature: float = 1.0, n_iterations: int = 50
) -> Tensor:
    """The plan P (T, M) that maximises sum P * scores + temperature H(P) with row sums 1 and column means ``load``.

    P = softmax((scores + price) / temperature), with the prices of `transport_prices`; equal loads unless given. The
    rows of the result have sum one exactly. Its gradient is that of the plan (`with_load`).

    >>> scores = torch.tensor([[3.0, 0.0], [2.0, 0.0], [1.0, 0.0], [0.0, 0.0]])
    >>> entropic_transport(scores).mean(dim=0)
    tensor([0.5000, 0.5000])
    """
    logs = scores.float() / temperature if scores.dtype != torch.float64 else scores / temperature
    flat = logs.reshape(-1, logs.shape[-1])
    price = transport_prices(flat, _as_load(load, flat.shape[1]).to(flat), n_iterations)
    return torch.softmax(with_load(flat, price), dim=-1).reshape(scores.shape).to(scores.dtype)


def with_load(scores: Tensor, price: Tensor, counted: Tensor | None = None) -> Tensor:
    """scores (T, M) + price (M,), differentiated as if the price followed the scores so that loads stay as they are.

    With P = softmax(scores + price) and H = mean_t (diag P_t - P_t P_t'), the derivative of the loads in the price,
    the price moves by -H^+ times the change of the mean of P at a fixed price.
    """
    if not (torch.is_grad_enabled() and scores.requires_grad):
        return scores + price
    weights = _token_weights(scores, counted)
    plan = torch.softmax(scores + price, dim=-1)
    mean = weights @ plan
    fixed = plan.detach()
    slope = torch.diag(weights @ fixed) - fixed.t() @ (weights.unsqueeze(1) * fixed)
    # Adding one price to all changes nothing: 1/M in every entry makes the slope regular and leaves that out.
    slope = slope + 1.0 / len(price)
    ridge = 1e-6 * torch.eye(len(price), dtype=slope.dtype, device=slope.device)
    moved: Tensor = torch.linalg.solve(slope + ridge, mean - mean.detach())
    return scores + (price - moved)


class TransportScores(Float32Buffers):
    """Scores plus a price for every expert, so that the softmax of a batch has a given load, equal unless given.

    In training the prices are those of the batch, each process's own, and their running mean is kept in ``price``
    (M,); in evaluation that mean is used, so that a token is routed by itself. A dense router's mean weights have the
    load; under Top-K the load is that of the probabilities before the choice. ``momentum`` is the part of the running
    mean that a batch replaces.

    >>> from gatewise.nn import LinearScores, Router
    >>> router = Router(TransportScores(LinearScores(8, 4), load=[0.4, 0.3, 0.2, 0.1]))
    >>> routing = router(torch.randn(64, 8))
    >>> routing.weights.mean(dim=0).detach()
    tensor([0.4000, 0.3000, 0.2000, 0.1000])
    """

    price: Tensor
    load: Tensor
    n_batches: Tensor

    def __init__(
        self, scores: Scores, load: Sequence[float] | None = None, n_iterations: int = 50, momentum: float = 0.05
    ) -> None:
        super().__init__()
        if not 0.0 < momentum <= 1.0:
            raise ValueError(f"momentum must lie in (0, 1], not {momentum!r}")
        self.scores, self.momentum = scores, float(momentum)
        self.n_iterations = as_count(n_iterations, "n_iterations")
        self.d, self.n_scores = scores.d, scores.n_scores
        self.register_buffer("load", _as_load(load, self.n_scores).float(), persistent=False)
        self.register_buffer("price", torch.zeros(self.n_scores))
        self.register_buffer("n_batches", torch.zeros((), dtype=torch.long))

    def forward(self, x: Tensor, counted: Tensor | None = None) -> Tensor:
        """Hidden states (T, d), and which of them count (T,) -> scores with prices, (T, M)."""
        scores: Tensor = self.scores(x)
        if not self.training:
            return scores + self.price.to(scores.dtype)
        if counted is not None:
            scores = scores.masked_fill(~counted.unsqueeze(1), 0.0)  # padding may hold anything
        price = transport_prices(scores, self.load, self.n_iterations, counted)
        if not recomputing():
            self._remember(price)
        return with_load(scores, price, counted)

    @torch.no_grad()
    def _remember(self, price: Tensor) -> None:
        """Move the running mean; it is a plain mean until it holds 1 / momentum batches."""
        self.n_batches += 1
        part = torch.clamp(1.0 / self.n_batches.to(self.price.dtype), min=self.momentum)
        self.price += part * (price.to(self.price.dtype) - self.price)

    def extra_repr(self) -> str:
        return f"load={self.load.tolist()}, n_iterations={self.n_iterations}, momentum={self.momentum}"


def _as_load(load: Tensor | Sequence[float] | None, n_experts: int) -> Tensor:
    """The load (M,) in float64, checked."""
    equal = [1.0 / n_experts] * n_experts
    wanted = torch.as_tensor(equal if load is None else load, dtype=torch.float64).detach()
    if wanted.shape != (n_experts,) or bool((wanted <= 0).any()) or abs(float(wanted.sum()) - 1.0) > 1e-5:
        raise ValueError(f"load must be {n_experts} positive numbers with sum 1, not {wanted.tolist()}")
    return wanted
