"""Experts on several processes: each holds some of them, and tokens travel to their experts and back."""

from typing import Any

import torch
from torch import distributed, nn, Tensor
from torch.distributed import ProcessGroup

from gatewise.nn.dispatch import combine, dispatch, spread
from gatewise.nn.functional import masked
from gatewise.nn.input_weighted import InputWeighted
from gatewise.nn.layer import MoELayer
from gatewise.nn.processes import n_processes, process_rank
from gatewise.nn.stacked_experts import Experts, ModuleExperts


class ParallelExperts(Experts):
    """M experts on R processes: process r holds ``local``, the experts r M / R to (r + 1) M / R - 1.

    In every call each process sends its tokens to the processes of their experts and gets the answers back, two
    all-to-all exchanges of exactly the rows that are needed; nobody is dropped. All processes of ``group`` must call,
    also one without tokens. Gradients are those of the mean of the processes' losses, as DistributedDataParallel
    takes it for everything else.
    """

    def __init__(self, local: Experts, group: ProcessGroup | None = None) -> None:
        super().__init__()
        self.local, self.group = local, group
        self.n_experts = local.n_experts * n_processes(group)
        self.d, self.d_out = local.d, local.d_out

    @property
    def dtype(self) -> torch.dtype | None:
        return self.local.dtype

    def forward(self, x: Tensor, indices: Tensor, weights: Tensor) -> Tensor:
        return self.sparse(x, indices, weights)

    def sparse(self, x: Tensor, indices: Tensor, weights: Tensor) -> Tensor:
        plan = dispatch(indices, self.n_experts)
        counts = torch.diff(plan.ends, prepend=plan.ends.new_zeros(1)).view(-1, self.local.n_experts)  # (R, M / R)
        incoming = _exchange_counts(counts, self.group)  # (R, M / R): who sends how many rows to which expert here
        out_sizes, in_sizes = counts.sum(1).tolist(), incoming.sum(1).tolist()
        rows = spread(x, plan)[: sum(out_sizes)]
        arrived = _exchanged(rows, out_sizes, in_sizes, self.group)
        answers = self._answers(arrived, incoming)
        returned = _exchanged(answers, in_sizes, out_sizes, self.group)
        nobody = returned.new_zeros(indices.numel() - len(returned), returned.shape[1])
        return combine(torch.cat([returned, nobody]), masked(weights, indices), plan).to(x.dtype)

    def _answers(self, rows: Tensor, incoming: Tensor) -> Tensor:
        """What the experts here say to the rows that arrived, process by process and expert by expert."""
        n_local, share = self.local.n_experts, 1.0 / n_processes(self.group)
        experts = torch.arange(n_local, device=rows.device).repeat(len(incoming))
        indices = experts.repeat_interleave(incoming.flatten().long()).unsqueeze(1)
        tokens = _with_gradient_times(rows, 1.0 / share)
        answers = self.local.sparse(tokens, indices, rows.new_ones(len(rows), 1))
        return _with_gradient_times(answers, share)

    def dense(self, x: Tensor, weights: Tensor) -> Tensor:
        indices = torch.arange(self.n_experts, device=x.device).expand(len(x), -1)
        return self.sparse(x, indices, weights)

    def extra_repr(self) -> str:
        return f"n_experts={self.n_experts}, processes={n_processes(self.group)}"


def parallelize(model: nn.Module, group: ProcessGroup | None = None) -> nn.Module:
    """Keep on every process of ``group`` only its part of the stacked experts of every `MoELayer`; returns the model.

    The model must be the same on all of them. What stays is left out of DistributedDataParallel's averages when that
    wraps this model afterwards. The state of a process then holds its own experts only.
    """
    count, rank = n_processes(group), process_rank(group)
    for layer in [module for module in model.modules() if isinstance(module, MoELayer)]:
        owner, name = (layer.experts, "inner") if isinstance(layer.experts, InputWeighted) else (layer, "experts")
        experts = getattr(owner, name)
        if isinstance(experts, ParallelExperts):
            raise ValueError("model must not be parallel already: its experts are ParallelExperts")
        if layer.n_experts % count:
            raise ValueError(
                f"the number of processes, {count}, must divide the {layer.n_experts} experts of a layer"
            )
        setattr(owner, name, ParallelExperts(_part(experts, rank, count), group))
    own = [name for name, part in model.named_modules() if isinstance(part, ParallelExperts)]
    ignored = [name for name, _ in model.named_parameters() if any(name.startswith(f"{part}.") for part in own)]
    nn.parallel.DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, ignored)  # type: ignore[no-untyped-call]
    return model


def _part(experts: Experts, rank: int, count: int) -> Experts:
    """The experts of one process; their parameters are copies, so that the rest can be freed."""
    each = experts.n_experts // count
    mine = slice(rank * each, (rank + 1) * each)
    if isinstance(experts, ModuleExperts):
        return ModuleExperts(list(experts.members)[mine])
    for name, parameter in list(experts.named_parameters(recurse=False)):
        kept = nn.Parameter(parameter.detach()[mine].clone(), requires_grad=parameter.requires_grad)
        setattr(experts, name, kept)
    experts.n_experts = each
    return experts


@torch.no_grad()
def _exchange_counts(counts: Tensor, group: ProcessGroup | None) -> Tensor:
    """Row r of the result is what process r sends here: (R, M / R)."""
    if n_processes(group) == 1:
        return counts
    incoming = torch.empty_like(counts)
    distributed.all_to_all_single(incoming, counts.contiguous(), group=group)
    return incoming


def _exchanged(rows: Tensor, out_sizes: list[int], in_sizes: list[int], group: ProcessGroup | None) -> Tensor:
    arrived: Tensor = _Exchange.apply(rows, out_sizes, in_sizes, group)  # type: ignore[no-untyped-call]
    return arrived


class _Exchange(torch.autograd.Function):
    """Rows to the processes by ``out_sizes``, rows from them by ``in_sizes``; gradients travel the other way."""

    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, out_sizes: list[int], in_sizes: list[int], group: ProcessGroup | None
    ) -> Tensor:
        ctx.sizes, ctx.group = (out_sizes, in_sizes), group
        return _all_to_all(rows, out_sizes, in_sizes, group)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        out_sizes, in_sizes = ctx.sizes
        return _all_to_all(grads[0], in_sizes, out_sizes, ctx.group), None, None, None


def _all_to_all(rows: Tensor, out_sizes: list[int], in_sizes: list[int], group: ProcessGroup | None) -> Tensor:
    if n_processes(group) == 1:
        return rows.clone()
    arrived = rows.new_empty(sum(in_sizes), rows.shape[1])
    distributed.all_to_all_single(arrived, rows.contiguous(), in_sizes, out_sizes, group=group)
    return arrived


def _with_gradient_times(rows: Tensor, factor: float) -> Tensor:
    same: Tensor = _ScaledGradient.apply(rows, factor)  # type: ignore[no-untyped-call]
    return same


class _ScaledGradient(torch.autograd.Function):
    """The rows as they are; their gradient times a factor."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return rows.view_as(rows)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return grads[0] * ctx.factor, None
