"""Laws of every loss: derivatives, scales, and what AFTER weighs with."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp, softmax

from gatewise.aggregation.weights import information, time_average
from gatewise.losses import (
    DoubleExponential,
    Gaussian,
    LogLoss,
    ResidualLoss,
    score,
    score_slope,
    ScoreLoss,
    StudentT,
)
from gatewise.noise import as_noise
from gatewise.router.learning import ListForecasts, mix

Y = np.array([0.3, -1.2, 2.0, 0.7])
NOISES = {"gaussian": Gaussian(), "double exponential": DoubleExponential(), "student": StudentT(6.0)}
LOSSES = {
    **{name: ResidualLoss(Y, noise, 0.8**2) for name, noise in NOISES.items()},
    "a density of one's own": ResidualLoss(Y, as_noise(lambda z: -0.5 * z**2 - 0.5 * np.log(2 * np.pi)), 0.8**2),
    "log": LogLoss(),
    "score": ScoreLoss(rate=2.0),
}
every_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES.keys())


@every_loss
@given(z=st.lists(st.floats(0.05, 3.0), min_size=4, max_size=4))
def test_slope_and_curvature_are_derivatives_of_the_value(loss, z):
    z = np.array(z)
    z += 0.02 * (np.abs(z - Y) < 0.01)  # away from the kink
    step = 1e-5
    slope = (loss.value(z + step) - loss.value(z - step)) / (2 * step)
    np.testing.assert_allclose(loss.slope(z), slope, rtol=1e-5, atol=1e-6)
    curvature = (loss.slope(z + step) - loss.slope(z - step)) / (2 * step)
    np.testing.assert_allclose(loss.curvature(z), curvature, rtol=1e-4, atol=1e-3)


@every_loss
def test_columns_are_candidates_and_rows_are_rows(loss):
    z = np.random.default_rng(0).uniform(0.1, 1.0, (4, 3))
    for s in range(3):
        np.testing.assert_allclose(loss.value(z)[:, s], loss.value(z[:, s]))
        np.testing.assert_allclose(loss.error(z)[:, s], loss.error(z[:, s]))
    part = loss.part([2, 0])
    np.testing.assert_allclose(part.value(z[[2, 0]]), loss.value(z)[[2, 0]])


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES.keys())
def test_a_residual_loss_is_the_negative_log_density(noise):
    loss, z = ResidualLoss(Y, noise, 0.8**2), np.zeros(4)
    expected = noise.log_density(Y / 0.8) - np.log(0.8)
    np.testing.assert_allclose(loss.log_density(z), expected)
    np.testing.assert_allclose(loss.value(z), -expected)
    np.testing.assert_allclose(loss.error(z), Y**2)


def test_the_scale_is_the_weighted_root_mean_square_kept_above_zero():
    weight = np.array([1.0, 2.0, 0.0, 1.0])
    z = np.column_stack([np.zeros(4), Y, Y + 1e-9])
    scale = ResidualLoss(Y).calibrated(z, weight).scale
    first = np.sqrt((weight * Y**2).sum() / weight.sum())
    np.testing.assert_allclose(scale, [first, 1e-6 * first, 1e-6 * first])
    assert ResidualLoss(Y).calibrated(Y, weight).scale > 0.0
    assert LogLoss().calibrated(z, weight) == LogLoss()


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES.keys())
def test_the_own_derivatives_of_a_noise_are_those_of_differences(noise):
    z = np.array([-3.0, -0.4, 0.9, 2.5])

    class Plain:
        log_density = noise.log_density

    np.testing.assert_allclose(score(noise, z), score(Plain(), z), atol=1e-7)
    np.testing.assert_allclose(score_slope(noise, z), score_slope(Plain(), z), atol=1e-5)


@every_loss
def test_the_aggregation_is_the_two_line_oracle(loss):
    z = np.random.default_rng(1).uniform(0.1, 1.0, (4, 5))
    prior, power, order = np.log([0.4, 0.3, 0.1, 0.1, 0.1]), np.array([1.0, 0.5, 2.0, 1.0]), np.array([2, 0, 3, 1])
    density = power[:, None] * loss.calibrated(z, power).log_density(z)
    log_density = 0.3 * information(density, prior) * density[order]
    path = softmax(prior + np.vstack([np.zeros(5), np.cumsum(log_density, axis=0)[:-1]]), axis=1)
    (found,) = mix(ListForecasts(z, loss, power, 0.3, [order]), prior[None])
    np.testing.assert_allclose(found.shares, path[2:].mean(axis=0))  # over the second half of the rows


@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 60),
    S=st.integers(1, 8),
    adversarial=st.booleans(),
)
def test_the_regret_of_the_log_loss_is_at_most_log_s_on_every_path(seed, n, S, adversarial):
    rng = np.random.default_rng(seed)
    z = rng.uniform(1e-6, 1.0, (n, S)) ** rng.uniform(0.2, 8.0)
    if adversarial:  # whoever leads is wrong next
        lead = np.zeros(S)
        for row in z:
            row[np.argmax(lead)] = 1e-9
            lead += np.log(row)
    _, online = time_average(np.full(S, -np.log(S)), LogLoss().log_density(z), [np.arange(n)], forecasts=z)
    regret = LogLoss().value(online).sum() - LogLoss().value(z).sum(axis=0).min()
    assert regret <= np.log(S) + 1e-9
    evidence = logsumexp(np.log(z).sum(axis=0)) - np.log(S)  # the mixture's densities multiply to the mean product
    np.testing.assert_allclose(np.log(online).sum(), evidence, rtol=1e-9, atol=1e-9)
