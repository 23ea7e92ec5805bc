"""Laws of the parts: choice, weights, balance, capacity, noise, bad input."""

import math

import pytest
import torch

from gatewise import nn
from gatewise.kernels import top_k
from gatewise.nn.balancing import load
from gatewise.nn.choice import top_k_tensor
from tests.nn.nn_zoo import D, LAYERS, M, make
from tests.nn.test_nn_layers import tokens

OTHERS = (
    *("cartesian", "capacity", "top-3 before", "scaled top-3 before", "null experts before"),
    *("sigmoid each", "input weighted"),
)
SIMPLEX = [name for name in LAYERS if name not in (*OTHERS, "expert choice")]


def scores(n=50, m=M, seed=3):
    return torch.randn(n, m, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_equal_scores_go_to_the_smaller_index():
    for m in (5, 64, 300):  # small and large sorts take different ways
        tied = torch.zeros(7, m)
        tied[:, m - 1] = 1.0
        assert top_k_tensor(tied, 4).tolist() == [[m - 1, 0, 1, 2]] * 7
    rows = torch.randint(0, 3, (200, 40), generator=torch.Generator().manual_seed(0)).float()
    assert (top_k_tensor(rows, 10).numpy() == top_k(rows.double().numpy(), 10)).all()  # the NumPy reference


def test_ties_agree_with_the_statistical_side():
    from gatewise import LinearGate

    gate, router = LinearGate(4, k=2), nn.Router(nn.LinearScores(2, 4), nn.TopK(2))
    theta = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    router.scores.weight.data = torch.cat([theta, torch.zeros(1, 2)])
    x = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 0.0], [1.0, 1.0]])
    active = gate.active(x.numpy(), torch.cat([theta, torch.zeros(3, 1)], dim=1).numpy())
    assert router(x).indices.tolist() == active.tolist()


def test_a_choice_by_scores_does_not_underflow():
    router = nn.Router(nn.LinearScores(1, 4), nn.TopK(2), nn.SoftmaxBefore())
    router.scores.weight.data = torch.tensor([[200.0], [0.0], [50.0], [60.0]])
    assert router(torch.ones(1, 1)).indices.tolist() == [[0, 3]]


@pytest.mark.parametrize("name", SIMPLEX)
def test_weights_lie_on_the_scaled_simplex(name):
    router = make(name).router
    routing = router(tokens(40))
    assert (routing.weights >= 0).all()
    assert not routing.weights[routing.indices < 0].any()
    served = (routing.indices >= 0).any(1)
    scale = 2.5 if name == "biased group limit" else 1.0
    torch.testing.assert_close(routing.weights.sum(1), scale * served.double())


def test_softmax_before_keeps_less_than_one():
    weights = nn.SoftmaxBefore()(scores(), top_k_tensor(scores(), 3))
    assert (weights.sum(1) < 1).all()
    torch.testing.assert_close(
        weights / weights.sum(1, keepdim=True), nn.Normalized()(scores(), top_k_tensor(scores(), 3))
    )


@pytest.mark.parametrize("selection", [nn.Dense(), nn.TopK(3), nn.Threshold(4, 0.1)])
def test_a_constant_on_all_scores_changes_nothing_under_exp(selection):
    for shift in (-30.0, 30.0):
        chosen, moved = selection(scores()), selection(scores() + shift)
        assert torch.equal(chosen, moved)
        torch.testing.assert_close(nn.Normalized()(scores() + shift, moved), nn.Normalized()(scores(), chosen))


def test_selection_by_bias_differs_from_selection_by_scores_and_leaves_the_weights():
    """DeepSeek-V3's trap: Top-K of the raw scores is another choice."""
    layer = make("biased group limit")
    router, x = layer.router, tokens(200)
    routing = router(x)
    assert (routing.indices.sort(1).values != top_k_tensor(routing.scores, 3).sort(1).values).any(
        1
    ).float().mean() > 0.3
    affinity = torch.sigmoid(routing.scores).gather(1, routing.indices)
    torch.testing.assert_close(routing.weights, 2.5 * affinity / affinity.sum(1, keepdim=True))


