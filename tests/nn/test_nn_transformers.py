"""Layers of the parts against transformers' own modules, from the same parameters: experts, weights, output, loss."""

import copy
import warnings
from functools import cache
from importlib import import_module

import pytest
import torch

from gatewise import nn
from gatewise.nn.choice import top_k_tensor

D, HIDDEN, M, K = 16, 24, 8, 3
SMALL = {"hidden_size": D, "num_attention_heads": 2, "num_key_value_heads": 2, "num_experts_per_tok": K}


@cache
def family(name):
    """The modules of a family of models; imported when a test asks for them, as that takes seconds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what transformers' own imports deprecate
        return import_module(f"transformers.models.{name}.modeling_{name}")


def _block(name, block, **sizes):
    """A block of a family at a small size."""
    models = family(name)
    config = getattr(models, CONFIGS[name])(**SMALL, **sizes)
    return getattr(models, block)(config)


CONFIGS = {
    "mixtral": "MixtralConfig",
    "qwen2_moe": "Qwen2MoeConfig",
    "qwen3_moe": "Qwen3MoeConfig",
    "olmoe": "OlmoeConfig",
    "deepseek_v2": "DeepseekV2Config",
    "deepseek_v3": "DeepseekV3Config",
    "glm4_moe": "Glm4MoeConfig",
    "gpt_oss": "GptOssConfig",
    "llama4": "Llama4TextConfig",
}
NARROW = {"moe_intermediate_size": HIDDEN}
GROUPED = {**NARROW, "n_routed_experts": M, "n_shared_experts": 2, "n_group": 4, "topk_group": 2}
QWEN = {**NARROW, "num_experts": M}
BLOCKS = {
    "mixtral": lambda: _block("mixtral", "MixtralSparseMoeBlock", intermediate_size=HIDDEN, num_local_experts=M),
    "qwen3 normalized": lambda: _block("qwen3_moe", "Qwen3MoeSparseMoeBlock", **QWEN, norm_topk_prob=True),
    "qwen3": lambda: _block("qwen3_moe", "Qwen3MoeSparseMoeBlock", **QWEN, norm_topk_prob=False),
    "qwen2": lambda: _block("qwen2_moe", "Qwen2MoeSparseMoeBlock", **QWEN, shared_expert_intermediate_size=20),
    "olmoe": lambda: _block("olmoe", "OlmoeSparseMoeBlock", intermediate_size=HIDDEN, num_experts=M),
    "olmoe normalized": lambda: _block(
        "olmoe", "OlmoeSparseMoeBlock", intermediate_size=HIDDEN, num_experts=M, norm_topk_prob=True
    ),
    "deepseek-v2": lambda: _block("deepseek_v2", "DeepseekV2Moe", **GROUPED, routed_scaling_factor=16.0),
    "deepseek-v2 groups": lambda: _block(
        "deepseek_v2", "DeepseekV2Moe", **GROUPED, routed_scaling_factor=16.0, topk_method="group_limited_greedy"
    ),
    "deepseek-v3": lambda: _block("deepseek_v3", "DeepseekV3MoE", **GROUPED, routed_scaling_factor=2.5),
    "deepseek-v3 free": lambda: _block("deepseek_v3", "DeepseekV3MoE", **GROUPED, norm_topk_prob=False),
    "glm-4": lambda: _block("glm4_moe", "Glm4MoeMoE", **GROUPED),
    "gpt-oss": lambda: _block("gpt_oss", "GptOssMLP", intermediate_size=HIDDEN, num_local_experts=M),
    "llama-4": lambda: _block("llama4", "Llama4TextMoe", intermediate_size=HIDDEN, num_local_experts=M),
}


def pair(name):
    """Their block with random parameters, and the layer that was made from it."""
    torch.manual_seed(0)
    theirs = BLOCKS[name]().eval()
    with torch.no_grad():
        for tensor in [*theirs.parameters(), *theirs.buffers()]:
            tensor.normal_(std=0.5)
    return theirs, nn.from_transformers(theirs)


def output(theirs, x):
    y = theirs(x)
    return (y[0] if isinstance(y, tuple) else y).view_as(x)


def hidden(n=40):
    return torch.randn(2, n // 2, D, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("name", BLOCKS)
def test_the_same_experts_with_the_same_weights(name):
    theirs, ours = pair(name)
    x = hidden(400).view(-1, D)
    found = getattr(theirs, "gate", getattr(theirs, "router", None))(x)
    if name == "llama-4":  # a table of all experts, zero where they are not chosen
        found = None, *found[0].topk(K, dim=1)
    _, weights, indices = found
    routing = ours.router(x)
    table = torch.zeros(len(x), M).scatter(1, indices, weights.float())
    assert torch.equal(routing.indices.sort(1).values, indices.sort(1).values)
    torch.testing.assert_close(routing.dense(M), table)


@pytest.mark.parametrize("name", BLOCKS)
def test_the_same_output_and_the_same_gradients(name):
    theirs, ours = pair(name)
    x, z = hidden().requires_grad_(), hidden().requires_grad_()
    a, b = output(theirs, x), ours(z)
    scale = a.detach().abs().max()
    torch.testing.assert_close(a / scale, b / scale)
    target = torch.randn_like(a) / scale
    (a * target).sum().backward()
    (b * target).sum().backward()
    torch.testing.assert_close(x.grad, z.grad, rtol=1e-4, atol=1e-4)
    gradients = type(theirs)(theirs.config) if hasattr(theirs, "config") else BLOCKS[name]()
    twin = nn.from_transformers(theirs)
    for parameter, own in zip(twin.parameters(), ours.parameters(), strict=True):
        parameter.data = own.grad
    nn.to_transformers(twin, gradients)  # a gradient has the places of its parameter
    for (key, parameter), other in zip(theirs.named_parameters(), gradients.parameters(), strict=True):
        torch.testing.assert_close(parameter.grad, other.detach(), rtol=1e-4, atol=1e-4, msg=key)


@pytest.mark.parametrize("name", BLOCKS)
def test_there_and_back(name):
    theirs, ours = pair(name)
    twin = BLOCKS[name]().eval()
    nn.to_transformers(ours, twin)
    assert theirs.state_dict().keys() == twin.state_dict().keys()
    for key, value in theirs.state_dict().items():
        assert torch.equal(twin.state_dict()[key], value), key
    with torch.no_grad():
        for parameter in ours.experts.parameters():
            parameter.add_(1.0)
    assert not torch.equal(ours(hidden()), output(theirs, hidden()))  # copies, not views


def test_dtype_mode_and_frozen_parameters_come_along():
    theirs = BLOCKS["deepseek-v3"]().to(torch.bfloat16).requires_grad_(False)
    ours = nn.from_transformers(theirs)
    assert ours.training
    assert not any(parameter.requires_grad for parameter in ours.parameters())
    assert ours.experts.dtype == torch.bfloat16
    assert ours.router.bias.bias.dtype == torch.float32


def test_what_is_no_block_or_does_not_fit_is_an_error_that_says_so():
    with pytest.raises(ValueError, match=r"block must be one of MixtralSparseMoeBlock, .* not a Linear"):
        nn.from_transformers(torch.nn.Linear(2, 2))
    _, ours = pair("olmoe")
    with pytest.raises(ValueError, match=r"layer must have the state .* of a GptOssMLP"):
        nn.to_transformers(ours, BLOCKS["gpt-oss"]())
    noisy = BLOCKS["mixtral"]()
    noisy.jitter_noise = 0.1
    with pytest.raises(ValueError, match=r"block\.jitter_noise must be 0"):
        nn.from_transformers(noisy)


@cache
def language_model():
    models = family("olmoe")
    config = models.OlmoeConfig(
        **SMALL, intermediate_size=HIDDEN, num_experts=M, num_hidden_layers=2, vocab_size=50, pad_token_id=0
    )
    torch.manual_seed(0)
    return models.OlmoeForCausalLM(config).train()


def losses_of_training(model, steps):
    """The losses of a language model on sequences in which a token is mostly the one before it plus three."""
    generator, losses = torch.Generator().manual_seed(0), []
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(steps):
        start, jumps = torch.randint(50, (4, 1), generator=generator), torch.full((4, 24), 3)
        noise = torch.rand(4, 24, generator=generator) < 0.1
        jumps[noise] = torch.randint(50, (int(noise.sum()),), generator=generator)
        ids = (start + jumps.cumsum(1)) % 50
        loss = model(input_ids=ids, labels=ids).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.slow
def test_a_language_model_trains_as_with_their_blocks():
    theirs = copy.deepcopy(language_model())
    ours = copy.deepcopy(theirs)
    for block in ours.model.layers:
        block.mlp = nn.from_transformers(block.mlp)
    expected = losses_of_training(theirs, 100)
    found = losses_of_training(ours, 100)
    assert max(abs(a - b) for a, b in zip(found, expected, strict=True)) < 1e-4
    assert expected[-1] < 0.6 * expected[0]


def test_in_deepseek_v3_the_largest_scores_are_the_wrong_choice():
    theirs, ours = pair("deepseek-v3")
    x = hidden(400).view(-1, D)
    scores, _, indices = theirs.gate(x)
    wrong = top_k_tensor(scores, K).sort(1).values != indices.sort(1).values
    assert wrong.any(1).float().mean() > 0.5
    assert torch.equal(ours.router(x).indices.sort(1).values, indices.sort(1).values)


def test_the_balance_loss_is_theirs_up_to_k():
    """Theirs counts assignments per token, with sum K; ours counts shares of assignments, with sum one."""
    theirs, ours = pair("mixtral")
    ours.router.losses = (nn.SwitchLoss(1.0),)
    x = hidden(400).view(-1, D)
    scores, _, _ = theirs.gate(x)
    expected = family("mixtral").load_balancing_loss_func((scores,), M, K) / K
    torch.testing.assert_close(ours.train().router(x).losses["balance"], expected)
