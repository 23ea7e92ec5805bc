"""Experts: stacked into one tensor per matrix, so that a group of tokens is one product; or any list of modules."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable

import torch
from torch import nn, Tensor
from torch.nn.functional import gelu

from gatewise.arrays import as_count, as_positive
from gatewise.nn.dispatch import combine, dispatch, spread
from gatewise.nn.functional import (
    Activation,
    Affine,
    autocast,
    dense_mlp,
    dense_swiglu,
    dense_weights,
    grouped_mlp,
    grouped_swiglu,
    masked,
)
from gatewise.nn.fused import can_fuse, fused_swiglu
from gatewise.nn.transforms import is_transformed


class Experts(nn.Module, ABC):
    """M experts from (T, d) to (T, q). ``d`` and ``d_out`` are None where any size will do."""

    n_experts: int
    d: int | None
    d_out: int | None

    @property
    def dtype(self) -> torch.dtype | None:
        """The dtype that tokens must have outside autocast; None where the experts decide themselves."""
        first = next(self.parameters(), None)
        return None if first is None else first.dtype

    def forward(self, x: Tensor, indices: Tensor, weights: Tensor) -> Tensor:
        """The weighted sum of the chosen experts: x (T, d), indices and weights (T, K) -> (T, q).

        With K = M every expert is asked anyway, and the dense product needs no sorting.
        """
        if indices.shape[1] < self.n_experts:
            return self.sparse(x, indices, weights)
        return self.dense(x, dense_weights(indices, weights, self.n_experts))

    @abstractmethod
    def sparse(self, x: Tensor, indices: Tensor, weights: Tensor) -> Tensor:
        """The chosen experts only, each only on its tokens."""

    @abstractmethod
    def dense(self, x: Tensor, weights: Tensor) -> Tensor:
        """All experts on all tokens, weights (T, M)."""

    def one(self, m: int, x: Tensor) -> Tensor:
        """Expert m by itself: (T, d) -> (T, q)."""
        as_count(m, "m", low=0, high=self.n_experts - 1)
        only = torch.full((len(x), 1), m, device=x.device)
        return self.sparse(x, only, x.new_ones(len(x), 1))


class SwiGLUExperts(Experts):
    """f_m(x) = down_m (silu(gate_m x) * up_m x), without biases.

    ``gate_up`` (M, 2h, d) holds the gate's h rows first, ``down`` is (M, d, h).

    >>> SwiGLUExperts(4, d=8, hidden=16).gate_up.shape
    torch.Size([4, 32, 8])
    """

    def __init__(self, n_experts: int, d: int, hidden: int) -> None:
        super().__init__()
        self.n_experts, self.d = as_count(n_experts, "n_experts"), as_count(d, "d")
        self.d_out, self.hidden = self.d, as_count(hidden, "hidden")
        self.gate_up = nn.Parameter(_uniform((n_experts, 2 * hidden, d), d))
        self.down = nn.Parameter(_uniform((n_experts, d, hidden), hidden))

    def sparse(self, x: Tensor, indices: Tensor, weights: Tensor) -> Tensor:
        tokens, gate_up, down = autocast(x, self.gate_up, self.down)
        if can_fuse(tokens, gate_up):
            return fused_swiglu(tokens, indices, weights, gate_up, down).to(x.dtype)
        return grouped_swiglu(tokens, indices, weights, gate_up, down).to(x.dtype)

    def dense(self, x: Tensor, weights: Tensor) -> Tensor:
        return dense_swiglu(x, weights, self.gate_up, self.down)

    def extra_repr(self) -> str:
        return f"n_experts={self.n_experts}, d={self.d}, hidden={self.hidden}"


class MLPExperts(Experts):
    """f_m(x) = down_m phi(up_m x + up_bias_m) + down_bias_m, phi = gelu unless given.

    ``up`` (M, h, d), ``up_bias`` (M, h), ``down`` (M, q, h), ``down_bias`` (M, q); q = d unless ``d_out`` is given.
    With ``bias=False`` both biases are None.
    """

    def __init__(
        self,
        n_experts: int,
        d: int,
        hidden: int,
        d_out: int | None = None,
        activation: Activation = gelu,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.n_experts, self.d = as_count(n_experts, "n_experts"), as_count(d, "d")
        self.hidden, self.d_out = as_count(hidden, "hidden"), self.d if d_out is None else as_count(d_out, "d_out")
        self.activation = activation
        self.up = nn.Parameter(_uniform((n_experts, hidden, d), d))
        self.down = nn.Parameter(_uniform((n_experts, self.d_out, hidden), hidden))
        self.up_bias = nn.Parameter(_uniform((n_experts, hidden), d)) if bias else None
        self.down_bias = nn.Parameter(_uniform((n_experts, self.d_out), hidden)) if bias else None

    def sparse(self, x: Tensor, indices: Tensor, weights: Tensor) -> Tensor:
        return grouped_mlp(x, indices, weights, *self._layers(), self.activation)

    def dense(self, x: Tensor, weights: Tensor) -> Tensor:
        return dense_mlp(x, weights, *self._layers(), self.activation)

    def _layers(self) -> tuple[Affine, Affine]:
        return (self.up, self.up_bias), (self.down, self.down_bias)

    def extra_repr(self) -> str:
        return f"n_experts={self.n_experts}, d={self.d}, hidden={self.hidden}, d_out={self.d_out}"


class ClampedSwiGLUExperts(Experts):
    """f_m(x) = D_m [(min(g, limit) sigmoid(slope min(g, limit))) (1 + clip(u, limit))] + v_m: GPT-OSS's experts.

    g and u are the halves of U_m x + u_m, clip(u, limit) lies in [-limit, limit]. ``gate_up`` (M, 2h, d) and
    ``gate_up_bias`` (M, 2h) hold the gate's h rows first; ``down`` (M, d, h), ``down_bias`` (M, d).
    """

    def __init__(self, n_experts: int, d: int, hidden: int, limit: float = 7.0, slope: float = 1.702) -> None:
        super().__init__()
        self.n_experts, self.d = as_count(n_experts, "n_experts"), as_count(d, "d")
        self.d_out, self.hidden = self.d, as_count(hidden, "hidden")
        self.limit, self.slope = as_positive(limit, "limit"), as_positive(slope, "slope")
        self.gate_up = nn.Parameter(_uniform((n_experts, 2 * hidden, d), d))
        self.gate_up_bias = nn.Parameter(_uniform((n_experts, 2 * hidden), d))
        self.down = nn.Parameter(_uniform((n_experts, d, hidden), hidden))
        self.down_bias = nn.Parameter(_uniform((n_experts, d), hidden))

    def sparse(self, x: Tensor, indices: Tensor, weights: Tensor) -> Tensor:
        return grouped_mlp(x, indices, weights, *self._layers(), self._gated)

    def dense(self, x: Tensor, weights: Tensor) -> Tensor:
        return dense_mlp(x, weights, *self._layers(), self._gated)

    def _layers(self) -> tuple[Affine, Affine]:
        return (self.gate_up, self.gate_up_bias), (self.down, self.down_bias)

    def _gated(self, both: Tensor) -> Tensor:
        """From (..., 2h) to (..., h)."""
        gate, up = both.chunk(2, dim=-1)
        gate, up = gate.clamp(max=self.limit), up.clamp(min=-self.limit, max=self.limit)
        return gate * torch.sigmoid(self.slope * gate) * (1.0 + up)

    def extra_repr(self) -> str:
        sizes = f"n_experts={self.n_experts}, d={self.d}, hidden={self.hidden}"
        return f"{sizes}, limit={self.limit}, slope={self.slope}"


class ModuleExperts(Experts):
    """Any modules (n, d) -> (n, q) as experts, one call for each that somebody chose.

    The parameters of the others get gradients of zero, as those of stacked experts do: every process of
    DistributedDataParallel then has the same ones to average.
    """

    def __init__(self, modules: Iterable[nn.Module]) -> None:
        super().__init__()
        self.members = nn.ModuleList(modules)
        self.n_experts, self.d, self.d_out = as_count(len(self.members), "n_experts"), None, None

    @property
    def dtype(self) -> None:
        return None

    def sparse(self, x: Tensor, indices: Tensor, weights: Tensor) -> Tensor:
        if is_transformed():
            return self.dense(x, dense_weights(indices, weights, self.n_experts))
        plan = dispatch(indices, self.n_experts)
        ends = plan.ends.tolist()
        sizes = [end - start for start, end in zip([0, *ends[:-1]], ends, strict=True)]
        groups = torch.split(spread(x, plan)[: ends[-1]], sizes)
        parts = [expert(rows) for expert, rows in zip(self.members, groups, strict=True) if len(rows)]
        parts = parts or [self.members[0](x[:0])]  # nobody was chosen: only the width is wanted
        nobody = parts[0].new_zeros(indices.numel() - ends[-1], parts[0].shape[1])
        y = combine(torch.cat([*parts, nobody]), masked(weights, indices), plan).to(parts[0].dtype)
        return y + self._nothing([not size for size in sizes]).to(y.dtype)

    def _nothing(self, idle: list[bool]) -> Tensor:
        """Zero, as a sum over no entry of every parameter of the idle experts."""
        idlers = [expert for expert, is_idle in zip(self.members, idle, strict=True) if is_idle]
        parameters = [p for expert in idlers for p in expert.parameters() if p.requires_grad]
        return sum((p.flatten()[:0].sum() for p in parameters), torch.zeros(()))

    def dense(self, x: Tensor, weights: Tensor) -> Tensor:
        parts = [weights[:, m, None] * expert(x) for m, expert in enumerate(self.members)]
        return torch.stack(parts).sum(0)

    def one(self, m: int, x: Tensor) -> Tensor:
        as_count(m, "m", low=0, high=self.n_experts - 1)
        answer: Tensor = self.members[m](x)
        return answer


def _uniform(shape: tuple[int, ...], fan_in: int) -> Tensor:
    """The start of torch's own linear layers: uniform within 1 / sqrt(fan_in)."""
    bound = 1.0 / math.sqrt(fan_in)
    return torch.empty(shape).uniform_(-bound, bound)
