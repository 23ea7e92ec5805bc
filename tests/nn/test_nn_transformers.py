"""Layers of the parts against transformers' own modules, from the same parameters: experts, weights, output, loss."""

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


def _mixtral():
    models = family("mixtral")
    config = models.MixtralConfig(**SMALL, intermediate_size=HIDDEN, num_local_experts=M)
    return models.MixtralSparseMoeBlock(config), nn.preset("mixtral", d=D, hidden=HIDDEN, n_experts=M, k=K)


def _qwen(normalized):
    models = family("qwen3_moe")
    config = models.Qwen3MoeConfig(**SMALL, moe_intermediate_size=HIDDEN, num_experts=M, norm_topk_prob=normalized)
    return models.Qwen3MoeSparseMoeBlock(config), _plain(normalized)


def _olmoe(normalized):
    models = family("olmoe")
    config = models.OlmoeConfig(**SMALL, intermediate_size=HIDDEN, num_experts=M, norm_topk_prob=normalized)
    return models.OlmoeSparseMoeBlock(config), _plain(normalized)


def _plain(normalized):
    weighting = nn.Normalized() if normalized else nn.SoftmaxBefore()
    return nn.MoELayer(nn.SwiGLUExperts(M, D, HIDDEN), nn.Router(nn.LinearScores(D, M), nn.TopK(K), weighting))


def _deepseek():
    models = family("deepseek_v3")
    config = models.DeepseekV3Config(
        **SMALL,
        moe_intermediate_size=HIDDEN,
        n_routed_experts=M,
        n_shared_experts=2,
        n_group=4,
        topk_group=2,
        routed_scaling_factor=2.5,
        norm_topk_prob=True,
    )
    sizes = {"n_experts": M, "k": K, "n_groups": 4, "groups_kept": 2, "n_shared": 2, "scale": 2.5}
    return models.DeepseekV3MoE(config), nn.preset("deepseek-v3", d=D, hidden=HIDDEN, **sizes)


PAIRS = {
    "mixtral": _mixtral,
    "qwen3 normalized": lambda: _qwen(True),
    "qwen3": lambda: _qwen(False),
    "olmoe": lambda: _olmoe(False),
    "olmoe normalized": lambda: _olmoe(True),
    "deepseek-v3": _deepseek,
}


def pair(name):
    """Their module and ours with the same random parameters, in evaluation mode."""
    torch.manual_seed(0)
    theirs, ours = PAIRS[name]()
    with torch.no_grad():
        for tensor in [*theirs.parameters(), *theirs.buffers()]:
            tensor.normal_(std=0.5)
    state = {
        "experts.gate_up": theirs.experts.gate_up_proj,
        "experts.down": theirs.experts.down_proj,
        "router.scores.weight": theirs.gate.weight,
    }
    if name == "deepseek-v3":
        shared = theirs.shared_experts
        state |= {
            "router.bias.bias": theirs.gate.e_score_correction_bias,
            "shared.0.gate_up": torch.cat([shared.gate_proj.weight, shared.up_proj.weight]),
            "shared.0.down": shared.down_proj.weight,
        }
    ours.load_state_dict(state)
    return theirs.eval(), ours.eval()


def hidden(n=40):
    return torch.randn(2, n // 2, D, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("name", PAIRS)
def test_the_same_experts_with_the_same_weights(name):
    theirs, ours = pair(name)
    x = hidden(400).view(-1, D)
    _, weights, indices = theirs.gate(x)
    routing = ours.router(x)
    table = torch.zeros(len(x), M).scatter(1, indices, weights.float())
    assert torch.equal(routing.indices.sort(1).values, indices.sort(1).values)
    torch.testing.assert_close(routing.dense(M), table)


@pytest.mark.parametrize("name", PAIRS)
def test_the_same_output_and_the_same_gradients(name):
    theirs, ours = pair(name)
    x, z = hidden().requires_grad_(), hidden().requires_grad_()
    a, b = theirs(x), ours(z)
    torch.testing.assert_close(a, b)
    target = torch.randn_like(a)
    (a * target).sum().backward()
    (b * target).sum().backward()
    torch.testing.assert_close(x.grad, z.grad, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(theirs.gate.weight.grad, ours.router.scores.weight.grad, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(theirs.experts.down_proj.grad, ours.experts.down.grad, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(theirs.experts.gate_up_proj.grad, ours.experts.gate_up.grad, rtol=1e-4, atol=1e-4)


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
