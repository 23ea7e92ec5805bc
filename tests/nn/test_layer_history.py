"""The test of specialization along the training of a layer."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from gatewise.geometry import specialization
from gatewise.nn import expert_losses, LayerHistory, LinearScores, MLPExperts, MoELayer, record, Router


def planes(n, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(n, 2, generator=generator) * 2 - 1
    y = torch.where(x[:, 0] > 0, 2 * x[:, 1] + 1, -2 * x[:, 1] - 1)
    return x, y + 0.1 * torch.randn(n, generator=generator)


def trained(truth, epochs=60):
    """Two experts and a linear router on one half of the rows; the history on the other half, at both ends."""
    torch.manual_seed(0)
    layer = MoELayer(MLPExperts(2, 2, 4), Router(LinearScores(2, 2, bias=True)))
    head = torch.nn.Linear(2, 1)
    x, y = truth(600, 1)

    def losses(rows):
        return (head(layer(x[rows]))[:, 0] - y[rows]).square()

    history = LayerHistory(layer, lambda: losses(slice(300, None)))
    step = torch.optim.Adam([*layer.parameters(), *head.parameters()], lr=0.05)
    history.add()
    for _ in range(epochs):
        loss = losses(slice(300)).mean()
        step.zero_grad()
        loss.backward()
        step.step()
    history.add()
    return layer, history


def test_experts_become_specialists_along_training():
    layer, history = trained(planes)
    first, last = history.steps
    assert len(last.special) > 0
    assert last.advantage > first.advantage
    assert last.mixture < first.mixture
    assert layer.training
    assert [row["specialists"] for row in history.table()] == [len(first.special), len(last.special)]


def test_a_step_is_the_test_on_the_losses_of_every_expert_alone():
    torch.manual_seed(0)
    layer = MoELayer(MLPExperts(3, 2, 4), Router(LinearScores(2, 3)))
    x = torch.randn(300, 2)

    def losses():
        assert not layer.training
        return layer(x).square().sum(dim=1)

    step = LayerHistory(layer, losses, seed=5).add()
    layer.eval()
    with record(layer) as recording:
        losses()
    table = expert_losses(layer, losses)
    assert step.report.experts == specialization(table, recording.shares, seed=5).experts
    np.testing.assert_allclose(step.load, recording.weights.mean(axis=0))
    np.testing.assert_allclose(step.mixture, (recording.weights * table).sum(axis=1).mean())


def test_the_mode_of_the_layer_comes_back_after_an_error():
    layer = MoELayer(MLPExperts(2, 2, 4), Router(LinearScores(2, 2)))

    def fails():
        raise RuntimeError("no data")

    with pytest.raises(RuntimeError, match="no data"):
        LayerHistory(layer, fails).add()
    assert layer.training
