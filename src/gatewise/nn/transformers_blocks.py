"""From the mixture-of-experts blocks of the transformers library to layers of the parts, and back."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import nn, Tensor
from torch.nn.functional import silu

from gatewise.nn.bias_balancing import BiasBalancing
from gatewise.nn.choice import GroupLimitedTopK, Selection, TopK
from gatewise.nn.feed_forward import GatedSwiGLU, SwiGLU
from gatewise.nn.input_weighted import InputWeighted
from gatewise.nn.layer import MoELayer
from gatewise.nn.persistence import materialize
from gatewise.nn.router_scores import LinearScores
from gatewise.nn.stacked_experts import ClampedSwiGLUExperts, SwiGLUExperts
from gatewise.nn.token_router import Router
from gatewise.nn.weighting import Normalized, SigmoidEach, SoftmaxBefore, Weighting


class Tie(NamedTuple):
    """One tensor of a layer and the tensors of a block that hold the same numbers, and both ways between them."""

    ours: str
    theirs: tuple[str, ...]
    to_ours: Callable[[Sequence[Tensor]], Tensor] = lambda parts: torch.cat(list(parts))
    to_theirs: Callable[[Tensor], Sequence[Tensor]] = lambda whole: (whole,)


def _halves(whole: Tensor) -> Sequence[Tensor]:
    return whole.chunk(2)


def _turned(parts: Sequence[Tensor]) -> Tensor:
    return parts[0].transpose(1, 2)


def _turned_back(whole: Tensor) -> Sequence[Tensor]:
    return (whole.transpose(1, 2),)


def _apart(parts: Sequence[Tensor]) -> Tensor:
    """Columns gate, up, gate, up, ... -> all of the gate, then all of up, on the last axis."""
    return torch.cat([parts[0][..., ::2], parts[0][..., 1::2]], dim=-1)


def _together(whole: Tensor) -> Sequence[Tensor]:
    return (torch.stack(whole.chunk(2, dim=-1), dim=-1).flatten(-2),)


ROUTED = (
    Tie("experts.gate_up", ("experts.gate_up_proj",)),
    Tie("experts.down", ("experts.down_proj",)),
    Tie("router.scores.weight", ("gate.weight",)),
)
CLAMPED = (
    Tie(
        "experts.gate_up",
        ("experts.gate_up_proj",),
        lambda parts: _turned([_apart(parts)]),
        lambda whole: _together(whole.transpose(1, 2)),
    ),
    Tie("experts.gate_up_bias", ("experts.gate_up_proj_bias",), _apart, _together),
    Tie("experts.down", ("experts.down_proj",), _turned, _turned_back),
    Tie("experts.down_bias", ("experts.down_proj_bias",)),
    Tie("router.scores.weight", ("router.weight",)),
    Tie("router.scores.bias", ("router.bias",)),
)
TURNED = (
    Tie("experts.inner.gate_up", ("experts.gate_up_proj",), _turned, _turned_back),
    Tie("experts.inner.down", ("experts.down_proj",), _turned, _turned_back),
    Tie("router.scores.weight", ("router.weight",)),
)


def _shared(name: str) -> tuple[Tie, Tie]:
    matrices = (f"{name}.gate_proj.weight", f"{name}.up_proj.weight")
    return Tie("shared.0.gate_up", matrices, to_theirs=_halves), Tie("shared.0.down", (f"{name}.down_proj.weight",))


def _swiglu(block: Any, selection: Selection, weighting: Weighting, **parts: Any) -> MoELayer:
    """A layer of SwiGLU experts of the block's sizes."""
    n_experts, d, hidden = block.experts.down_proj.shape
    shared = parts.pop("shared", ())
    router = Router(LinearScores(d, n_experts), selection, weighting, **parts)
    return MoELayer(SwiGLUExperts(n_experts, d, hidden), router, shared)


def _mixtral(block: Any) -> MoELayer:
    if block.jitter_noise:
        raise ValueError(f"block.jitter_noise must be 0: noise on the experts' input has no part here, not {block}")
    return _swiglu(block, TopK(block.gate.top_k), Normalized())


def _softmax(block: Any) -> MoELayer:
    gate = block.gate
    return _swiglu(block, TopK(gate.top_k), Normalized() if gate.norm_topk_prob else SoftmaxBefore())


def _qwen2(block: Any) -> MoELayer:
    layer, d = _softmax(block), block.experts.down_proj.shape[1]
    layer.shared.append(GatedSwiGLU(d, block.shared_expert.down_proj.weight.shape[1]))
    return layer


def _deepseek_v2(block: Any) -> MoELayer:
    gate = block.gate
    selection: Selection = TopK(gate.top_k)
    if gate.topk_method == "group_limited_greedy":
        selection = GroupLimitedTopK(gate.top_k, gate.num_group, gate.topk_group, per_group=1)
    weighting = SoftmaxBefore(gate.routed_scaling_factor)
    return _swiglu(block, selection, weighting, shared=[_wide(block.shared_experts)])


