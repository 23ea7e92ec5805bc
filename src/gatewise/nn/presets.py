"""The published designs by name, built from the parts. The guide says of each where the open record is silent."""

import os
import warnings
from collections.abc import Callable
from inspect import signature
from typing import Any

import torch
from torch import nn
from torch.nn.functional import gelu, relu

from gatewise.arrays import as_count
from gatewise.nn.balancing import GShardLoss, SequenceLoss, SwitchLoss
from gatewise.nn.bias_balancing import BiasBalancing
from gatewise.nn.capacity import Capacity
from gatewise.nn.cartesian import CartesianLayer
from gatewise.nn.choice import Dense, GroupLimitedTopK, NullExperts, TopK
from gatewise.nn.feed_forward import SwiGLU
from gatewise.nn.hierarchical import HierarchicalRouter
from gatewise.nn.layer import MoELayer
from gatewise.nn.router_scores import LinearScores
from gatewise.nn.score_noise import JitteredScores
from gatewise.nn.stacked_experts import MLPExperts, SwiGLUExperts
from gatewise.nn.thinning import RandomSecond
from gatewise.nn.token_router import Router
from gatewise.nn.weighting import Normalized, SoftmaxBefore


def switch(d: int = 768, hidden: int = 2048, n_experts: int = 128, capacity_factor: float = 1.25) -> MoELayer:
    """Switch Transformer (Fedus et al., 2022): Top-1, softmax before the choice, jitter, capacity, balance loss."""
    router = Router(
        JitteredScores(LinearScores(d, n_experts), width=0.01),
        TopK(1),
        SoftmaxBefore(),
        losses=(SwitchLoss(0.01),),
        capacity=Capacity(capacity_factor, eval_factor=2.0),
    )
    return MoELayer(MLPExperts(n_experts, d, hidden, activation=relu, bias=False), router)


def gshard(d: int = 1024, hidden: int = 8192, n_experts: int = 2048, capacity_factor: float = 1.0) -> MoELayer:
    """GShard (Lepikhin et al., 2020): Top-2 normalised, a random second choice, capacity 2T/M, balance loss."""
    router = Router(
        LinearScores(d, n_experts),
        TopK(2),
        losses=(GShardLoss(0.01),),
        thinning=RandomSecond(2.0),
        capacity=Capacity(capacity_factor),
    )
    return MoELayer(MLPExperts(n_experts, d, hidden, activation=relu, bias=False), router)


def glam(d: int = 8192, hidden: int = 32768, n_experts: int = 64) -> MoELayer:
    """GLaM (Du et al., 2022): Top-2 with GShard's balance loss."""
    router = Router(LinearScores(d, n_experts), TopK(2), losses=(GShardLoss(0.01),))
    return MoELayer(MLPExperts(n_experts, d, hidden, activation=gelu, bias=False), router)


def mixtral(d: int = 4096, hidden: int = 14336, n_experts: int = 8, k: int = 2) -> MoELayer:
    """Mixtral (Jiang et al., 2024): Top-2, softmax after the choice, SwiGLU experts."""
    return MoELayer(SwiGLUExperts(n_experts, d, hidden), Router(LinearScores(d, n_experts), TopK(k)))


def deepseek_moe(d: int = 2048, hidden: int = 1408, n_experts: int = 64, k: int = 6, n_shared: int = 2) -> MoELayer:
    """DeepSeekMoE (Dai et al., 2024): many small experts, shared ones always on, softmax before the choice."""
    router = Router(LinearScores(d, n_experts), TopK(k), SoftmaxBefore(), losses=(SwitchLoss(0.001),))
    return MoELayer(SwiGLUExperts(n_experts, d, hidden), router, shared=_shared(d, hidden, n_shared))


def deepseek_v3(
    d: int = 7168,
    hidden: int = 2048,
    n_experts: int = 256,
    k: int = 8,
    n_groups: int = 8,
    groups_kept: int = 4,
    n_shared: int = 1,
    scale: float = 2.5,
) -> MoELayer:
    """DeepSeek-V3 (2024): biased sigmoid affinities and group limits choose, normalised sigmoids times 2.5 weigh."""
    router = Router(
        LinearScores(d, n_experts),
        GroupLimitedTopK(k, n_groups, groups_kept),
        Normalized("sigmoid", scale),
        losses=(SequenceLoss(0.0001),),
        bias=BiasBalancing(n_experts, speed=0.001),
    )
    return MoELayer(SwiGLUExperts(n_experts, d, hidden), router, shared=_shared(d, hidden, n_shared))


