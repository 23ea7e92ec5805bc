"""Transport with entropy: plans, their gradients, routers with a given load, against the CPU's prices."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from gatewise.gates.load_prices import load_prices
from gatewise.nn import entropic_transport, LinearScores, MLPExperts, MoELayer, Router, TopK, TransportScores
from gatewise.nn.transport import transport_prices

LOAD = [0.4, 0.3, 0.2, 0.1]


def draws(n, m, seed=0, scale=2.0):
    return scale * torch.randn(n, m, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("temperature", [0.5, 1.0])
def test_the_plan_is_the_softmax_with_the_prices_of_the_cpu(temperature):
    scores, load = draws(200, 4), torch.tensor(LOAD, dtype=torch.float64)
    plan = entropic_transport(scores, load, temperature, n_iterations=400)
    torch.testing.assert_close(plan.sum(dim=1), torch.ones(200, dtype=torch.float64))
    torch.testing.assert_close(plan.mean(dim=0), load, atol=1e-9, rtol=0.0)
    b = torch.from_numpy(load_prices(scores.numpy(), LOAD, temperature=temperature))
    torch.testing.assert_close(plan, torch.softmax((scores + b) / temperature, dim=1), atol=1e-8, rtol=0.0)


def test_the_gradient_is_that_of_the_plan():
    """Central differences move the prices along with the scores."""
    scores, load = draws(7, 3, seed=1).requires_grad_(), torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    direction = draws(7, 3, seed=2)
    (entropic_transport(scores, load, n_iterations=400) * direction).sum().backward()
    step = 1e-5
    for place in [(0, 0), (3, 1), (6, 2)]:
        values = []
        for sign in (1, -1):
            moved = scores.detach().clone()
            moved[place] += sign * step
            values.append((entropic_transport(moved, load, n_iterations=400) * direction).sum())
        torch.testing.assert_close(scores.grad[place], (values[0] - values[1]) / (2 * step), atol=2e-5, rtol=0.0)


def test_bad_loads_are_named():
    with pytest.raises(ValueError, match="load must be 2 positive numbers with sum 1"):
        entropic_transport(torch.zeros(6, 2), torch.tensor([1.0, 0.0]))
    with pytest.raises(ValueError, match="load must be 4 positive numbers with sum 1"):
        TransportScores(LinearScores(2, 4), [0.5, 0.5])
    with pytest.raises(ValueError, match=r"momentum must lie in \(0, 1\]"):
        TransportScores(LinearScores(2, 4), momentum=0.0)


def test_a_routers_mean_weights_have_the_load_and_are_those_of_the_cpu():
    torch.manual_seed(0)
    scores = TransportScores(LinearScores(3, 4).double(), LOAD, n_iterations=400)
    router, x = Router(scores), draws(300, 3)
    weights = router(x).dense(4)
    torch.testing.assert_close(weights.mean(dim=0), torch.tensor(LOAD).double(), atol=1e-6, rtol=0.0)
    plain = scores.scores(x).detach()
    b = torch.from_numpy(load_prices(plain.numpy(), LOAD))
    torch.testing.assert_close(weights.detach(), torch.softmax(plain + b, dim=1), atol=1e-6, rtol=0.0)
    torch.testing.assert_close(scores.price.double(), b, atol=1e-5, rtol=0.0)  # one batch: the mean is its prices


def test_padding_has_no_say_in_the_prices():
    torch.manual_seed(0)
    router = Router(TransportScores(LinearScores(3, 4), LOAD), TopK(2))
    x, mask = draws(60, 3).float(), torch.arange(60) < 40
    padded = torch.where(mask[:, None], x, torch.nan)
    with_mask = router(padded, mask)
    price = router.scores.price.clone()
    assert (with_mask.indices[~mask] == -1).all()
    alone = Router(TransportScores(router.scores.scores, LOAD), TopK(2))
    torch.testing.assert_close(with_mask.weights[mask], alone(x[mask]).weights)
    torch.testing.assert_close(price, alone.scores.price)


def test_in_evaluation_a_token_is_routed_by_itself_with_the_mean_price():
    torch.manual_seed(0)
    scores = TransportScores(LinearScores(3, 4), LOAD, momentum=0.01)
    router = Router(scores)
    for seed in range(40):
        router(draws(200, 3, seed=seed).float())
    router.eval()
    fresh = draws(4000, 3, seed=99).float()
    both = router(fresh).weights
    torch.testing.assert_close(both[:5], router(fresh[:5]).weights)
    # The mean over 4,000 tokens of weights that lie in [0, 1], at prices from 8,000 tokens.
    assert (both.mean(dim=0) - torch.tensor(LOAD)).abs().max() < 4 * 0.5 * (1 / 4000 + 1 / 8000) ** 0.5
    assert int(scores.n_batches) == 40


def test_prices_stay_in_float32_and_come_back_from_a_state():
    scores = TransportScores(LinearScores(3, 4), LOAD)
    scores(draws(50, 3).float())
    kept = scores.price.clone()
    assert scores.to(torch.bfloat16).price.dtype == scores.load.dtype == torch.float32
    assert torch.equal(scores.price, kept)
    other = TransportScores(LinearScores(3, 4), LOAD)
    other.load_state_dict(scores.state_dict())
    assert torch.equal(other.price, kept)


@pytest.mark.slow
def test_a_layer_trains_under_the_load():
    """The loss falls, and at every step each expert has its load in the batch."""
    torch.manual_seed(3)
    layer = MoELayer(
        MLPExperts(3, 2, 8), Router(TransportScores(LinearScores(2, 3), [0.5, 0.25, 0.25], n_iterations=20))
    )
    x = torch.rand(200, 2) * 2 - 1
    y = torch.where(x[:, :1] > 0, x[:, 1:], -x[:, 1:]).expand(-1, 2)
    step, errors = torch.optim.Adam(layer.parameters(), lr=0.05), []
    for _ in range(40):
        error = (layer(x) - y).square().mean()
        step.zero_grad()
        error.backward()
        step.step()
        errors.append(float(error.detach()))
    assert errors[-1] < 0.5 * errors[0]
    mean = layer.router(x).dense(3).mean(dim=0)
    torch.testing.assert_close(mean, torch.tensor([0.5, 0.25, 0.25]), atol=1e-3, rtol=0.0)


def test_prices_of_a_batch_without_a_counted_token_are_finite():
    prices = transport_prices(draws(5, 3), torch.tensor([0.5, 0.3, 0.2]), counted=torch.zeros(5, dtype=torch.bool))
    assert np.isfinite(prices.numpy()).all()
