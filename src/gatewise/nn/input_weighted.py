"""Weights on the experts' input in the place of their output, as Llama 4 has them."""

import torch
from torch import Tensor

from gatewise.nn.stacked_experts import Experts


class InputWeighted(Experts):
    """y_t = sum_k f_e(weights[t, k] x_t), e = indices[t, k], where other experts give sum_k weights[t, k] f_e(x_t).

    ``experts`` are any `Experts`. An expert that is not linear does not take a weight as a factor, so the two differ.

    >>> from gatewise.nn import SwiGLUExperts
    >>> x, indices, weights = torch.ones(5, 8), torch.zeros(5, 1, dtype=torch.int64), torch.full((5, 1), 0.5)
    >>> experts = SwiGLUExperts(4, d=8, hidden=16)
    >>> torch.allclose(InputWeighted(experts)(x, indices, weights), experts.one(0, x / 2))
    True
    """

    def __init__(self, experts: Experts) -> None:
        super().__init__()
        self.inner = experts
        self.n_experts, self.d, self.d_out = experts.n_experts, experts.d, experts.d_out

    @property
    def dtype(self) -> torch.dtype | None:
        return self.inner.dtype

    def forward(self, x: Tensor, indices: Tensor, weights: Tensor) -> Tensor:
        return self.sparse(x, indices, weights)  # also with K = M: f(0 x) need not be zero

    def sparse(self, x: Tensor, indices: Tensor, weights: Tensor) -> Tensor:
        rows = (x.unsqueeze(1) * weights.to(x.dtype).unsqueeze(-1)).flatten(0, 1)  # (T K, d): each with one expert
        y: Tensor = self.inner(rows, indices.reshape(-1, 1), rows.new_ones(len(rows), 1))
        return y.view(*indices.shape, y.shape[1]).sum(1)

    def dense(self, x: Tensor, weights: Tensor) -> Tensor:
        return self.sparse(x, torch.arange(self.n_experts, device=x.device).expand(len(x), -1), weights)
