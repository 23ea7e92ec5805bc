"""The pure steps of `alg:selection`: laws of the scales, the weights and the projection."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from gatewise.aggregation.selection import nearest, scales, weigh
from gatewise.noise import DoubleExponential, Gaussian, StudentT

RNG = np.random.default_rng(5)
F = RNG.normal(size=(40, 4))
Y = F[:, 1] + 0.5 * RNG.normal(size=40)
SIGMA = np.array([0.9, 0.5, 1.1, 0.7])
seeds = st.integers(0, 2**32 - 1)


def plain_weights(F, y, sigma, density):
    """The update of the algorithm as it is printed, in linear space."""
    w = np.full(F.shape[1], 1 / F.shape[1])
    path = [w]
    for row, response in zip(F, y, strict=True):
        w = w * density((response - row) / sigma) / sigma
        w = w / w.sum()
        path.append(w)
    return np.array(path)


@pytest.mark.parametrize("noise", [Gaussian(), DoubleExponential(), StudentT(5.0)], ids=lambda n: type(n).__name__)
def test_weights_follow_the_printed_update(noise):
    found = weigh(F, Y, SIGMA, noise)
    path = plain_weights(F, Y, SIGMA, lambda z: np.exp(noise.log_density(z)))
    np.testing.assert_allclose(found.path, path, rtol=1e-9)
    np.testing.assert_allclose(found.weights, path[:-1].mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose(found.online, (path[:-1] * F).sum(axis=1), rtol=1e-9)


def test_the_evidence_of_a_gaussian_is_the_usual_posterior():
    likelihood = norm.logpdf(Y[:, None], F, SIGMA).sum(axis=0)
    posterior = np.exp(likelihood - likelihood.max())
    np.testing.assert_allclose(weigh(F, Y, SIGMA).path[-1], posterior / posterior.sum(), rtol=1e-8)


@given(seeds)
def test_relabelling_relabels_everything(seed):
    order = np.random.default_rng(seed).permutation(4)
    here, there = weigh(F, Y, SIGMA), weigh(F[:, order], Y, SIGMA[order])
    np.testing.assert_allclose(there.path, here.path[:, order], rtol=1e-9, atol=1e-300)
    np.testing.assert_allclose(there.online, here.online, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(scales(F[:, order], Y, (0.1, 9.0)), scales(F, Y, (0.1, 9.0))[order], rtol=1e-12)
    one, two = nearest(F, here.weights), nearest(F[:, order], there.weights)
    assert order[two.candidate] == one.candidate


@given(seeds)
def test_a_shift_of_everything_shifts_the_predictions_alone(seed):
    shift = np.random.default_rng(seed).normal(scale=10.0)
    here, there = weigh(F, Y, SIGMA), weigh(F + shift, Y + shift, SIGMA)
    np.testing.assert_allclose(there.path, here.path, rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(there.online, here.online + shift, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(scales(F + shift, Y + shift, (0.1, 9.0)), scales(F, Y, (0.1, 9.0)), rtol=1e-9)
    moved = nearest(F + shift, here.weights)
    assert moved.candidate == nearest(F, here.weights).candidate


@given(seeds, st.floats(1e-3, 1e3))
def test_the_unit_of_the_response_does_not_matter(seed, unit):
    rng = np.random.default_rng(seed)
    F, y = rng.normal(size=(20, 3)), rng.normal(size=20)
    sigma = scales(F, y, (1e-9, 1e9))
    np.testing.assert_allclose(scales(unit * F, unit * y, (1e-9, 1e9)), unit * sigma, rtol=1e-9)
    here, there = weigh(F, y, sigma), weigh(unit * F, unit * y, unit * sigma)
    np.testing.assert_allclose(there.path, here.path, rtol=1e-7, atol=1e-12)


def test_twins_share_what_one_of_them_would_have_with_twice_the_start():
    twins = weigh(F[:, [0, 1, 1]], Y, SIGMA[[0, 1, 1]])
    np.testing.assert_array_equal(twins.path[:, 1], twins.path[:, 2])
    alone = weigh(F[:, [0, 1]], Y, SIGMA[[0, 1]]).path
    odds = alone[:, 1] / alone[:, 0]
    np.testing.assert_allclose((twins.path[:, 1] + twins.path[:, 2]) / twins.path[:, 0], 2 * odds, rtol=1e-9)


def test_no_weight_moves_before_the_response_that_moves_it():
    changed = Y.copy()
    changed[25] += 3.0
    here, there = weigh(F, Y, SIGMA), weigh(F, changed, SIGMA)
    np.testing.assert_array_equal(there.path[:26], here.path[:26])
    np.testing.assert_array_equal(there.online[:26], here.online[:26])
    assert np.abs(there.path[26:] - here.path[26:]).max() > 1e-3


def test_scales_are_root_mean_squares_within_their_bounds():
    plain = np.sqrt(np.mean((Y[:, None] - F) ** 2, axis=0))
    np.testing.assert_allclose(scales(F, Y, (1e-6, 1e6)), plain, rtol=1e-12)
    np.testing.assert_allclose(scales(F, Y, (0.6, 1.2)), np.clip(plain, 0.6, 1.2), rtol=1e-12)
    np.testing.assert_allclose(scales(1e200 * F, 1e200 * Y, (1.0, 1e300)), 1e200 * plain, rtol=1e-9)
    assert scales(Y[:, None], Y, (0.25, 1.0)) == 0.25


@given(seeds)
def test_the_nearest_is_the_nearest(seed):
    rng = np.random.default_rng(seed)
    F, weights = rng.normal(size=(12, 5)), rng.dirichlet(np.ones(5))
    found = nearest(F, weights)
    distances = [np.mean((F[:, m] - F @ weights) ** 2) for m in range(5)]
    np.testing.assert_allclose(found.squared_distances, distances, rtol=1e-9)
    assert found.candidate == int(np.argmin(distances))


def test_equal_distances_go_to_the_first():
    assert nearest([[0.0, 1.0]], [0.5, 0.5]).candidate == 0
    assert nearest([[1.0, 0.0, 1.0]], [0.25, 0.5, 0.25]).candidate == 0


def test_impossible_observations():
    def triangle(z):
        """Mean 0 and variance 1 on a bounded support."""
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(0.0, 1.0 - np.abs(z) / np.sqrt(6.0))) - 0.5 * np.log(6.0)

    away = weigh([[0.0, 9.0], [0.0, 9.0]], [0.1, 0.2], 1.0, triangle)
    np.testing.assert_array_equal(away.path[1:], [[1.0, 0.0], [1.0, 0.0]])
    with pytest.raises(ValueError, match="impossible under every candidate"):
        weigh([[0.0, 9.0]], [50.0], 1.0, triangle)
    with pytest.raises(ValueError, match="impossible under every candidate"):
        weigh([[0.0, 1.0]], [1e200], 1e-100)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: weigh(F, Y[:-1], SIGMA), r"y must have shape \(40,\)"),
        (lambda: weigh(F, Y, 0.0), "sigma must be finite and above 0"),
        (lambda: weigh(F[:0], Y[:0], SIGMA), "at least one row"),
        (lambda: weigh(np.where(np.eye(40, 4) > 0, np.nan, F), Y, SIGMA), "F must be finite"),
        (lambda: scales(F, Y, (0.0, 1.0)), "0 < low <= high"),
        (lambda: scales(F, np.where(np.arange(40) == 3, np.inf, Y), (0.1, 1.0)), "y must be finite"),
        (lambda: nearest(F, [0.5, 0.5]), r"weights must have shape \(4,\)"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
