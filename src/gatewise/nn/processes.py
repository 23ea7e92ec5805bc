"""Several processes: who takes part, and sums over them. Without torch.distributed there is one."""

import torch
from torch import distributed, Tensor
from torch.distributed import ProcessGroup


def n_processes(group: ProcessGroup | None = None) -> int:
    """How many processes a group has; None is all of them."""
    return distributed.get_world_size(group) if _running() else 1


def process_rank(group: ProcessGroup | None = None) -> int:
    """The number of this process within the group, from 0."""
    return distributed.get_rank(group) if _running() else 0


@torch.no_grad()
def summed(values: Tensor, group: ProcessGroup | None = None) -> Tensor:
    """The sum of the values over the processes of the group, without a gradient; each process must call it.

    >>> summed(torch.ones(2))
    tensor([1., 1.])
    """
    total = values.detach().clone()
    if n_processes(group) > 1:
        distributed.all_reduce(total, group=group)
    return total


def _running() -> bool:
    return distributed.is_available() and distributed.is_initialized()
