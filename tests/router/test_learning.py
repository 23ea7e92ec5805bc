"""AFTER over a list of held-out forecasts, and the router that comes of it."""

from itertools import product

import numpy as np
import pytest

import gatewise as gw
from gatewise.aggregation.fixed_share import begin, fixed_share
from gatewise.experts.pool import HeldOut
from gatewise.gates import LinearGate
from gatewise.gates.inputs import GateInputs
from gatewise.losses import DoubleExponential, Gaussian, LogLoss, ResidualLoss, ScoreLoss, StudentT
from gatewise.router.candidates import candidate_list
from gatewise.router.fitted_router import FittedRouter, ForecastGuard, RowView
from gatewise.router.learning import continue_mixing, learn, ListForecasts, mix, RouterSample
from gatewise.router.members import ListRows
from gatewise.router.settings import MoESettings


@pytest.fixture
def data():
    rng = np.random.default_rng(7)
    y = rng.normal(size=40)
    return y[:, None] + rng.normal(size=(40, 5)) * [0.5, 0.6, 1.0, 2.0, 0.55], y, rng.uniform(0.5, 2.0, 40)


def mixed(forecasts, y, weight, orders, prior=None, rate=1.0):
    given = ListForecasts(forecasts, ResidualLoss(y), weight, rate, orders)
    return mix(given, np.zeros((1, forecasts.shape[1])) if prior is None else prior[None])[0]


def test_it_is_after_averaged_over_time_and_orders(data):
    forecasts, y, weight = data
    weight = 4.0 * weight  # rows that count more than once: the variance is larger than it should be
    prior = np.log([0.4, 0.3, 0.1, 0.1, 0.1])
    orders = [np.random.default_rng(j).permutation(40) for j in range(3)]
    found = mixed(forecasts, y, weight, orders, prior, rate=0.7)
    sigma = np.sqrt((weight[:, None] * (y[:, None] - forecasts) ** 2).sum(axis=0) / weight.sum())
    np.testing.assert_allclose(found.scale, sigma)
    shares = np.zeros(5)
    density = weight[:, None] * (Gaussian().log_density((y[:, None] - forecasts) / sigma) - np.log(sigma))
    apart = density[:, [density.sum(axis=0).argmax()]] - density
    power = min(1.0, 2 * np.exp(prior) @ apart.mean(axis=0) / (np.exp(prior) @ apart.var(axis=0)))
    assert power < 1.0
    for order in orders:
        path = gw.after(0.7 * power * density[order], prior)
        shares += path[20:-1].mean(axis=0) / 3
    np.testing.assert_allclose(found.shares, shares)


def test_later_rows_are_weighed_by_after_with_forgetting(data):
    forecasts, y, weight = data
    first = mixed(forecasts[:25], y[:25], weight[:25], [np.arange(25)])

    def later(mixing, rows):
        return continue_mixing(mixing, np.zeros(5), forecasts[rows], ResidualLoss(y[rows]), weight[rows])

    one = later(first, slice(25, 26))
    log_density = ResidualLoss(y[25:26]).scaled(first.scale).log_density(forecasts[25:26])
    log_density = weight[25] * np.maximum(log_density, log_density.max() - 3.0)
    state, online = fixed_share(
        begin(np.log(first.shares)), np.zeros(5), log_density, forecasts[25:26], min(weight[25], 1.0)
    )
    np.testing.assert_allclose(one.shares, state.weights)
    np.testing.assert_allclose(one.online, online)
    assert (one.scale != first.scale).all()
    whole = later(first, slice(25, 40))
    np.testing.assert_allclose(later(one, slice(26, 40)).shares, whole.shares)


def test_a_wild_response_moves_the_scales_by_a_bounded_factor(data):
    forecasts, y, weight = data
    first = mixed(forecasts, y, weight, [np.arange(40)])
    later = continue_mixing(first, np.zeros(5), forecasts[:1], ResidualLoss(np.array([1e100])), np.ones(1))
    assert (later.scale <= 2.0 * first.scale).all()
    assert np.isfinite(later.shares).all()


