"""Small layers of every kind, in float64, for the laws of gatewise.nn: a new part needs a line here."""

import torch

from gatewise import nn

D, M = 6, 8


def _layer(selection=None, weighting=None, experts=None, shared=(), scores=None, **parts):
    router = nn.Router(
        scores or nn.LinearScores(D, M), selection or nn.TopK(3), weighting or nn.Normalized(), **parts
    )
    return nn.MoELayer(experts or nn.SwiGLUExperts(M, D, 5), router, shared)


def softplus_phi(t):
    """log(1 + softplus(t)): a regular phi of our own, between constant and linear."""
    return torch.log1p(torch.nn.functional.softplus(t))


def _biased():
    layer = _layer(nn.GroupLimitedTopK(3, 4, 2), nn.Normalized("sigmoid", 2.5), bias=nn.BiasBalancing(M))
    layer.router.bias.bias.copy_(torch.linspace(-0.4, 0.4, M))
    return layer


def _hierarchical(outer, inner):
    return nn.HierarchicalRouter(
        nn.Router(nn.LinearScores(D, 4), outer), nn.Router(nn.LinearScores(D, M, bias=True), inner)
    )


LAYERS = {
    "dense": lambda: _layer(nn.Dense()),
    "dense sigmoid": lambda: _layer(nn.Dense(), nn.Normalized("sigmoid")),
    "top-1": lambda: _layer(nn.TopK(1)),
    "top-3 after": lambda: _layer(nn.TopK(3)),
    "top-3 before": lambda: _layer(nn.TopK(3), nn.SoftmaxBefore()),
    "top-3 phi": lambda: _layer(nn.TopK(3), nn.Normalized(softplus_phi)),
    "top-M": lambda: _layer(nn.TopK(M)),
    "quadratic scores": lambda: _layer(scores=nn.QuadraticScores(D, M, bias=True)),
    "noisy scores": lambda: _layer(scores=nn.NoisyScores(nn.LinearScores(D, M))),
    "group limit": lambda: _layer(nn.GroupLimitedTopK(3, 4, 2)),
    "biased group limit": _biased,
    "threshold": lambda: _layer(nn.Threshold(4, 0.15)),
    "null experts": lambda: _layer(nn.NullExperts(4, 4), scores=nn.LinearScores(D, M + 4)),
    "null experts before": lambda: _layer(nn.NullExperts(4, 4), nn.SoftmaxBefore(), scores=nn.LinearScores(D, M + 4)),
    "capacity": lambda: _layer(nn.TopK(2), capacity=nn.Capacity(0.75, eval_factor=0.75)),
    "scaled top-3 before": lambda: _layer(nn.TopK(3), nn.SoftmaxBefore(16.0)),
    "sigmoid each": lambda: _layer(nn.TopK(3), nn.SigmoidEach(2.0)),
    "clamped swiglu": lambda: _layer(experts=nn.ClampedSwiGLUExperts(M, D, 5, limit=0.5)),
    "input weighted": lambda: _layer(
        nn.TopK(3), nn.SigmoidEach(2.0), experts=nn.InputWeighted(nn.SwiGLUExperts(M, D, 5))
    ),
    "expert choice": lambda: nn.MoELayer(
        nn.SwiGLUExperts(M, D, 5), nn.ExpertChoiceRouter(nn.LinearScores(D, M), 1.5)
    ),
    "dense mlp": lambda: _layer(nn.Dense(), experts=nn.MLPExperts(M, D, 5, d_out=3)),
    "mlp": lambda: _layer(experts=nn.MLPExperts(M, D, 5, d_out=3)),
    "mlp without bias": lambda: _layer(experts=nn.MLPExperts(M, D, 5, activation=torch.tanh, bias=False)),
    "modules": lambda: _layer(
        experts=[torch.nn.Sequential(torch.nn.Linear(D, D), torch.nn.Tanh()) for _ in range(M)]
    ),
    "dense modules": lambda: _layer(nn.Dense(), experts=[torch.nn.Linear(D, 2) for _ in range(M)]),
    "shared": lambda: _layer(shared=[nn.SwiGLU(D, 4), torch.nn.Linear(D, D)]),
    "hierarchical": lambda: nn.MoELayer(nn.MLPExperts(M, D, 5), _hierarchical(nn.Dense(), nn.Dense())),
    "sparse hierarchical": lambda: nn.MoELayer(nn.SwiGLUExperts(M, D, 5), _hierarchical(nn.TopK(2), nn.TopK(1))),
    "cartesian": lambda: nn.CartesianLayer(_layer(nn.TopK(2)), _layer(nn.TopK(2), shared=[nn.SwiGLU(D, 4)])),
}


def make(name, seed=0):
    """The layer of that name in float64 and evaluation mode, the scores spread out."""
    torch.manual_seed(seed)
    layer = LAYERS[name]().double().eval()
    for module in layer.modules():
        if isinstance(module, nn.Scores):
            module.weight.data.mul_(4.0)
    return layer
