"""AFTER: its law, its path and its streams."""

from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import logsumexp, softmax

import gatewise as gw
from gatewise.aggregation import stream
from gatewise.aggregation import weights as weighting
from gatewise.noise import Gaussian, StudentT

log_densities = arrays(np.float64, st.tuples(st.integers(1, 12), st.integers(1, 6)), elements=st.floats(-50, 5))


@given(log_densities, st.integers(0, 1000))
def test_product_of_mixtures_is_the_mixture_of_products(log_density, seed):
    prior = np.log(np.random.default_rng(seed).dirichlet(np.ones(log_density.shape[1])))
    state, path = weighting.run(weighting.init(prior), log_density)
    assert state.log_evidence == pytest.approx(logsumexp(prior + log_density.sum(axis=0)), abs=1e-9)
    mixtures = [logsumexp(path[t] + row) for t, row in enumerate(log_density)]
    assert state.log_evidence == pytest.approx(sum(mixtures), abs=1e-9)


@given(log_densities)
def test_the_path_is_the_softmax_of_cumulated_densities(log_density):
    cumulated = np.vstack([np.zeros(log_density.shape[1]), np.cumsum(log_density, axis=0)])
    expected = np.exp(cumulated - logsumexp(cumulated, axis=1, keepdims=True))
    np.testing.assert_allclose(gw.after(log_density), expected, atol=1e-12)


