"""Every layer equals a loop over tokens, in its output and in all gradients."""

import pytest
import torch

from gatewise import nn
from gatewise.nn.functional import grouped_swiglu
from tests.nn import nn_naive as naive
from tests.nn.nn_zoo import D, LAYERS, M, make

TOKENS = 9


def tokens(n=TOKENS, seed=1, dtype=torch.float64):
    return torch.randn(n, D, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def gradients(layer, y, x):
    inputs = [x, *layer.parameters()]
    target = torch.randn(y.shape, dtype=y.dtype, generator=torch.Generator().manual_seed(2))
    return torch.autograd.grad((y * target).sum(), inputs, allow_unused=True, materialize_grads=True)


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_equals_the_loop_over_tokens_with_all_gradients(name):
    layer, x = make(name), tokens().requires_grad_()
    fast, slow = layer(x), naive.layer(layer, x)
    torch.testing.assert_close(fast, slow)
    for a, b in zip(gradients(layer, fast, x), gradients(layer, slow, x), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("name", [name for name in LAYERS if name != "cartesian"])
def test_a_router_equals_the_loop_over_tokens(name):
    router, x = make(name).router, tokens(20)
    routing, expected = router(x).by_token(M), naive.route(router, x)
    indices = [[-1 if m is None else m for m, _ in places] for places in expected]
    assert routing.indices.tolist() == indices
    weights = torch.stack([torch.stack([w for _, w in places]) for places in expected])
    torch.testing.assert_close(routing.weights, torch.where(routing.indices < 0, 0.0, weights))


@pytest.mark.parametrize("name", ["dense", "top-3 after", "biased group limit", "mlp", "shared", "null experts"])
def test_derivatives_are_those_of_the_function(name):
    layer, x = make(name), tokens(4).requires_grad_()
    names, values = zip(*layer.named_parameters(), strict=True)

    def call(x, *parameters):
        return torch.func.functional_call(layer, dict(zip(names, parameters, strict=True)), (x,))

    assert torch.autograd.gradcheck(call, (x, *values), fast_mode=True)


TRANSFORMED = ["top-3 after", "mlp", "clamped swiglu", "modules", "input weighted", "dense"]


@pytest.mark.parametrize("name", TRANSFORMED)
def test_torch_func_gives_the_gradients_of_autograd_of_all_tokens_and_of_each(name):
    layer, x = make(name), tokens()
    parameters = {key: p.detach() for key, p in layer.named_parameters()}

    def total(parameters, x):
        return torch.func.functional_call(layer, parameters, (x,)).square().sum()

    whole = torch.func.grad(total)(parameters, x)
    each = torch.func.vmap(torch.func.grad(total), (None, 0))(parameters, x.unsqueeze(1))
    expected = torch.autograd.grad(layer(x).square().sum(), list(layer.parameters()))
    for a, b, c in zip(whole.values(), each.values(), expected, strict=True):
        torch.testing.assert_close(a, c)
        torch.testing.assert_close(b.sum(0), c)


@pytest.mark.slow  # torch takes seconds to prepare forward mode
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own
@pytest.mark.parametrize("name", TRANSFORMED)
def test_forward_mode_gives_the_derivatives_of_backward(name):
    layer, x, v = make(name), tokens().requires_grad_(), tokens(seed=3)
    (gradient,) = torch.autograd.grad(layer(x).square().sum(), x)
    _, tangent = torch.func.jvp(lambda x: layer(x).square().sum(), (x.detach(),), (v,))
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x.detach(), v)
        again = torch.autograd.forward_ad.unpack_dual(layer(dual).square().sum()).tangent
    for found in (tangent, again):
        torch.testing.assert_close(found, (gradient * v).sum())


def test_every_partial_derivative_of_the_grouped_product():
    torch.manual_seed(0)
    x, weights, gate_up, down = (
        torch.randn(*shape, dtype=torch.float64, requires_grad=True)
        for shape in ((5, 3), (5, 2), (4, 4, 3), (4, 3, 2))
    )
    indices = torch.tensor([[0, 2], [2, -1], [-1, -1], [2, 0], [0, 0]])  # experts 1 and 3 idle

    def call(x, weights, gate_up, down):
        return grouped_swiglu(x, indices, weights, gate_up, down)

    assert torch.autograd.gradcheck(call, (x, weights, gate_up, down))
    assert torch.autograd.gradgradcheck(call, (x, weights, gate_up, down), fast_mode=True)


def test_second_derivatives_exist():
    layer, x = make("top-3 after"), tokens(3).requires_grad_()
    assert torch.autograd.gradgradcheck(layer, (x,), fast_mode=True)


@pytest.mark.parametrize("name", LAYERS)
def test_leading_axes_are_tokens(name):
    layer, x = make(name), tokens(12)
    torch.testing.assert_close(layer(x.view(3, 2, 2, D)).flatten(0, 2), layer(x))


@pytest.mark.filterwarnings("ignore:.*chooses one expert a token")
@pytest.mark.parametrize("name", LAYERS)
def test_no_tokens_give_no_output_and_no_gradient(name):
    layer = make(name).train()
    y = layer(torch.zeros(0, D, dtype=torch.float64))
    assert y.shape[0] == 0
    (y.sum() + nn.auxiliary_loss(layer)).backward()
    assert all(p.grad is None or not p.grad.any() for p in layer.parameters())


@pytest.mark.parametrize("name", ["top-3 after", "mlp", "modules"])
def test_all_tokens_to_one_expert(name):
    layer, x = make(name), tokens()
    indices = torch.full((TOKENS, 1), 5)
    weights = torch.full((TOKENS, 1), 0.5, dtype=torch.float64)
    expected = 0.5 * torch.stack([naive.expert(layer.experts, 5, row) for row in x])
    torch.testing.assert_close(layer.experts(x, indices, weights), expected)
    torch.testing.assert_close(layer.experts.one(5, x), 2.0 * expected)


@pytest.mark.parametrize("name", ["top-3 after", "mlp", "modules"])
def test_minus_one_calls_nobody(name):
    layer, x = make(name), tokens()
    nobody = torch.full((TOKENS, 2), -1)
    y = layer.experts(x, nobody, torch.ones(TOKENS, 2, dtype=torch.float64))
    assert y.shape == layer(x).shape
    assert not y.any()


def test_a_module_without_tokens_is_not_called():
    class Refuses(torch.nn.Module):
        def forward(self, x):
            raise AssertionError("called")

    experts = nn.ModuleExperts([torch.nn.Identity(), Refuses(), torch.nn.Identity()])
    x = tokens()
    indices = torch.arange(TOKENS)[:, None] % 2 * 2
    torch.testing.assert_close(experts(x, indices, torch.ones(TOKENS, 1, dtype=torch.float64)), x)


@pytest.mark.parametrize("name", ["top-3 after", "mlp", "modules"])
def test_relabelling_the_experts_changes_nothing(name):
    layer, x = make(name), tokens()
    relabelled, order = make(name), torch.randperm(M)
    with torch.no_grad():
        relabelled.router.scores.weight.copy_(layer.router.scores.weight[order])
        if name == "modules":
            relabelled.experts.members = torch.nn.ModuleList(layer.experts.members[m] for m in order.tolist())
        else:
            for key, value in layer.experts.named_parameters():
                relabelled.experts.get_parameter(key).copy_(value[order])
    torch.testing.assert_close(relabelled(x), layer(x))


def test_top_m_equals_dense():
    dense, top = make("dense"), make("top-M")
    top.load_state_dict(dense.state_dict())
    torch.testing.assert_close(top(tokens()), dense(tokens()))


def test_sparse_and_dense_products_agree():
    layer, x = make("top-3 after"), tokens()
    routing = layer.router(x)
    table = routing.dense(M)
    for experts in (layer.experts, make("mlp").experts, make("modules").experts):
        torch.testing.assert_close(experts.dense(x, table), experts(x, routing.indices, routing.weights))
    torch.testing.assert_close(table.sum(1), torch.ones(TOKENS, dtype=torch.float64))


def test_one_wide_shared_expert_is_the_sum_of_narrow_ones():
    wide, x = nn.SwiGLU(D, 8).double(), tokens()
    narrow = [nn.SwiGLU(D, 4).double() for _ in range(2)]
    with torch.no_grad():
        for half, small in enumerate(narrow):
            rows = slice(4 * half, 4 * half + 4)
            small.gate_up.copy_(torch.cat([wide.gate_up[:8][rows], wide.gate_up[8:][rows]]))
            small.down.copy_(wide.down[:, rows])
    torch.testing.assert_close(wide(x), narrow[0](x) + narrow[1](x))


def test_a_wrong_hidden_size_is_an_error_that_names_it():
    layer = make("top-3 after")
    with pytest.raises(ValueError, match=r"x must have hidden size 6 on its last axis, but its shape is \(3, 7\)"):
        layer(torch.zeros(3, 7, dtype=torch.float64))
    with pytest.raises(ValueError, match="router must weigh as many experts as there are, 8, not 5"):
        nn.MoELayer(nn.SwiGLUExperts(8, D, 4), nn.Router(nn.LinearScores(D, 5)))
    with pytest.raises(ValueError, match="router must take hidden states of size 6, as experts do, not 7"):
        nn.MoELayer(nn.SwiGLUExperts(8, D, 4), nn.Router(nn.LinearScores(7, 8)))


def test_a_layer_prints_its_parts():
    text = repr(make("biased group limit")) + repr(make("mlp"))
    assert (
        "GroupLimitedTopK(k=3, n_groups=4, groups_kept=2, per_group=2), Normalized(phi='sigmoid', scale=2.5)" in text
    )
    assert "LinearScores(d=6, n_scores=8, bias=False)" in text
    assert "SwiGLUExperts(n_experts=8, d=6, hidden=5)" in text
    assert "MLPExperts(n_experts=8, d=6, hidden=5, d_out=3)" in text
