"""A tiny model of every family of the transformers library that the X-ray is known to read, or to refuse."""

import warnings
from functools import cache

import torch

M, K, VOCABULARY = 8, 2, 48
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "num_experts_per_tok": K,
}
NARROW = {"moe_intermediate_size": 24}
ROUTED = {**NARROW, "n_routed_experts": M, "n_shared_experts": 1, "n_group": 2, "topk_group": 1}
DENSE_FIRST = {**ROUTED, "first_k_dense_replace": 0, "head_dim": 16}
LATENT = {"kv_lora_rank": 8, "q_lora_rank": 8, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 16}
INDEXED = {"index_n_heads": 2, "index_head_dim": 8, "index_topk": 64}
LINEAR = {
    "layer_types": ["linear_attention", "full_attention"],
    "linear_num_value_heads": 2,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
}

# The name of the family and what its configuration has beside SIZES.
FAMILIES = {
    "mixtral": {"num_local_experts": M},
    "mixtral sliding": {"num_local_experts": M, "sliding_window": 4},
    "olmoe": {"num_experts": M},
    "qwen2_moe": {**NARROW, "num_experts": M, "shared_expert_intermediate_size": 20},
    "qwen2_moe sliding": {
        **NARROW,
        "num_experts": M,
        "shared_expert_intermediate_size": 20,
        "use_sliding_window": True,
        "sliding_window": 4,
        "layer_types": ["sliding_attention", "full_attention"],
    },
    "qwen3_moe": {**NARROW, "num_experts": M, "head_dim": 16},
    "deepseek_v2": {**ROUTED, **LATENT, "first_k_dense_replace": 0, "topk_method": "group_limited_greedy"},
    "deepseek_v3": {**ROUTED, **LATENT, "first_k_dense_replace": 0, "head_dim": 8},
    "gpt_oss": {"num_local_experts": M, "head_dim": 16, "sliding_window": 4},
    "glm4_moe": DENSE_FIRST,
    "glm4_moe_lite": {**ROUTED, **LATENT, "head_dim": 8},
    "granitemoe": {"num_local_experts": M},
    "granitemoeshared": {"num_local_experts": M, "shared_intermediate_size": 20},
    "granitemoe_swa": {"num_local_experts": M},
    "ernie4_5_moe": {**NARROW, "moe_num_experts": M, "moe_k": K, "moe_layer_start_index": 0},
    "phimoe": {"num_local_experts": M},
    "minimax_m2": {"num_local_experts": M, "head_dim": 16},
    "flex_olmo": {"num_experts": M},
    "dots1": DENSE_FIRST,
    "exaone_moe": {**NARROW, "num_experts": M},
    "hunyuan_v1_moe": {"num_experts": M, "moe_topk": K, "head_dim": 16},
    "afmoe": {**NARROW, "num_experts": M, "num_dense_layers": 0, "head_dim": 16, "sliding_window": 4},
    "cohere2_moe": {"num_experts": M, "sliding_window": 4, "head_dim": 16},
    "solar_open": {**ROUTED, "head_dim": 16, "n_group": 1, "topk_group": 1},
    "laguna": {**NARROW, "num_experts": M, "head_dim": 16},
    "deepseek_v32": {**DENSE_FIRST, **LATENT, **INDEXED},
    "glm_moe_dsa": {**DENSE_FIRST, **LATENT, **INDEXED, "mlp_layer_types": ["sparse", "sparse"]},
    "hy_v3": {**NARROW, "num_experts": M, "first_k_dense_replace": 0, "head_dim": 16},
    "lfm2_moe": {**NARROW, "num_experts": M, "num_dense_layers": 0, "layer_types": ["full_attention"] * 2},
    "mellum": {**NARROW, "num_experts": M, "head_dim": 16, "mlp_layer_types": ["sparse", "sparse"]},
    "nemotron_h": {**DENSE_FIRST, "n_group": 1, "topk_group": 1, "layers_block_type": ["moe", "attention"]},
    "qwen3_5_moe_text": {**NARROW, **LINEAR, "num_experts": M, "shared_expert_intermediate_size": 20, "head_dim": 16},
    "jamba": {
        "num_experts": M,
        "num_hidden_layers": 2,
        "attn_layer_period": 2,
        "attn_layer_offset": 1,
        "expert_layer_period": 1,
        "expert_layer_offset": 0,
        "use_mamba_kernels": False,
        "mamba_d_state": 4,
        "mamba_dt_rank": 4,
    },
    "minimax": {
        "num_local_experts": M,
        "head_dim": 16,
        "layer_types": ["linear_attention", "full_attention"],
        "block_size": 8,
    },
    "qwen3_next": {**NARROW, **LINEAR, "num_experts": M, "shared_expert_intermediate_size": 20, "head_dim": 16},
}


@cache
def auto_classes():
    """The classes that make a model from a name; imported when a test asks for them, as that takes seconds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what transformers' own imports deprecate
        from transformers import AutoModelForCausalLM, CONFIG_MAPPING
    return AutoModelForCausalLM, CONFIG_MAPPING


def tiny(name, seed=0, **changes):
    """A tiny model of a family in float32 and evaluation mode, with parameters large enough for experts to differ."""
    models, configs = auto_classes()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        config = configs[name.partition(" ")[0]](**{**SIZES, **FAMILIES[name], **changes})
        torch.manual_seed(seed)
        model = models.from_config(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(std=0.15)
        for key, buffer in model.named_buffers():
            if "bias" in key:
                buffer.normal_(std=0.1)
    return model


def text(n=4, length=12, seed=1):
    """Token ids (n, length), none of them special."""
    return torch.randint(3, VOCABULARY, (n, length), generator=torch.Generator().manual_seed(seed))