def hierarchical(d: int = 64, hidden: int = 128, n_groups: int = 4, group_size: int = 4) -> MoELayer:
    """Hierarchical mixture (Jordan and Jacobs, 1994) with two dense levels and small networks as experts."""
    n_experts = as_count(n_groups, "n_groups") * as_count(group_size, "group_size")
    outer = Router(LinearScores(d, n_groups, bias=True), Dense())
    inner = Router(LinearScores(d, n_experts, bias=True), Dense())
    return MoELayer(MLPExperts(n_experts, d, hidden), HierarchicalRouter(outer, inner))


def cartesian(d: int = 768, hidden: int = 1536, n_experts: int = 16, k: int = 2, n_shared: int = 1) -> CartesianLayer:
    """CartesianMoE (Su et al., 2025): two sub-layers in a row, Top-2 plus a shared expert in each."""

    def half() -> MoELayer:
        router = Router(LinearScores(d, n_experts), TopK(k), SoftmaxBefore(), losses=(SwitchLoss(0.01),))
        return MoELayer(SwiGLUExperts(n_experts, d, hidden), router, shared=_shared(d, hidden, n_shared))

    return CartesianLayer(half(), half())


def adamoe(d: int = 4096, hidden: int = 14336, n_experts: int = 8, n_null: int = 8, k: int = 4) -> MoELayer:
    """AdaMoE (Zeng et al., 2024): Top-4 among 8 experts and 8 null ones, two real ones on average when balanced."""
    router = Router(LinearScores(d, n_experts + n_null), NullExperts(k, n_null), losses=(SwitchLoss(0.01),))
    return MoELayer(SwiGLUExperts(n_experts, d, hidden), router)


GIB = 2**30
PRESETS: dict[str, Callable[..., MoELayer | CartesianLayer]] = {
    "switch": switch,
    "gshard": gshard,
    "glam": glam,
    "mixtral": mixtral,
    "deepseek-moe": deepseek_moe,
    "deepseek-v3": deepseek_v3,
    "hierarchical": hierarchical,
    "cartesian": cartesian,
    "adamoe": adamoe,
}


def preset(name: str, *, device: str | torch.device | None = None, **sizes: Any) -> MoELayer | CartesianLayer:
    """A published design by name; ``sizes`` replace the published ones.

    ``device`` is where the parameters are made; "meta" makes them without memory, and `load` fills them from a file.
    From one GiB on a warning says the size before anything is allocated; what does not fit is an error.

    >>> preset("mixtral", d=16, hidden=32).n_experts
    8
    >>> preset("mixtral", device="meta").experts.down.shape
    torch.Size([8, 4096, 14336])
    """
    if name not in PRESETS:
        raise ValueError(f"name must be one of {', '.join(map(repr, PRESETS))}, not {name!r}")
    allowed = signature(PRESETS[name]).parameters
    for size in sizes:
        if size not in allowed:
            raise ValueError(f"sizes of {name!r} must be among {', '.join(allowed)}, not {size!r}")
    place = torch.get_default_device() if device is None else torch.device(device)
    with torch.device("meta"):
        bare = PRESETS[name](**sizes)
    if place.type == "meta":
        return bare
    say_size(name, sum(tensor.nbytes for tensor in bare.state_dict().values()), place)
    with place:
        return PRESETS[name](**sizes)


def say_size(name: str, n_bytes: int, place: torch.device) -> None:
    """A warning with the size of a preset from one GiB on; an error where the device has less."""
    size = f"the parameters of {name!r} at these sizes take {n_bytes / GIB:.1f} GiB on {place}"
    remedy = "smaller sizes, such as d= and hidden=, or device='meta' take less"
    room = _room(place)
    if room is not None and n_bytes > room:
        raise ValueError(f"{size}, which has {room / GIB:.1f} GiB: {remedy}")
    if n_bytes >= GIB:
        warnings.warn(f"{size}; {remedy}", stacklevel=3)


def _room(place: torch.device) -> int | None:
    """The bytes that a device has, free ones on a GPU; None where nobody can say."""
    if place.type == "cuda":
        return int(torch.cuda.mem_get_info(place)[0])
    if place.type == "cpu" and hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def _shared(d: int, hidden: int, n_shared: int) -> list[nn.Module]:
    """The sum of n_shared experts as one of n_shared times the hidden size."""
    return [SwiGLU(d, hidden * n_shared)] if as_count(n_shared, "n_shared", low=0) else []
