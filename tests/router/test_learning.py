"""AFTER over a list of held-out forecasts, and the router that comes of it."""

import numpy as np
import pytest

import gatewise as gw
from gatewise.losses import Gaussian, ResidualLoss
from gatewise.router.learning import continue_mixing, mix


@pytest.fixture
def data():
    rng = np.random.default_rng(7)
    y = rng.normal(size=40)
    return y[:, None] + rng.normal(size=(40, 5)) * [0.5, 0.6, 1.0, 2.0, 0.55], y, rng.uniform(0.5, 2.0, 40)


def test_it_is_after_averaged_over_time_and_orders(data):
    forecasts, y, weight = data
    prior = np.log([0.4, 0.3, 0.1, 0.1, 0.1])
    orders = [np.random.default_rng(j).permutation(40) for j in range(3)]
    found = mix(forecasts, ResidualLoss(y), prior, weight, orders)
    sigma = np.sqrt((weight[:, None] * (y[:, None] - forecasts) ** 2).sum(axis=0) / weight.sum())
    np.testing.assert_allclose(found.scale, sigma)
    shares, online = np.zeros(5), np.zeros(40)
    for order in orders:
        z = (y[order, None] - forecasts[order]) / sigma
        path = gw.after(weight[order, None] * (Gaussian().log_density(z) - np.log(sigma)), prior)
        shares += path[:-1].mean(axis=0) / 3
        online[order] += (path[:-1] * forecasts[order]).sum(axis=1) / 3
    np.testing.assert_allclose(found.shares, shares)
    np.testing.assert_allclose(found.online, online)


def test_going_on_ends_where_all_rows_at_once_end(data):
    forecasts, y, weight = data
    prior = np.zeros(5)
    whole = mix(forecasts, ResidualLoss(y), prior, weight, [np.arange(40)])
    first = mix(forecasts[:25], ResidualLoss(y[:25]), prior, weight[:25], [np.arange(25)])
    first = type(first)(first.shares, first.online, whole.scale, first.log_weights, first.n_seen)
    z = (y[:25, None] - forecasts[:25]) / whole.scale
    state = (weight[:25, None] * (Gaussian().log_density(z) - np.log(whole.scale))).sum(axis=0)
    first = type(first)(first.shares, first.online, whole.scale, state - state.max(), 25)
    later = continue_mixing(first, forecasts[25:], ResidualLoss(y[25:]), weight[25:])
    np.testing.assert_allclose(later.log_weights, whole.log_weights, atol=1e-9)
    np.testing.assert_allclose(later.online, whole.online[25:])


def test_a_perfect_forecast_takes_all():
    y = np.linspace(0, 1, 30)
    found = mix(np.column_stack([y, y + 1.0]), ResidualLoss(y), np.zeros(2), np.ones(30), [np.arange(30)])
    assert found.shares[0] > 0.95