def test_group_limits_keep_few_groups():
    chosen = nn.GroupLimitedTopK(3, 4, 2)(scores(200))
    assert all(len(set((row // 2).tolist())) <= 2 for row in chosen)


def test_the_threshold_makes_the_number_of_experts_vary():
    chosen = nn.Threshold(4, 0.15)(2.0 * scores(200))
    counts = (chosen >= 0).sum(1)
    assert counts.min() >= 1
    assert len(counts.unique()) >= 3
    assert (nn.Threshold(4, 0.0)(scores()) == top_k_tensor(scores(), 4)).all()
    assert ((nn.Threshold(4, 1.0)(scores()) >= 0).sum(1) == 1).all()


def test_null_experts_make_the_number_of_experts_vary_even_down_to_none():
    counts = (nn.NullExperts(3, 4)(scores(400, M + 4)) >= 0).sum(1)
    assert set(counts.tolist()) == {0, 1, 2, 3}


def test_capacity_drops_the_last_and_keeps_first_choices():
    indices = torch.tensor([[0, 1], [0, 1], [0, 1], [1, 0]])
    kept = nn.Capacity(0.5)(indices, 2)  # room for 2 an expert
    assert kept.tolist() == [[0, 1], [0, -1], [-1, -1], [1, -1]]
    assert torch.equal(nn.Capacity(2.0)(indices, 2), indices)


def test_a_dropped_token_passes_through_a_residual_connection():
    layer = make("top-1")
    layer.router.capacity = nn.Capacity(1e-3, eval_factor=1e-3)
    x = tokens(16)
    routing, y = layer.router(x), x + layer(x)
    dropped = routing.indices[:, 0] < 0
    assert dropped.any()
    assert torch.equal(y[dropped], x[dropped])
    assert (load(routing.indices, M)[:-1] <= 1).all()


def test_the_switch_loss_is_least_at_balance_and_counts_shares():
    loss = nn.SwitchLoss(coefficient=1.0)
    even = nn.Choice(torch.zeros(8, 4), torch.full((8, 4), 0.25), torch.arange(8)[:, None] % 4, 4)
    assert loss(even).item() == pytest.approx(1.0)
    collapsed = nn.Choice(torch.zeros(8, 4), torch.eye(4)[:1].expand(8, 4), torch.zeros(8, 1, dtype=torch.int64), 4)
    assert loss(collapsed).item() == pytest.approx(4.0)


def test_losses_by_hand():
    s = torch.tensor([[2.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    p, indices = s.softmax(1), torch.tensor([[0, 1], [1, 0]])
    choice = nn.Choice(s, p, indices, 3)
    mean = [(p[0, m] + p[1, m]).item() / 2 for m in range(3)]
    assert nn.SwitchLoss(0.5)(choice).item() == pytest.approx(0.5 * 3 * (0.5 * mean[0] + 0.5 * mean[1]))
    assert nn.GShardLoss(0.5)(choice).item() == pytest.approx(0.5 * 3 * (0.5 * mean[0] + 0.5 * mean[1]))
    z = [math.log(sum(math.exp(v) for v in row)) ** 2 for row in s.tolist()]
    assert nn.ZLoss(0.5)(choice).item() == pytest.approx(0.25 * sum(z))


def test_null_experts_share_one_mean_load_in_the_loss():
    p = torch.tensor([[0.4, 0.1, 0.3, 0.2]])
    choice = nn.Choice(p.log(), p, torch.tensor([[0, -1]]), 2)
    assert nn.SwitchLoss(1.0)(choice).item() == pytest.approx(4 * (0.5 * 0.4 + 0.25 * 0.3 + 0.25 * 0.2))


def test_losses_reach_the_layer_in_training_only():
    layer = make("top-3 after")
    layer.router.losses = (nn.SwitchLoss(), nn.ZLoss())
    layer.train()(tokens())
    assert set(layer.losses) == {"balance", "z"}
    nn.auxiliary_loss(torch.nn.Sequential(layer)).backward()
    assert layer.router.scores.weight.grad.abs().sum() > 0
    layer.eval()(tokens())
    assert layer.losses == {}
    assert nn.auxiliary_loss(layer) == 0


def test_bias_balancing_evens_out_the_load():
    torch.manual_seed(0)
    router = nn.Router(
        nn.LinearScores(D, M, bias=True), nn.TopK(2), nn.Normalized("sigmoid"), bias=nn.BiasBalancing(M, 0.02)
    )
    router.scores.bias.data.copy_(torch.linspace(-1.0, 1.0, M))
    x = tokens(400, dtype=torch.float32)
    before = load(router.eval()(x).indices, M)[:-1]
    for _ in range(80):
        router.train()(x)
        nn.update_biases(router)
    after = load(router.eval()(x).indices, M)[:-1]
    assert before.max() > 1.7 * before.mean()
    assert after.max() < 1.2 * after.mean()
    assert not router.bias.load.any()


def test_noise_acts_in_training_only_and_follows_the_seed():
    layer, x = make("noisy scores"), tokens()
    quiet = layer(x)
    torch.testing.assert_close(layer(x), quiet, rtol=0, atol=0)
    layer.train()
    torch.manual_seed(7)
    first = layer(x)
    torch.manual_seed(7)
    assert torch.equal(layer(x), first)
    assert not torch.equal(layer(x), first)
    assert not torch.equal(first, quiet)


def test_the_scale_of_the_noise_is_learned():
    noisy = nn.NoisyScores(nn.LinearScores(D, M))
    with torch.no_grad():
        noisy.weight[0] = 2.0
    x = torch.ones(4000, D)
    torch.manual_seed(0)
    deviation = (noisy.train()(x) - noisy.scores(x)).std(0)
    wanted = torch.nn.functional.softplus(noisy.weight.sum(1))
    torch.testing.assert_close(deviation, wanted.detach(), rtol=0.05, atol=0.0)


def test_jitter_acts_in_training_only():
    jittered = nn.JitteredScores(nn.LinearScores(D, M), 0.5)
    x = torch.ones(2000, D)
    assert torch.equal(jittered.eval()(x), jittered.scores(x))
    torch.manual_seed(0)
    noisy = jittered.train()(x)
    torch.testing.assert_close(noisy.mean(0), jittered.scores(x)[0], atol=0.03, rtol=0)
    assert noisy.std(0).min() > 0.01


def test_the_second_choice_is_taken_up_as_often_as_its_weight_says():
    torch.manual_seed(0)
    indices = torch.tensor([[0, 1]]).expand(20_000, 2)
    kept = nn.RandomSecond(2.0)(indices, torch.tensor([[0.9, 0.1]]).expand(20_000, 2))
    assert (kept[:, 0] == 0).all()
    assert (kept[:, 1] >= 0).double().mean().item() == pytest.approx(0.2, abs=0.015)
    assert torch.equal(nn.RandomSecond(2.0)(indices, torch.full((20_000, 2), 0.5)), indices)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("name", ["top-3 after", "expert choice"])
def test_scores_that_are_not_finite_are_an_error_that_names_the_router(bad, name):
    layer, x = make(name), tokens()
    x[3, 2] = bad
    with pytest.raises(ValueError, match=r"scores must be finite, but .*Router 'router' got a NaN or an infin"):
        layer(x)
    model = torch.nn.ModuleDict({"blocks": torch.nn.Sequential(torch.nn.Identity(), layer)})
    with pytest.raises(ValueError, match=r"scores must be finite, but .*Router '1\.router' got"):
        model["blocks"](x)


def test_tokens_of_another_dtype_are_an_error_with_its_remedy():
    model = torch.nn.Sequential(torch.nn.Identity(), make("top-3 after").float())
    with pytest.raises(ValueError, match=r"experts of MoELayer '1', torch.float32, not torch.float64: .*autocast"):
        model(tokens())


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: nn.Router(nn.LinearScores(4, 3), nn.TopK(5)), "k must be a whole number from 1 to 3, not 5"),
        (lambda: nn.TopK(0), "k must be a whole number at least 1, not 0"),
        (
            lambda: nn.Router(nn.LinearScores(4, 6), nn.GroupLimitedTopK(2, 4, 2)),
            "n_groups must divide the 6 experts",
        ),
        (
            lambda: nn.Router(nn.LinearScores(4, 8), nn.GroupLimitedTopK(5, 4, 2)),
            "k must be a whole number from 1 to 4",
        ),
        (lambda: nn.Router(nn.LinearScores(4, 4), nn.NullExperts(2, 4)), "n_null must be a whole number from 1 to 3"),
        (lambda: nn.Threshold(2, 1.5), "level must lie in"),
        (lambda: nn.Normalized("softplus"), "phi must be 'exp', 'sigmoid' or a callable"),
        (lambda: nn.Normalized(scale=0.0), "scale must be a finite number above 0"),
        (lambda: nn.Capacity(0.0), "factor must be a finite number above 0"),
        (lambda: nn.JitteredScores(nn.LinearScores(4, 4), 2.0), "width must lie in"),
        (lambda: nn.BiasBalancing(4, 0.0), "speed must be a finite number above 0"),
        (
            lambda: nn.Router(nn.LinearScores(4, 4), nn.Threshold(2, 0.1), bias=nn.BiasBalancing(4)),
            "bias must be None with a Threshold",
        ),
        (
            lambda: nn.Router(nn.LinearScores(4, 4), nn.TopK(2), bias=nn.BiasBalancing(5)),
            "bias must have one entry for each of 4 experts",
        ),
        (
            lambda: nn.Router(nn.LinearScores(4, 4), losses=[nn.SwitchLoss(), nn.GShardLoss()]),
            "losses must have different names",
        ),
        (
            lambda: nn.Router(nn.LinearScores(4, 4), nn.TopK(2), losses=[nn.LoadLoss()]),
            "scores must be NoisyScores with a LoadLoss",
        ),
        (lambda: nn.Capacity(1.0, eval_factor=-1.0), "eval_factor must be a finite number above 0"),
        (lambda: nn.SoftmaxBefore(0.0), "scale must be a finite number above 0"),
        (lambda: nn.SigmoidEach(-1.0), "scale must be a finite number above 0"),
        (lambda: nn.ExpertChoiceRouter(nn.LinearScores(4, 4), 0.0), "factor must be a finite number above 0"),
        (
            lambda: nn.HierarchicalRouter(nn.Router(nn.LinearScores(4, 3)), nn.Router(nn.LinearScores(4, 8))),
            "inner must have a multiple of the outer router's 3 scores, not 8",
        ),
        (
            lambda: nn.HierarchicalRouter(nn.Router(nn.LinearScores(4, 2)), nn.Router(nn.LinearScores(5, 8))),
            "inner must take hidden states of size 4",
        ),
        (
            lambda: nn.HierarchicalRouter(
                nn.Router(nn.LinearScores(4, 2)), nn.Router(nn.LinearScores(4, 8), losses=[nn.ZLoss()])
            ),
            "inner must have no losses",
        ),
        (
            lambda: nn.CartesianLayer(make("top-1"), nn.preset("mixtral", d=8, hidden=4)),
            "second must take hidden states",
        ),
        (lambda: make("top-1").experts.one(8, tokens()), "m must be a whole number from 0 to 7, not 8"),
    ],
)
def test_bad_parts_are_errors_that_name_the_argument(build, message):
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.filterwarnings("ignore:.*chooses one expert a token")
def test_hierarchical_losses_are_named_by_level():
    outer = nn.Router(nn.LinearScores(D, 4), nn.TopK(2), losses=[nn.SwitchLoss()])
    router = nn.HierarchicalRouter(outer, nn.Router(nn.LinearScores(D, M), nn.TopK(1)), losses=[nn.SwitchLoss()])
    routing = router(torch.randn(30, D))
    assert set(routing.losses) == {"outer_balance", "balance"}
    torch.testing.assert_close(routing.scores.exp().sum(1), torch.ones(30))
    shares = torch.bincount(routing.indices.flatten(), minlength=M) / routing.indices.numel()
    wanted = nn.SwitchLoss().coefficient * M * shares @ routing.scores.exp().mean(0)
    torch.testing.assert_close(routing.losses["balance"], wanted)


@pytest.mark.parametrize("weighting", [nn.SoftmaxBefore(), nn.Normalized(), nn.SigmoidEach()])
def test_weights_of_other_tokens_are_refused_and_a_nan_stays_with_its_token(weighting):
    scores = torch.tensor([[float("nan"), 0.0, 1.0], [0.0, 1.0, 2.0]])
    weights = weighting(scores, torch.tensor([[0, 1], [1, 2]]))
    assert weights[0].isnan().any()
    assert torch.equal(weights[1], weighting(scores[1:], torch.tensor([[1, 2]]))[0])
    for bad in (scores[:1], scores[0], torch.zeros(3, 3)):
        with pytest.raises(ValueError, match="same T"):
            weighting(bad, torch.tensor([[0, 1], [1, 2]]))
