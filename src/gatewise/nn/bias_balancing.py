"""Balance without a loss: a bias on every expert's affinity that moves against its load."""

import torch
from torch import nn, Tensor
from torch.distributed import ProcessGroup

from gatewise.arrays import as_count, as_positive
from gatewise.nn.balancing import load
from gatewise.nn.float32_buffers import Float32Buffers
from gatewise.nn.processes import summed


class BiasBalancing(Float32Buffers):
    """A bias on every expert's affinity that enters the choice but not the weights (DeepSeek-V3).

    ``update()`` after an optimizer step moves each bias by ``speed``: up where the load since the last update was
    below its mean, down where it was above. The load is counted in training mode only. ``bias`` (M,) is saved with
    the state; ``load`` (M,) is not. Both stay in float32 whatever the model is converted to: beside a bias of 0.5 a
    step of 0.001 is lost in bfloat16.
    """

    bias: Tensor
    load: Tensor

    def __init__(self, n_experts: int, speed: float = 0.001) -> None:
        super().__init__()
        as_count(n_experts, "n_experts")
        self.speed = as_positive(speed, "speed")
        self.register_buffer("bias", torch.zeros(n_experts, dtype=torch.float32))
        self.register_buffer("load", torch.zeros(n_experts, dtype=torch.float32), persistent=False)

    def forward(self, affinity: Tensor) -> Tensor:
        """What the choice compares: affinity (T, M) plus the bias."""
        return affinity + self.bias.to(affinity.dtype)

    def count(self, indices: Tensor) -> None:
        """Remember the load of one batch; -1 counts for nobody."""
        self.load += load(indices, len(self.load))[:-1]

    @torch.no_grad()
    def update(self, group: ProcessGroup | None = None) -> None:
        """One step against the load since the last update, which is then forgotten.

        Loads are summed over the processes of ``group``, all processes if it is None: give the group whose processes
        see different tokens.
        """
        total = summed(self.load, group)
        self.bias += self.speed * torch.sign(total.mean() - total)
        self.load.zero_()


def update_biases(model: nn.Module, group: ProcessGroup | None = None) -> None:
    """`BiasBalancing.update` for every such part of a model; call it after the optimizer's step."""
    for module in model.modules():
        if isinstance(module, BiasBalancing):
            module.update(group)
