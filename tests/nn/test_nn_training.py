"""What training needs: losses that balance, state that keeps its precision, padding that counts nowhere."""

import copy
import math
import warnings

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from gatewise import nn
from gatewise.nn.balancing import load
from tests.nn.nn_zoo import D, LAYERS, M, make
from tests.nn.test_nn_layers import tokens

LOSSES = {
    "switch": nn.SwitchLoss(),
    "gshard": nn.GShardLoss(),
    "sequence": nn.SequenceLoss(),
    "global batch": nn.GlobalBatchLoss(),
    "importance": nn.ImportanceLoss(),
    "load": nn.LoadLoss(),
}


def skewed_sequences(width, clusters=4):
    """A function n -> n sequences of 32 tokens around four points, of which the m-th has odds 1 / m."""
    generator = torch.Generator().manual_seed(1)
    centres, odds = torch.randn(clusters, width, generator=generator), 1 / torch.arange(1, clusters + 1)

    def draw(n):
        labels = torch.multinomial(odds.expand(n, -1), 32, replacement=True, generator=generator)
        return centres[labels] + torch.randn(n, 32, width, generator=generator)

    return draw


def largest_load_after_training(loss, steps=300, n_experts=16, width=16):
    """The largest load over the mean one, for fresh tokens, of a layer trained with Adam beside one loss."""
    torch.manual_seed(0)
    scores = nn.LinearScores(width, n_experts)
    noisy = nn.NoisyScores(scores) if isinstance(loss, nn.LoadLoss) else scores
    router = nn.Router(noisy, nn.TopK(2), nn.SoftmaxBefore(), losses=[loss] if loss else [])
    layer, draw = nn.MoELayer(nn.SwiGLUExperts(n_experts, width, 8), router), skewed_sequences(width)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, steps)
    for _ in range(steps):
        x = draw(16)
        optimizer.zero_grad()
        ((layer(x) - 0.3 * torch.sin(x)).square().mean() + nn.auxiliary_loss(layer)).backward()
        optimizer.step()
        schedule.step()
    counts = load(layer.eval().router(draw(64)).indices, n_experts)[:-1]
    return (counts.max() / counts.mean()).item()


@pytest.mark.slow
def test_without_a_loss_few_experts_get_the_tokens():
    assert largest_load_after_training(None) > 3.0


@pytest.mark.parametrize("name", [n if n == "gshard" else pytest.param(n, marks=pytest.mark.slow) for n in LOSSES])
def test_every_loss_balances_at_its_published_coefficient(name):
    assert largest_load_after_training(LOSSES[name]) < 1.5


def test_at_balance_gshard_costs_its_coefficient_as_switch_does():
    even = nn.Choice(torch.zeros(8, 4), torch.full((8, 4), 0.25), torch.arange(8)[:, None] % 4, 4)
    assert nn.GShardLoss(0.5)(even).item() == pytest.approx(0.5) == nn.SwitchLoss(0.5)(even).item()


def test_the_sequence_loss_is_the_mean_of_the_losses_of_the_sequences():
    p = torch.randn(12, 5, generator=torch.Generator().manual_seed(0)).softmax(1)
    indices = p.topk(2, dim=1).indices
    choice = nn.Choice(p.log(), p, indices, 5, n_sequences=3)
    parts = [nn.Choice(p.log()[s], p[s], indices[s], 5) for s in (slice(0, 4), slice(4, 8), slice(8, 12))]
    expected = sum(nn.SwitchLoss(0.3)(part) for part in parts) / 3
    torch.testing.assert_close(nn.SequenceLoss(0.3)(choice), expected)
    assert not torch.isclose(nn.SwitchLoss(0.3)(choice), expected)


def test_a_layer_takes_its_sequences_from_the_shape():
    layer = make("top-3 after").train()
    layer.router.losses = (nn.SequenceLoss(1.0),)
    x = tokens(24)
    layer(x.view(2, 3, 4, D))
    nested = layer.losses["balance"]
    parts = []
    for part in x.view(6, 4, D):
        layer(part)
        parts.append(layer.losses["balance"])
    torch.testing.assert_close(nested, torch.stack(parts).mean())


def test_importance_by_hand():
    indices, weights = torch.tensor([[0, 1], [0, -1]]), torch.tensor([[0.5, 0.25], [1.5, 9.0]])
    choice = nn.Choice(torch.zeros(2, 3), torch.zeros(2, 3), indices, 3, weights)
    totals = [2.0, 0.25, 0.0]
    mean = sum(totals) / 3
    variance = sum((t - mean) ** 2 for t in totals) / 3
    assert nn.ImportanceLoss(0.7)(choice).item() == pytest.approx(0.7 * variance / mean**2)


