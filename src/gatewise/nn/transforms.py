"""Whether torch transforms the function that is running: torch.func, or differentiation in forward mode."""

import torch
from torch.autograd import forward_ad


def is_transformed() -> bool:
    """Whether torch.func's grad, vmap or jvp, or a level of forward mode, is at work.

    They see through torch's own operators but not through ours: forward mode would take our derivatives as zero.

    >>> is_transformed(), torch.func.vmap(lambda x: x * is_transformed())(torch.ones(2))
    (False, tensor([1., 1.]))
    """
    if torch.compiler.is_compiling():
        return False
    return bool(torch._C._are_functorch_transforms_active()) or forward_ad._current_level >= 0


def is_batched(tensor: torch.Tensor) -> bool:
    """Whether torch.func.vmap runs over the tensor, so that its values cannot decide what is done."""
    functorch = torch._C._functorch
    while functorch.is_functorch_wrapped_tensor(tensor):
        if functorch.is_batchedtensor(tensor):
            return True
        tensor = functorch.get_unwrapped(tensor)
    return False
