"""From torch layers to the statistical side and back: conversion, recording, geometry, specialization."""

import numpy as np
import pytest
import torch

import gatewise as gw
from gatewise import nn
from gatewise.experts import AffineExpert
from tests.nn.nn_zoo import softplus_phi

D, M = 3, 5


def scalar_layer(selection=None, weighting=None, scores=None, shared=(), **parts):
    torch.manual_seed(0)
    router = nn.Router(
        scores or nn.LinearScores(D, M, bias=True), selection or nn.TopK(2), weighting or nn.Normalized(), **parts
    )
    layer = nn.MoELayer(nn.MLPExperts(M, D, 7, d_out=1), router, shared).double().eval()
    for module in layer.modules():
        if isinstance(module, nn.Scores):
            torch.nn.init.normal_(module.weight)
            if module.bias is not None:
                torch.nn.init.normal_(module.bias)
    return layer


def rows(n=60):
    return np.random.default_rng(0).normal(size=(n, D))


def reference(layer):
    """The layer with zero scores for the last expert."""
    layer.router.scores.weight.data[-1] = 0.0
    layer.router.scores.bias.data[-1] = 0.0
    return layer


CONVERTIBLE = {
    "dense": lambda: scalar_layer(nn.Dense()),
    "top-2": lambda: scalar_layer(nn.TopK(2)),
    "softmax before, dense": lambda: scalar_layer(nn.Dense(), nn.SoftmaxBefore()),
    "quadratic": lambda: scalar_layer(scores=nn.QuadraticScores(D, M, bias=True)),
    "without bias": lambda: scalar_layer(scores=nn.LinearScores(D, M)),
    "noisy": lambda: scalar_layer(scores=nn.NoisyScores(nn.LinearScores(D, M))),
    "sigmoid": lambda: reference(scalar_layer(nn.TopK(2), nn.Normalized("sigmoid"))),
    "phi": lambda: reference(scalar_layer(nn.TopK(2), nn.Normalized(softplus_phi))),
    "shared": lambda: scalar_layer(shared=[torch.nn.Linear(D, 1)]),
}


@pytest.mark.parametrize("name", CONVERTIBLE)
def test_a_converted_layer_gives_the_same_weights_and_predictions(name):
    layer, X = CONVERTIBLE[name](), rows()
    mixture = nn.to_mixture(layer)
    with torch.no_grad():
        np.testing.assert_allclose(mixture.predict(X), layer(torch.from_numpy(X))[:, 0], atol=1e-12)
        weights = layer.router(torch.from_numpy(X)).dense(M)
    np.testing.assert_allclose(mixture.gate_weights(X), weights, atol=1e-12)


@pytest.mark.parametrize("name", [name for name in CONVERTIBLE if name != "phi"])
def test_there_and_back(name):
    layer, x = CONVERTIBLE[name](), torch.from_numpy(rows())
    back = nn.from_mixture(nn.to_mixture(layer), D)
    torch.testing.assert_close(back(x), layer(x))
    assert back.experts is layer.experts
    back(x).sum().backward()
    assert back.router.scores.weight.grad.abs().sum() > 0


def test_a_layer_in_float32_stays_so_on_its_way_back():
    layer = scalar_layer().float()
    back = nn.from_mixture(nn.to_mixture(layer), D)
    x = torch.from_numpy(rows()).float()
    assert back(x).dtype == torch.float32
    torch.testing.assert_close(back(x), layer(x))


