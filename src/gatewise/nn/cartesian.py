"""Experts as products of two sub-experts: two layers in a row, each with its own router."""

from torch import nn, Tensor

from gatewise.nn.layer import MoELayer


class CartesianLayer(nn.Module):
    """y = a + B(norm(x + a)), a = A(x): a token that picks i in A and j in B is served by the pair (i, j).

    e sub-experts in each of ``first`` = A and ``second`` = B make e * e experts, and those of a row or a column share
    one half (CartesianMoE, Su et al., 2025). Around the layer there is a residual connection, x + y.
    """

    def __init__(self, first: MoELayer, second: MoELayer) -> None:
        super().__init__()
        if first.d != second.d:
            raise ValueError(f"second must take hidden states of size {first.d}, as first does, not {second.d}")
        self.first, self.second = first, second
        self.norm = nn.RMSNorm(first.d, eps=1e-6)

    @property
    def d(self) -> int:
        """The size of the hidden states."""
        return self.first.d

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        half: Tensor = self.first(x, mask)
        whole: Tensor = half + self.second(self.norm(x + half), mask)
        return whole