def _deepseek_v3(block: Any) -> MoELayer:
    gate, scale = block.gate, block.gate.routed_scaling_factor
    weighting = Normalized("sigmoid", scale) if gate.norm_topk_prob else SigmoidEach(scale)
    selection = GroupLimitedTopK(gate.top_k, gate.num_group, gate.topk_group)
    bias = BiasBalancing(len(gate.e_score_correction_bias))
    return _swiglu(block, selection, weighting, bias=bias, shared=[_wide(block.shared_experts)])


def _gpt_oss(block: Any) -> MoELayer:
    experts = block.experts
    n_experts, hidden, d = experts.down_proj.shape
    router = Router(LinearScores(d, n_experts, bias=True), TopK(block.router.top_k), Normalized())
    return MoELayer(ClampedSwiGLUExperts(n_experts, d, hidden, experts.limit, experts.alpha), router)


def _llama4(block: Any) -> MoELayer:
    n_experts, hidden, d = block.experts.down_proj.shape
    experts = InputWeighted(SwiGLUExperts(n_experts, d, hidden))
    router = Router(LinearScores(d, n_experts), TopK(block.router.top_k), SigmoidEach())
    return MoELayer(experts, router, [_wide(block.shared_expert)])


def _wide(shared: Any) -> SwiGLU:
    hidden, d = shared.gate_proj.weight.shape
    return SwiGLU(d, hidden)


DEEPSEEK_V3 = (*ROUTED, Tie("router.bias.bias", ("gate.e_score_correction_bias",)), *_shared("shared_experts"))
BLOCKS: dict[str, tuple[Callable[[Any], MoELayer], tuple[Tie, ...]]] = {
    "MixtralSparseMoeBlock": (_mixtral, ROUTED),
    "OlmoeSparseMoeBlock": (_softmax, ROUTED),
    "Qwen3MoeSparseMoeBlock": (_softmax, ROUTED),
    "Qwen2MoeSparseMoeBlock": (
        _qwen2,
        (*ROUTED, *_shared("shared_expert"), Tie("shared.0.gate", ("shared_expert_gate.weight",))),
    ),
    "DeepseekV2Moe": (_deepseek_v2, (*ROUTED, *_shared("shared_experts"))),
    "DeepseekV3MoE": (_deepseek_v3, DEEPSEEK_V3),
    "Glm4MoeMoE": (_deepseek_v3, DEEPSEEK_V3),
    "GptOssMLP": (_gpt_oss, CLAMPED),
    "Llama4TextMoe": (_llama4, (*TURNED, *_shared("shared_expert"))),
}


def from_transformers(block: nn.Module) -> MoELayer:
    """The layer that computes what a block of a transformers model does, with copies of its parameters.

    Blocks: Mixtral, OLMoE, Qwen2-MoE, Qwen3-MoE, DeepSeek-V2, DeepSeek-V3, GLM-4-MoE, GPT-OSS and Llama 4, as
    transformers 5 stores them. Balance losses are the model's there and the router's here: set
    ``layer.router.losses``.
    """
    build, ties = _family(block)
    first = next(block.parameters())
    with torch.device("meta"):
        layer = build(block)
    state = {tie.ours: tie.to_ours([_tensor(block, name) for name in tie.theirs]).clone() for tie in ties}
    layer.load_state_dict(state, assign=True)
    materialize(layer, first.device)
    for parameter in layer.parameters():
        parameter.requires_grad_(first.requires_grad)
    return layer.train(block.training)


@torch.no_grad()
def to_transformers(layer: MoELayer, block: nn.Module) -> None:
    """Copy the parameters of a layer into a block of the make that it came from; the block changes in place."""
    _, ties = _family(block)
    state = layer.state_dict()
    wanted = sorted(tie.ours for tie in ties)
    if sorted(state) != wanted:
        raise ValueError(f"layer must have the state {wanted} of a {type(block).__name__}, not {sorted(state)}")
    for tie in ties:
        for name, part in zip(tie.theirs, tie.to_theirs(state[tie.ours]), strict=True):
            target = _tensor(block, name)
            if target.shape != part.shape:
                raise ValueError(f"{tie.ours} must fit {name}, {tuple(target.shape)}, but is {tuple(part.shape)}")
            target.copy_(part)


def _family(block: nn.Module) -> tuple[Callable[[Any], MoELayer], tuple[Tie, ...]]:
    name = type(block).__name__
    if name not in BLOCKS:
        raise ValueError(f"block must be one of {', '.join(BLOCKS)} of transformers, not a {name}")
    activation = getattr(block.experts, "act_fn", silu)
    sample = torch.linspace(-3.0, 3.0, 7)
    if not torch.equal(activation(sample), silu(sample)):
        raise ValueError(f"block must have silu as the activation of its experts, not {activation}")
    return BLOCKS[name]


def _tensor(block: nn.Module, path: str) -> Tensor:
    *owners, name = path.split(".")
    tensor: Tensor = getattr(block.get_submodule(".".join(owners)), name)
    return tensor.detach()