def test_any_experts_become_a_layer_whose_gate_can_be_trained():
    experts = [AffineExpert((1.0, 0.0), 0.0), AffineExpert((-1.0, 0.0), 0.0), lambda X: X[:, 1]]
    gate = gw.QuadraticGate(3, k=2, intercept=False)
    mixture = gw.MixtureOfExperts(gate, np.random.default_rng(1).normal(size=(2, 5)), experts, [lambda X: X[:, 0]])
    layer, X = nn.from_mixture(mixture, 2), rows()[:, :2].copy()
    np.testing.assert_allclose(layer(torch.from_numpy(X))[:, 0].detach(), mixture.predict(X), atol=1e-12)
    np.testing.assert_allclose(nn.to_mixture(layer).predict(X), mixture.predict(X), atol=1e-12)
    layer(torch.from_numpy(X)).sum().backward()
    assert layer.router.scores.weight.grad.abs().sum() > 0


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: scalar_layer(nn.TopK(2), nn.SoftmaxBefore()),
            "must have sum one to become a mixture, not those of Soft",
        ),
        (
            lambda: scalar_layer(nn.TopK(2), nn.Normalized("sigmoid", 2.5)),
            "must have sum one to become a mixture, not t",
        ),
        (lambda: scalar_layer(nn.TopK(2), nn.Normalized("sigmoid")), "scores of the last expert must be zero"),
        (lambda: nn.preset("mixtral", d=D, hidden=4), r"scalar outputs, \(n, 1\), to become a mixture, not \(n, 3\)"),
        (lambda: nn.preset("switch", d=D, hidden=4, n_experts=4), "no capacity, to become a mixture"),
        (lambda: nn.preset("deepseek-v3", d=D, hidden=4, n_experts=16), "must choose all experts or the Top-K"),
        (lambda: scalar_layer(capacity=nn.Capacity(1.0)), "no bias and no capacity"),
        (lambda: scalar_layer(nn.Threshold(2, 0.1)), "must choose all experts or the Top-K"),
        (lambda: nn.preset("hierarchical", d=D, hidden=4), "must have a Router with linear or quadratic scores"),
    ],
)
def test_what_is_no_mixture_is_an_error_that_says_why(build, message):
    with pytest.raises(ValueError, match=message):
        nn.to_mixture(build())


def test_a_gate_that_is_no_router_is_an_error_that_says_why():
    experts = [AffineExpert((1.0,)), AffineExpert((2.0,))]
    with pytest.raises(ValueError, match=r"mixture.gate must be a LinearGate, or a QuadraticGate with cross terms"):
        nn.from_mixture(gw.MixtureOfExperts(gw.QuadraticGate(2, cross=False), np.zeros((1, 3)), experts), 1)
    with pytest.raises(ValueError, match=r"mixture.gate.phi must be 'exp' or 'sigmoid'"):
        nn.from_mixture(gw.MixtureOfExperts(gw.LinearGate(2, phi=np.tanh), np.zeros((1, 2)), experts), 1)


class Slope(torch.nn.Module):
    def __init__(self, slope):
        super().__init__()
        self.slope = slope

    def forward(self, x):
        return self.slope * x[:, :1]


def specialists(sign):
    """Experts x and -x for the target |x|; the router follows the sign of x, or its opposite."""
    router = nn.Router(nn.LinearScores(1, 2), nn.TopK(1))
    router.scores.weight.data = torch.tensor([[float(sign)], [-float(sign)]])
    return nn.MoELayer([Slope(1.0), Slope(-1.0)], router).eval()


def noisy_absolute(n=600):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(n, 1))
    y = np.abs(X[:, 0]) + rng.normal(scale=0.3, size=n)
    return torch.tensor(X, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)


def test_recorded_specialists_pass_the_test_of_specialization():
    layer, (x, y) = specialists(+1), noisy_absolute()
    losses = nn.expert_losses(layer, lambda: (layer(x)[:, 0] - y) ** 2)
    with nn.record(layer) as recording:
        layer(x)
    np.testing.assert_allclose(losses, (x.numpy() * [1.0, -1.0] - y.numpy()[:, None]) ** 2, atol=1e-6)
    found = gw.geometry.specialization(losses, recording.chosen)
    assert found.special == (0, 1)
    assert found.alignment.agreement > 0.6
    assert gw.geometry.specialization(losses, recording.weights).special == (0, 1)