@given(log_densities)
def test_a_stream_is_the_same_whatever_its_cuts(log_density):
    whole, path = weighting.run(weighting.init(np.zeros(log_density.shape[1])), log_density)
    half = len(log_density) // 2
    first, _ = weighting.run(weighting.init(np.zeros(log_density.shape[1])), log_density[:half])
    second, rest = weighting.run(first, log_density[half:])
    np.testing.assert_allclose(second.log_weights, whole.log_weights, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(rest, path[half:], rtol=1e-12, atol=1e-12)
    assert second.log_evidence == pytest.approx(whole.log_evidence, rel=1e-12, abs=1e-12)


@given(log_densities)
def test_a_run_is_step_after_step_whatever_the_blocks(log_density):
    state = weighting.init(np.zeros(log_density.shape[1]))
    steps = [state]
    for row in log_density:
        steps.append(weighting.step(steps[-1], row))
    for numbers in (1, 7, 2**21):
        with mock.patch.object(weighting, "BLOCK_NUMBERS", numbers):
            last, path = weighting.run(state, log_density)
        np.testing.assert_allclose(path, [one.log_weights for one in steps], rtol=1e-12, atol=1e-12)
        assert last.log_evidence == pytest.approx(steps[-1].log_evidence, rel=1e-12, abs=1e-12)


@given(log_densities, st.integers(0, 1000))
def test_averages_over_orders_are_those_of_the_paths(log_density, seed):
    rng = np.random.default_rng(seed)
    n, S = log_density.shape
    forecasts, prior = rng.normal(size=(n, S)), np.log(rng.dirichlet(np.ones(S)))
    orders = [rng.permutation(n) for _ in range(3)]
    paths = [gw.after(log_density[order], prior)[:-1] for order in orders]
    online = np.zeros(n)
    for order, path in zip(orders, paths, strict=True):
        online[order] += (path * forecasts[order]).sum(axis=1) / 3
    with mock.patch.object(weighting, "BLOCK_NUMBERS", 9):
        found = weighting.time_average(prior, log_density, orders, forecasts=forecasts)
        skipping = weighting.time_average(prior, log_density, orders, skipped=n // 2)
    np.testing.assert_allclose(found.weights, np.mean(paths, axis=(0, 1)), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.predictions, online, rtol=1e-9, atol=1e-12)
    later = [path[n // 2 :] for path in paths]
    np.testing.assert_allclose(skipping.weights, np.mean(later, axis=(0, 1)), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("few", [1, 100, 2**16])
def test_information_compares_the_best_candidate_with_one_after_another(few, monkeypatch):
    monkeypatch.setattr(weighting, "FEW", few)
    rng = np.random.default_rng(0)
    for n, S in ((1, 3), (40, 7), (300, 5)):
        density, prior = 0.1 * rng.normal(size=(n, S)), np.append(rng.normal(size=S - 1), -np.inf)
        share = softmax(prior)
        best = density[:, density[:, :-1].sum(axis=0).argmax()]
        gap = sum(share[s] * (best - density[:, s]).mean() for s in range(S))
        spread = sum(share[s] * (best - density[:, s]).var() for s in range(S))
        expected = np.clip(2.0 * gap / spread, weighting.LEAST_INFORMATION, 1.0) if n > 1 else 1.0
        np.testing.assert_allclose(weighting.information(density, prior), expected)


def test_densities_that_underflow_survive_as_ratios():
    weights = gw.after(np.array([[-1e6, -1e6 + np.log(3.0)], [-1e300, -1e300]]))
    np.testing.assert_allclose(weights[-1], [0.25, 0.75])


def test_huge_differences_that_cancel_leave_the_small_ones():
    rows = np.array([[0.0, -1e20], [-1e20, 0.0], [0.0, -np.log(3.0)], [0.0, 0.0]])
    np.testing.assert_allclose(gw.after(rows)[-1], [0.75, 0.25])
    later = np.vstack([[[0.0, 0.0, -np.inf]], np.column_stack([rows, np.full(4, 1e30)])])
    np.testing.assert_allclose(gw.after(later)[-1], [0.75, 0.25, 0.0])


def test_averages_over_orders_with_densities_of_zero():
    """A candidate that called a row impossible has weight before that row and none after it, in every order."""
    rng = np.random.default_rng(0)
    log_density = rng.normal(size=(8, 3))
    log_density[3, 1] = -np.inf
    orders = [np.arange(8), np.arange(8)[::-1]]
    paths = [gw.after(log_density[order])[:-1] for order in orders]
    found = weighting.time_average(np.zeros(3), log_density, orders)
    np.testing.assert_allclose(found.weights, np.mean(paths, axis=(0, 1)), rtol=1e-12)
    with pytest.raises(ValueError, match="impossible under every candidate"):
        weighting.time_average(np.zeros(3), np.full((8, 3), -np.inf), orders)


def test_one_observation_that_is_impossible_leaves_the_weights():
    log_weights = np.log([0.25, 0.75])
    same, log_mixture = weighting.update(log_weights, np.full(2, -np.inf))
    np.testing.assert_array_equal(same, log_weights)
    assert log_mixture == -np.inf
    without = np.array([0.0, -np.inf])
    assert weighting.update(without, np.array([-np.inf, 5.0]))[1] == -np.inf
    assert weighting.update(without, np.array([-2.0, np.nan]))[1] == -2.0


def test_a_weight_that_fell_comes_back():
    log_density = np.vstack([np.tile([0.0, -100.0], (50, 1)), np.tile([-100.0, 0.0], (60, 1))])
    assert gw.after(log_density)[50, 1] == 0.0  # exp(-5000)
    assert gw.after(log_density)[-1, 1] == 1.0


def test_a_candidate_without_prior_or_density_gets_no_weight():
    weights = gw.after(np.zeros((3, 3)), log_prior=[0.0, -np.inf, 0.0])
    np.testing.assert_array_equal(weights[-1], [0.5, 0.0, 0.5])
    np.testing.assert_array_equal(gw.after([[0.0, -np.inf], [0.0, 5.0]])[-1], [1.0, 0.0])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gw.after(np.zeros(3)), r"log_density must have shape \(T, S\)"),
        (lambda: gw.after(np.zeros((2, 3)), np.zeros(2)), r"log_density must have shape \(T, 2\)"),
        (lambda: gw.after(np.zeros((2, 3)), np.full(3, -np.inf)), "at least one finite entry"),
        (lambda: gw.after(np.full((2, 3), np.nan)), "log_density must hold numbers"),
        (lambda: gw.after(np.full((2, 3), -np.inf)), "needs a noise density with unbounded support"),
        (lambda: weighting.init(np.zeros((2, 2))), r"log_prior must have shape \(S,\)"),
        (lambda: stream.init([0.0], sigma=1.0, bounds=(2.0, 1.0)), "bounds must satisfy 0 < low <= high"),
        (lambda: stream.init([0.0], sigma=-1.0), "sigma must be above 0"),
        (lambda: stream.step(stream.init([0.0], 1.0), [0.0], np.nan, Gaussian()), "y must be finite"),
        (lambda: stream.predict(stream.init([0.0], 1.0), [0.0, 1.0]), r"forecasts must have shape \(1,\)"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    ("lossy", "words"),
    [
        (lambda values: np.ma.masked_array(values, values == 99.0), "must not be masked"),
        (lambda values: values + 1j, "must hold real numbers"),
        (lambda values: values.astype("timedelta64[s]"), "must hold numbers, not dates"),
    ],
)
def test_densities_that_would_become_other_numbers_are_refused(lossy, words):
    values, state = np.array([[0.0, 99.0], [0.0, 0.0]]), weighting.init(np.zeros(2))
    for call in (gw.after, lambda v: weighting.run(state, v), lambda v: weighting.step(state, v[0])):
        with pytest.raises(ValueError, match=f"^log_density {words}"):
            call(lossy(values))
    with pytest.raises(ValueError, match=f"^log_prior {words}"):
        gw.after(values, lossy(values)[0])


def test_a_stream_follows_the_algorithm_written_out():
    rng = np.random.default_rng(0)
    noise, forecasts, y = StudentT(6.0), rng.normal(size=(40, 3)), rng.normal(size=40)
    state = stream.init(np.log([0.5, 0.3, 0.2]), sigma=[1.0, 2.0, 0.5], bounds=(0.3, 3.0), start_count=5.0)
    weights, squares = np.array([0.5, 0.3, 0.2]), 5.0 * np.array([1.0, 4.0, 0.25])
    for t in range(40):
        assert stream.predict(state, forecasts[t]) == pytest.approx(weights @ forecasts[t])
        sigma = np.clip(np.sqrt(squares / (5.0 + t)), 0.3, 3.0)
        np.testing.assert_allclose(stream.scales(state), sigma)
        density = np.exp(noise.log_density((y[t] - forecasts[t]) / sigma)) / sigma
        weights = weights * density / (weights @ density)
        squares = squares + (y[t] - forecasts[t]) ** 2
        state = stream.step(state, forecasts[t], y[t], noise)
    np.testing.assert_allclose(np.exp(state.after.log_weights), weights, rtol=1e-9)


def test_running_scales_learn_which_forecast_is_noisier():
    rng = np.random.default_rng(1)
    state = stream.init(np.zeros(2), sigma=1.0)
    for _ in range(500):
        y = rng.normal(scale=0.1)
        state = stream.step(state, [0.0, rng.normal()], y, Gaussian())
    assert stream.scales(state)[0] < 0.3 < stream.scales(state)[1]
    assert np.exp(state.after.log_weights[0]) > 0.999