def test_the_smooth_load_is_the_chance_of_being_chosen_when_its_noise_is_drawn_anew():
    """By simulation: fix the other noisy scores, draw one expert's noise many times, count how often it is chosen."""
    torch.manual_seed(0)
    scores = nn.NoisyScores(nn.LinearScores(D, M)).double()
    torch.nn.init.normal_(scores.weight)
    draw, k, n = scores.draw(tokens(1)), 3, 20_000
    expected = []
    for m in range(M):
        noisy = draw.noisy.repeat(n, 1)
        noisy[:, m] = draw.clean[0, m] + draw.deviation[0, m] * torch.randn(n, dtype=torch.float64)
        expected.append((noisy.topk(k, dim=1).indices == m).any(1).double().mean())
    expected = torch.stack(expected)
    indices = draw.noisy.topk(k, dim=1).indices
    loss = nn.LoadLoss(1.0)(nn.Choice(draw.noisy, draw.noisy, indices, M, draw=draw))
    assert loss.item() == pytest.approx(expected.var(correction=0).item() / expected.mean().item() ** 2, abs=0.02)
    loss.backward()
    assert scores.scores.weight.grad.abs().sum() > 0


def padded(x, mask):
    """x (S, L, d) at the places where mask (S, L') is True, anything elsewhere."""
    wide = torch.full((*mask.shape, x.shape[-1]), 1e3, dtype=x.dtype)
    wide[mask] = x.reshape(-1, x.shape[-1])
    return wide


PADDED = [name for name in LAYERS if name != "noisy scores"]


@pytest.mark.filterwarnings("ignore:.*chooses one expert a token")
@pytest.mark.parametrize("name", PADDED)
def test_padding_of_three_quarters_changes_nothing(name):
    x = tokens(40).view(4, 10, D)
    mask = torch.stack([torch.randperm(40, generator=torch.Generator().manual_seed(s)) < 10 for s in range(4)])
    plain, wide = make(name).train(), make(name).train()
    for layer in (plain, wide):
        for router in [m for m in layer.modules() if isinstance(m, nn.Router | nn.HierarchicalRouter)]:
            if not any(router is getattr(m, "inner", None) for m in layer.modules()):
                losses = [nn.SwitchLoss(name="a"), nn.SequenceLoss(name="b"), nn.GShardLoss(name="c"), nn.ZLoss()]
                router.losses = (*losses, nn.ImportanceLoss(), nn.GlobalBatchLoss(name="d"))
    y, z = plain(x), wide(padded(x, mask), mask)
    torch.testing.assert_close(z[mask].view_as(y), y, rtol=0, atol=1e-6)
    ours = [m.losses for m in plain.modules() if isinstance(m, nn.MoELayer)]
    theirs = [m.losses for m in wide.modules() if isinstance(m, nn.MoELayer)]
    for a, b in zip(ours, theirs, strict=True):
        assert a.keys() == b.keys()
        for key, value in a.items():
            torch.testing.assert_close(b[key], value, rtol=0, atol=1e-6)
    nn.update_biases(plain), nn.update_biases(wide)
    for a, b in zip(plain.buffers(), wide.buffers(), strict=True):
        assert torch.equal(a, b)


def test_padding_may_hold_what_is_not_finite_and_gets_no_routed_expert():
    layer, x = make("top-3 after"), tokens(4)
    wide = torch.cat([x, torch.full((2, D), math.nan, dtype=x.dtype)])
    mask = torch.tensor([1, 1, 1, 1, 0, 0])  # as tokenizers have it
    y = layer(wide, mask)
    torch.testing.assert_close(y[:4], layer(x))
    assert not y[4:].any()
    with pytest.raises(ValueError, match=r"mask must have the shape of x without its last axis, \(6,\), not \(5,\)"):
        layer(wide, mask[:5])


def test_the_capacity_counts_real_tokens_only_and_acts_in_evaluation_only_if_asked():
    indices, mask = torch.zeros(8, 1, dtype=torch.int64), torch.arange(8) < 4
    capacity = nn.Capacity(1.0)
    kept = capacity(torch.where(mask[:, None], indices, -1), 2, mask)
    assert (kept[:, 0] >= 0).tolist() == [True, True] + [False] * 6
    assert torch.equal(capacity(indices, 2, training=False), indices)
    assert (nn.Capacity(1.0, eval_factor=0.5)(indices, 2, training=False) >= 0).sum() == 2


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_the_bias_stays_in_float32_whatever_the_model_becomes(dtype):
    layer = make("biased group limit").float()
    bias = layer.router.bias
    bias.bias.fill_(0.1), bias.load.fill_(3.0)
    layer.to(dtype)
    assert bias.bias.dtype == bias.load.dtype == torch.float32
    assert torch.equal(bias.bias, torch.full((M,), 0.1))
    layer.load_state_dict({key: value.to(dtype) for key, value in layer.state_dict().items()}, assign=True)
    assert bias.bias.dtype == torch.float32


def test_two_thousand_pushes_of_a_thousandth_are_two():
    bias = nn.BiasBalancing(2).to(torch.bfloat16)
    for _ in range(2000):
        bias.count(torch.zeros(4, 1, dtype=torch.int64))
        bias.update()
    torch.testing.assert_close(bias.bias, torch.tensor([-2.0, 2.0]), rtol=1e-3, atol=0)