def test_a_router_that_sends_tokens_the_wrong_way_fails_it():
    layer, (x, y) = specialists(-1), noisy_absolute()
    losses = nn.expert_losses(layer, lambda: (layer(x)[:, 0] - y) ** 2)
    with nn.record(layer) as recording:
        layer(x)
    assert gw.geometry.specialization(losses, recording.chosen).special == ()


def test_the_geometry_works_on_a_recording():
    layer, (x, y) = specialists(+1), noisy_absolute()
    losses = nn.expert_losses(layer, lambda: (layer(x)[:, 0] - y) ** 2)
    with nn.record(layer) as recording:
        layer(x)
    truth = gw.geometry.TrueRegions([lambda X: X[:, 0], lambda X: -X[:, 0]], lambda X: np.abs(X[:, 0]))(x.numpy())
    assert gw.geometry.assignment_loss(recording.shares, truth).value == 0.0
    estimated = gw.geometry.EstimatedRegions(x.numpy(), losses)(x.numpy())
    assert (estimated == truth).mean() > 0.8
    assert gw.geometry.alignment(recording.shares, truth, 2).agreement == 1.0
    predictions = np.stack([layer.experts.one(m, x)[:, 0].numpy() for m in range(2)], axis=1)
    assert gw.geometry.activation(predictions, np.abs(x.numpy()[:, 0]), truth).k == 1


def test_a_layer_deep_in_a_model_is_recorded_over_several_calls():
    torch.manual_seed(0)
    layer = nn.preset("deepseek-moe", d=8, hidden=6, n_experts=4, k=2)
    model = torch.nn.Sequential(torch.nn.Linear(3, 8), layer, torch.nn.Linear(8, 2)).eval()
    batches = torch.randn(3, 10, 3)
    with nn.record(layer) as recording:
        for batch in batches:
            model(batch)
    model(batches[0])  # after the block: not recorded
    assert recording.indices.shape == (30, 2)
    assert (recording.chosen.sum(1) == 2).all()
    np.testing.assert_allclose(recording.shares.sum(1), 1.0)
    assert (recording.weights.sum(1) < 1).all()
    assert recording.scores.shape == (30, 4)
    target = torch.randint(0, 2, (10,))
    losses = nn.expert_losses(
        layer, lambda: torch.nn.functional.cross_entropy(model(batches[0]), target, reduction="none")
    )
    assert losses.shape == (10, 4)
    assert len(np.unique(losses[0])) == 4


def test_a_token_without_an_expert_has_equal_shares_and_can_still_be_forced():
    layer = nn.MoELayer(
        nn.SwiGLUExperts(2, 3, 4), nn.Router(nn.LinearScores(3, 4, bias=True), nn.NullExperts(1, 2))
    ).eval()
    layer.router.scores.bias.data = torch.tensor([0.0, 0.0, 99.0, 0.0])
    x = torch.randn(5, 3)
    with nn.record(layer) as recording:
        assert not layer(x).any()
    assert not recording.chosen.any()
    np.testing.assert_allclose(recording.shares, 0.5)
    with nn.only_expert(layer, 1):
        torch.testing.assert_close(layer(x), layer.experts.one(1, x))


def test_a_recording_needs_a_call_and_losses_need_one_number_a_token():
    layer = specialists(+1)
    with nn.record(layer) as recording:
        pass
    with pytest.raises(ValueError, match="the recording is empty"):
        _ = recording.indices
    with pytest.raises(ValueError, match="losses must return one number a token"):
        nn.expert_losses(layer, lambda: layer(torch.zeros(3, 1)))
    with pytest.raises(ValueError, match="m must be a whole number from 0 to 1, not 2"), nn.only_expert(layer, 2):
        pass
    twice = nn.preset("cartesian", d=8, hidden=4, n_experts=2)
    message = "layer must be a MoELayer, not a CartesianLayer; within this one are: first, second"
    with pytest.raises(ValueError, match=message), nn.record(twice):
        pass
