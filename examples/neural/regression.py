"""A small mixture regressor on the paper's nonlinear design."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

import gatewise as gw
from examples.neural.variants import active_parameters, build, Variant
from gatewise import nn
from gatewise.paper.designs import DESIGNS

FEATURES, ACTIVE = 16, 48
GRID = 120


class Regressor(torch.nn.Module):
    """x -> tanh(Ax + b) -> a mixture of small networks -> y."""

    def __init__(self, variant: Variant) -> None:
        super().__init__()
        self.inside = torch.nn.Sequential(torch.nn.Linear(2, FEATURES), torch.nn.Tanh())
        self.layer = build(
            variant,
            FEATURES,
            ACTIVE,
            lambda m, width: nn.MLPExperts(m, FEATURES, width, d_out=1),
            lambda width: torch.nn.Sequential(
                torch.nn.Linear(FEATURES, width), torch.nn.GELU(), torch.nn.Linear(width, 1)
            ),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.layer(self.inside(x))
        return y[:, 0]


@dataclass
class Run:
    """One training: its figures, and the router's region maps (GRID, GRID) by step."""

    figures: dict[str, Any]
    maps: dict[int, np.ndarray] = field(default_factory=dict)


def grid() -> torch.Tensor:
    """Points of [-1, 1]^2, row by row from below, (GRID * GRID, 2)."""
    axis = torch.linspace(-1.0, 1.0, GRID)
    second, first = torch.meshgrid(axis, axis, indexing="ij")
    return torch.stack([first.flatten(), second.flatten()], dim=1)


def region_map(model: Regressor) -> np.ndarray:
    """The expert of largest weight at every point of the grid."""
    training = model.training
    with torch.no_grad(), nn.record(model.layer) as recording:
        model.eval()(grid())
    model.train(training)
    labels: np.ndarray = recording.weights.argmax(axis=1).reshape(GRID, GRID)
    return labels


def train(variant: Variant, seed: int, steps: int, snapshots: tuple[int, ...] = ()) -> Run:
    """Fit on 1,000 noisy rows; report the distance to the truth at fresh ones, and the test of specialization."""
    design, rng = DESIGNS["nonlinear"], np.random.default_rng(seed)
    X, y = (torch.tensor(a, dtype=torch.float32) for a in design.sample(1000, rng))
    torch.manual_seed(seed)
    model = Regressor(variant)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    run = Run({"variant": variant.name, "seed": seed})
    for step in range(steps + 1):
        if step in snapshots:
            run.maps[step] = region_map(model)
        if step == steps:
            break
        rows = torch.randint(0, len(X), (250,))
        optimizer.zero_grad()
        ((model(X[rows]) - y[rows]).square().mean() + nn.auxiliary_loss(model)).backward()
        optimizer.step()
        schedule.step()
    run.figures |= _evaluate(model, variant, rng)
    return run


def _evaluate(model: Regressor, variant: Variant, rng: np.random.Generator) -> dict[str, Any]:
    design = DESIGNS["nonlinear"]
    fresh, noisy = design.sample(4000, rng)
    X, y = torch.tensor(fresh, dtype=torch.float32), torch.tensor(noisy, dtype=torch.float32)
    model.eval()
    with torch.no_grad(), nn.record(model.layer) as recording:
        error = (model(X).double().numpy() - design.truth(fresh)) ** 2
    figures: dict[str, Any] = {
        "rmse": float(np.sqrt(error.mean())),
        "active_parameters": active_parameters(model.layer, variant),
        "parameters": sum(p.numel() for p in model.layer.parameters()),
        "largest_load": float(recording.chosen.mean(axis=0).max()),
    }
    if variant.n_experts > 1:

        def squared() -> torch.Tensor:
            squares: torch.Tensor = (model(X) - y).square()
            return squares

        losses = nn.expert_losses(model.layer, squared)
        found = gw.geometry.specialization(losses, recording.shares)
        figures |= {"special_experts": len(found.special), "agreement": found.alignment.agreement}
    return figures