@pytest.mark.slow
def test_the_bias_ends_at_the_same_loads_in_bfloat16_and_float32():
    torch.manual_seed(0)
    router = nn.Router(nn.LinearScores(D, M), nn.TopK(2), nn.Normalized("sigmoid"), bias=nn.BiasBalancing(M))
    router.scores.weight.data.mul_(4.0)
    x = (torch.randn(1000, D) + 1.0).bfloat16()
    router.to(torch.bfloat16)
    ends = []
    for dtype in (torch.bfloat16, torch.float32):
        twin = copy.deepcopy(router).to(dtype).train()
        for _ in range(700):
            twin(x.to(dtype))
            nn.update_biases(twin)
        ends.append(load(twin.eval()(x.to(dtype)).indices, M)[:-1])
        assert twin.bias.bias.abs().max() > 0.25  # where a step of 0.001 is lost in bfloat16
    torch.testing.assert_close(ends[0], ends[1], rtol=0.02, atol=0)
    assert ends[0].max() < 1.1 * ends[0].mean()


def test_checkpointing_gives_the_same_gradients_and_counts_once():
    plain = make("biased group limit").train()
    plain.router.losses = (nn.SwitchLoss(), nn.ZLoss())
    twin, x = copy.deepcopy(plain), tokens().requires_grad_()
    (plain(x).square().sum() + nn.auxiliary_loss(plain)).backward()
    y = checkpoint(twin, x, use_reentrant=False)
    before = nn.auxiliary_loss(twin)
    (y.square().sum() + before).backward()
    for a, b in zip(plain.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad)
    assert torch.equal(plain.router.bias.load, twin.router.bias.load)
    assert nn.auxiliary_loss(twin) is not None
    torch.testing.assert_close(nn.auxiliary_loss(twin), before)


def test_checkpointing_that_would_lose_the_losses_is_an_error_with_its_remedy():
    model = torch.nn.Sequential(torch.nn.Identity(), make("top-3 after").train())
    model[1].router.losses = (nn.SwitchLoss(),)
    y = checkpoint(model, tokens().requires_grad_(), use_reentrant=True)
    with pytest.raises(RuntimeError, match=r"losses of MoELayer '1' have no gradient .* use_reentrant=False"):
        (y.square().sum() + nn.auxiliary_loss(model)).backward()


def test_reentrant_checkpointing_counts_loads_once():
    plain = make("biased group limit").train()
    twin, x = copy.deepcopy(plain), tokens().requires_grad_()
    plain(x).square().sum().backward()
    checkpoint(twin, x, use_reentrant=True).square().sum().backward()
    assert torch.equal(plain.router.bias.load, twin.router.bias.load)


def test_a_router_that_cannot_learn_says_so():
    layer = make("top-1").train()
    with pytest.warns(UserWarning, match=r"Router 'router' chooses one expert a token .* SoftmaxBefore\(\)"):
        layer(tokens())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        layer.eval()(tokens())
        with torch.no_grad():
            layer.train()(tokens())
        layer.router.weighting = nn.SoftmaxBefore()
        layer(tokens()).sum().backward()
    assert layer.router.scores.weight.grad.abs().sum() > 0


def test_groups_are_ranked_by_sums_of_affinities_not_of_scores():
    router = nn.Router(nn.LinearScores(1, 4), nn.GroupLimitedTopK(1, 2, 1), nn.Normalized("sigmoid"))
    router.scores.weight.data = torch.tensor([[0.1], [0.1], [3.0], [-3.5]])
    assert router.eval()(torch.ones(1, 1)).indices.tolist() == [[0]]  # 1.05 against 0.98; of scores 0.2 against -0.5
    router.scores.weight.data = torch.tensor([[-1.0], [-1.0], [3.0], [-6.0]])
    assert router(torch.ones(1, 1)).indices.tolist() == [[2]]  # 0.54 against 0.96; of scores -2 against -3


def test_expert_choice_gives_every_expert_the_same_number_of_tokens():
    layer, x = make("expert choice"), tokens(64)
    routing = layer.router(x)
    assert (load(routing.indices, M)[:-1] == 12).all()  # 1.5 * 64 / 8
    served = (routing.by_token(M).indices >= 0).sum(1)
    assert served.double().mean() == 1.5
    assert len(served.unique()) > 2
    with nn.record(layer) as recording:
        layer(x)
    assert recording.chosen.sum() == 96
    with nn.only_expert(layer, 2):
        weights = routing.dense(M).sum(1, keepdim=True)
        expected = torch.where(weights > 0, weights, 1.0) * layer.experts.one(2, x)
        torch.testing.assert_close(layer(x), expected)


@pytest.mark.filterwarnings("ignore:.*chooses one expert a token")
@pytest.mark.parametrize("name", LAYERS)
def test_every_parameter_has_a_gradient_even_without_tokens(name):
    """DistributedDataParallel waits for all of them."""
    for n in (0, 1):
        layer = make(name).train()
        layer(tokens(n)).sum().backward()
        assert [key for key, p in layer.named_parameters() if p.grad is None] == []
