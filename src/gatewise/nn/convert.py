"""Between torch layers with scalar outputs and `gatewise.MixtureOfExperts`."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn, Tensor

from gatewise.arrays import as_rows, Floats
from gatewise.experts import Expert, expert_predictions
from gatewise.gates import LinearGate, QuadraticGate
from gatewise.gates.phi import Phi as GatePhi
from gatewise.mixture import MixtureOfExperts
from gatewise.nn.choice import Dense, Selection, TopK
from gatewise.nn.layer import MoELayer
from gatewise.nn.router_scores import LinearScores, QuadraticScores
from gatewise.nn.score_noise import plain_scores
from gatewise.nn.stacked_experts import Experts, ModuleExperts
from gatewise.nn.token_router import Router
from gatewise.nn.weighting import Normalized, SigmoidEach, SoftmaxBefore


@dataclass(frozen=True, eq=False)
class TorchExpert:
    """A module with one output, or expert ``m`` of stacked ones, as an expert of the statistical side."""

    module: nn.Module
    m: int | None = None

    @torch.no_grad()
    def predict(self, X: Any) -> Floats:
        """One prediction per row of X, (n,)."""
        like = next(self.module.parameters(), torch.zeros((), dtype=torch.float64))
        x = torch.as_tensor(as_rows(X), dtype=like.dtype, device=like.device)
        y = self.module.one(self.m, x) if isinstance(self.module, Experts) and self.m is not None else self.module(x)
        predictions: Floats = y[:, 0].cpu().double().numpy()
        return predictions


class FrozenExpert(nn.Module):
    """Any expert of the statistical side as a module (n, d) -> (n, 1) without parameters or gradient."""

    def __init__(self, expert: Expert) -> None:
        super().__init__()
        self.expert = expert

    def forward(self, x: Tensor) -> Tensor:
        predictions = expert_predictions(self.expert, x.detach().cpu().double().numpy())
        return torch.as_tensor(predictions, dtype=x.dtype, device=x.device).unsqueeze(1)


def to_mixture(layer: MoELayer) -> MixtureOfExperts:
    """The layer as a `MixtureOfExperts`: the same weights and predictions, sparse where the layer is.

    Its outputs must be scalar and its weights lie on the simplex, with linear or quadratic scores, all experts or the
    Top-K of them. The last expert becomes the gate's reference: its scores are subtracted from all, which under
    phi = exp changes nothing; with another phi they must be zero.
    """
    router, scores = _simplex_router(layer)
    width = layer.experts.one(0, scores.weight.new_zeros(1, layer.d)).shape[1]
    if width != 1:
        raise ValueError(f"layer must have scalar outputs, (n, 1), to become a mixture, not (n, {width})")
    weighting = router.weighting
    weight = scores.weight.detach().cpu().double().numpy()
    bias = np.zeros(len(weight)) if scores.bias is None else scores.bias.detach().cpu().double().numpy()
    table = np.column_stack([weight, bias])  # (M, p + 1)
    phi = weighting.phi if isinstance(weighting, Normalized) else "exp"
    if phi != "exp" and table[-1].any():
        raise ValueError("the scores of the last expert must be zero unless phi is 'exp': a gate has it as reference")
    k = router.selection.k if isinstance(router.selection, TopK) else None
    make = LinearGate if isinstance(scores, LinearScores) else QuadraticGate
    gate = make(layer.n_experts, k=k, phi=_gate_phi(phi))
    routed = [TorchExpert(layer.experts, m) for m in range(layer.n_experts)]
    return MixtureOfExperts(gate, table[:-1] - table[-1], routed, [TorchExpert(module) for module in layer.shared])


def from_mixture(mixture: MixtureOfExperts, d: int) -> MoELayer:
    """The mixture as a layer on d features; its gate can then be trained.

    Experts that came from a layer are that layer's own modules again, not copies, and set the dtype; others are asked
    as they are, stay fixed, and leave it at float64.
    """
    gate = mixture.gate
    if not isinstance(gate, LinearGate | QuadraticGate) or not getattr(gate, "cross", True):
        raise ValueError(f"mixture.gate must be a LinearGate, or a QuadraticGate with cross terms, not {gate!r}")
    if gate.phi not in ("exp", "sigmoid"):
        raise ValueError(f"mixture.gate.phi must be 'exp' or 'sigmoid', not {gate.phi!r}")
    make = LinearScores if isinstance(gate, LinearGate) else QuadraticScores
    routed = _experts(mixture.pools.experts.models)
    dtype = next((parameter.dtype for parameter in routed.parameters()), torch.float64)
    scores = make(d, gate.n_experts, bias=gate.intercept).to(dtype)
    theta = torch.from_numpy(gate.check_theta(mixture.theta, d))
    theta = torch.cat([theta, theta.new_zeros(1, theta.shape[1])])
    with torch.no_grad():
        scores.weight.copy_(theta[:, : scores.weight.shape[1]])
        if scores.bias is not None:
            scores.bias.copy_(theta[:, -1])
    selection: Selection = Dense() if gate.k is None else TopK(gate.k)
    router = Router(scores, selection, Normalized(gate.phi))
    return MoELayer(routed, router, [_module(expert) for expert in mixture.pools.shared.models])


def _simplex_router(layer: MoELayer) -> tuple[Router, LinearScores | QuadraticScores]:
    router = layer.router
    scores = plain_scores(router.scores) if isinstance(router, Router) else None
    if not isinstance(router, Router) or not isinstance(scores, LinearScores | QuadraticScores):
        raise ValueError("layer must have a Router with linear or quadratic scores to become a mixture")
    if not isinstance(router.selection, Dense | TopK) or router.bias is not None or router.capacity is not None:
        raise ValueError(
            "layer must choose all experts or the Top-K of the scores, with no bias and no capacity, to become a "
            f"mixture, not by {router.selection}, bias = {router.bias}, capacity = {router.capacity}"
        )
    scaled = isinstance(router.weighting, SigmoidEach) or router.weighting.scale != 1.0
    before = isinstance(router.weighting, SoftmaxBefore) and router.n_active < router.n_experts
    if scaled or before:
        raise ValueError(
            f"the weights of a token must have sum one to become a mixture, not those of {router.weighting}"
        )
    return router, scores


def _gate_phi(phi: Any) -> GatePhi:
    """phi for arrays; a callable on tensors is wrapped."""
    if isinstance(phi, str):
        return phi  # type: ignore[return-value]

    def log_phi(t: Floats) -> Floats:
        values: Floats = phi(torch.from_numpy(np.ascontiguousarray(t))).numpy()
        return values

    return log_phi


def _experts(routed: Any) -> Experts:
    first = routed[0]
    if isinstance(first, TorchExpert) and isinstance(first.module, Experts):
        order = [expert.m for expert in routed if isinstance(expert, TorchExpert) and expert.module is first.module]
        if order == list(range(first.module.n_experts)) == list(range(len(routed))):
            return first.module
    return ModuleExperts(_module(expert) for expert in routed)


def _module(expert: Expert) -> nn.Module:
    if isinstance(expert, TorchExpert) and expert.m is None:
        return expert.module
    return FrozenExpert(expert)
