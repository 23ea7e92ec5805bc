"""Entropic transport with a given load, and the history of specialization of a layer's experts."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from gatewise.gates.load_prices import load_prices
from gatewise.geometry.coadaptation import SpecializationHistory
from gatewise.nn.transport import entropic_transport


def test_the_plan_is_the_softmax_with_the_prices_of_the_load():
    scores = torch.randn(200, 4, generator=torch.Generator().manual_seed(0)) * 2.0
    load = torch.tensor([0.4, 0.3, 0.2, 0.1])
    plan = entropic_transport(scores, load, temperature=0.5, n_iterations=300)
    torch.testing.assert_close(plan.sum(dim=1), torch.ones(200))
    torch.testing.assert_close(plan.mean(dim=0), load, atol=1e-4, rtol=0.0)
    b = load_prices(scores.double().numpy(), load.double().numpy() / float(load.double().sum()), temperature=0.5)
    expected = torch.softmax((scores.double() + torch.from_numpy(b)) / 0.5, dim=1)
    torch.testing.assert_close(plan.double(), expected, atol=1e-3, rtol=0.0)


def test_gradients_reach_the_scores_and_bad_loads_are_named():
    scores = torch.zeros(6, 2, requires_grad=True)
    (entropic_transport(scores) * torch.arange(12.0).reshape(6, 2)).sum().backward()
    assert scores.grad is not None
    assert torch.isfinite(scores.grad).all()
    with pytest.raises(ValueError, match="load must be 2 positive numbers with sum 1"):
        entropic_transport(scores, torch.tensor([1.0, 0.0]))


def test_the_experts_of_a_small_network_become_specialists_along_training():
    """Two linear experts and a softmax router, trained on a truth with two planes; losses on held-out rows."""
    generator = torch.Generator().manual_seed(1)
    X = torch.rand(1200, 2, generator=generator) * 2 - 1
    y = torch.where(X[:, 0] > 0, 2 * X[:, 1] + 1, -2 * X[:, 1] - 1) + 0.1 * torch.randn(1200, generator=generator)
    experts, router = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    with torch.no_grad():
        for part in (experts, router):
            part.weight.copy_(0.1 * torch.randn(2, 2, generator=generator))
    step = torch.optim.Adam([*experts.parameters(), *router.parameters()], lr=0.05)
    history = SpecializationHistory()
    for epoch in range(200):
        weights, forecasts = torch.softmax(router(X), dim=1), experts(X)
        if epoch in (0, 199):
            losses = (y[:, None] - forecasts)[600:].square()
            history.add(losses.detach().double().numpy(), weights[600:].detach().double().numpy())
        loss = (y - (weights * forecasts).sum(dim=1))[:600].square().mean()
        step.zero_grad()
        loss.backward()
        step.step()
    assert history.steps[-1].special == (0, 1)
    assert history.steps[-1].advantage > history.steps[0].advantage
    assert np.all(history.steps[-1].load > 0.2)
