"""The eight models: 8 or 64 experts; softmax, softmax with a shared expert, sigmoid with bias, frozen at random."""

import warnings
from typing import Any

import torch
from torch import nn, Tensor

from benchmarks.xray_study.corpus import VOCABULARY

D, LAYERS = 128, 3
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": D,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "max_position_embeddings": 512,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 1,
    "tie_word_embeddings": True,
}
EXPERTS = {8: (2, 192), 64: (8, 24)}  # M: K and the size of an expert; the parameters are as many
ROUTERS = ("softmax", "shared", "sigmoid", "frozen")


def dense_experts(self: Any, hidden: Tensor, indices: Tensor, weights: Tensor) -> Tensor:
    """All experts on all tokens in two products, which is the fastest way for experts as small as these."""
    m, width, d = self.gate_up_proj.shape
    table = torch.zeros(len(hidden), m, dtype=weights.dtype, device=hidden.device)
    table = table.scatter_add(1, indices, weights)
    gate, up = (hidden @ self.gate_up_proj.reshape(m * width, d).T).view(-1, m, width).chunk(2, dim=2)
    inner = self.act_fn(gate) * up * table[..., None].to(gate.dtype)
    product: Tensor = inner.flatten(1) @ self.down_proj.transpose(1, 2).reshape(m * (width // 2), d)
    return product.to(hidden.dtype)


def small_model(router: str, n_experts: int, seed: int = 0) -> nn.Module:
    """A model with random parameters, fixed by the seed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from transformers import AutoModelForCausalLM, CONFIG_MAPPING  # noqa: PLC0415
        from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS  # noqa: PLC0415
    ALL_EXPERTS_FUNCTIONS.register("dense", dense_experts)
    k, width = EXPERTS[n_experts]
    balance = {"output_router_logits": True, "router_aux_loss_coef": 0.01}
    families: dict[str, tuple[str, dict[str, Any]]] = {
        "softmax": ("olmoe", {"num_experts": n_experts, "intermediate_size": width, **balance}),
        "frozen": ("olmoe", {"num_experts": n_experts, "intermediate_size": width}),
        "shared": (
            "qwen2_moe",
            {
                "num_experts": n_experts,
                "moe_intermediate_size": width,
                "shared_expert_intermediate_size": 192,
                **balance,
            },
        ),
        "sigmoid": ("minimax_m2", {"num_local_experts": n_experts, "intermediate_size": width, "head_dim": D // 4}),
    }
    family, sizes = families[router]
    torch.manual_seed(seed)
    config = CONFIG_MAPPING[family](**SIZES, num_experts_per_tok=k, **sizes)
    model: Any = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa")
    model.set_experts_implementation("dense")
    if router == "frozen":
        for name, parameter in model.named_parameters():
            if name.endswith("mlp.gate.weight"):
                nn.init.normal_(parameter, std=0.1)
                parameter.requires_grad_(False)
    made: nn.Module = model
    return made


def biases(model: nn.Module) -> list[tuple[nn.Module, Tensor]]:
    """The blocks of a model whose router has a bias for the choice, and that bias."""
    found = []
    for module in model.modules():
        bias = dict(module.named_buffers(recurse=False)).get("e_score_correction_bias")
        if bias is not None:
            found.append((module, bias))
    return found