@pytest.mark.parametrize("wild", [3.0, 10.0, 1e6, -1e60])
def test_a_wild_response_does_not_hand_the_weight_to_the_worst_candidate(wild):
    rng = np.random.default_rng(8)
    y = rng.normal(size=200)
    forecasts = y[:, None] + np.array([0.3, 2.0]) * rng.normal(size=(200, 2))
    mixing = mixed(forecasts[:150], y[:150], np.ones(150), [np.arange(150)])
    for responses, rows in ((y, slice(150, 190)), (np.full(200, wild), slice(190, 191))):
        mixing = continue_mixing(
            mixing, np.zeros(2), forecasts[rows], ResidualLoss(responses[rows]), np.ones(200)[rows]
        )
    assert mixing.shares[0] > 0.8
    later = slice(191, 200)  # a candidate that has become the better one is still found within a few rows
    swapped = continue_mixing(mixing, np.zeros(2), forecasts[later, ::-1], ResidualLoss(y[later]), np.ones(9))
    assert swapped.shares[1] > 0.8


def test_a_perfect_forecast_takes_all():
    y = np.linspace(0, 1, 30)
    found = mixed(np.column_stack([y, y + 1.0]), y, np.ones(30), [np.arange(30)])
    assert found.shares[0] > 0.95


def stations(n):
    """Rows on a line, and two experts: the first is right on the left, the second on the right."""
    rng = np.random.default_rng(5)
    x = rng.uniform(-1, 1, (n, 1))
    left = x[:, 0] < 0
    return rng, x, left


def log_task(n):
    rng, x, left = stations(n)
    outcome = rng.uniform(size=n) < 0.5
    sure = np.column_stack([np.where(left, 0.9, 0.5), np.where(left, 0.5, 0.9)])
    right = rng.uniform(size=(n, 2)) < sure
    said = np.where(right == outcome[:, None], 0.85, 0.15)  # the probability that each gave to one
    return x, np.where(outcome[:, None], said, 1.0 - said), LogLoss()


def score_task(n):
    rng, x, left = stations(n)
    means = np.column_stack([np.where(left, 0.8, 0.3), np.where(left, 0.3, 0.8)])
    return x, (rng.uniform(size=(n, 2)) < means).astype(float), ScoreLoss()


def residual_task(noise):
    def task(n):
        rng, x, left = stations(n)
        F = np.column_stack([np.ones(n), -np.ones(n)])
        return x, F, ResidualLoss(np.where(left, 1.0, -1.0) + noise.sample(rng, n), noise)

    return task


TASKS = {
    "gaussian": residual_task(Gaussian()),
    "double exponential": residual_task(DoubleExponential()),
    "student": residual_task(StudentT(6.0)),
    "log": log_task,
    "score": score_task,
}


@pytest.mark.parametrize("name", TASKS)
def test_the_router_learns_where_each_expert_is_right_under_any_loss(name):
    n = 800
    x, F, loss = TASKS[name](n)
    inputs = GateInputs.fit(x, 5, 0.25)
    rows = np.arange(n)
    held_out = HeldOut(rows, np.zeros(n, dtype=np.intp), F, (np.empty(0, dtype=np.intp),))
    seen = inputs.transform(x)
    maps = {"linear": LinearGate.feature_map.fit(LinearGate, seen, F, 0)}
    candidates = candidate_list(
        ["a", "b"], {"linear": list(product((1.0, 10.0), (None, 1)))}, corrected=loss.additive
    )
    settings = MoESettings(n_orders=2, rate=1.0)
    sample = RouterSample(ListRows(seen, F, maps=maps), held_out, loss, np.ones(n), rate=1.0)
    fit = learn(sample, candidates, settings, 0, given=True)
    assert fit.loss.error(fit.forecasts).mean() < fit.loss.error(fit.stack).mean()
    view, signal = RowView(ForecastGuard.open(2), np.arange(2), 2), fit.signal[np.argsort(fit.rows)]
    router = FittedRouter.from_fit(fit, view, x, inputs, ["a", "b"], np.ones(n), signal, None)
    assert router.verdict.headline == "gating pays"
    assert router.verdict.gain.value > 0.0
    shares = router.shares("aggregate")
    weights = router.fitted.mean_weights(shares, router.rows(np.array([[-0.8], [0.8]])))
    assert weights[0, 0] > 0.7
    assert weights[1, 1] > 0.7
    assert [row.advantage.low > 0.0 for row in router.regions] == [True, True]
