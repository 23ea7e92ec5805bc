"""Score transformations and their regularity."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import log_expit, log_softmax

from gatewise.gates import LinearGate, phi_regularity
from gatewise.gates.phi import LOG_PHI, log_phi


@pytest.mark.parametrize("phi", list(LOG_PHI))
def test_named_constants_agree_with_the_numeric_ones(phi):
    named, numeric = phi_regularity(phi), phi_regularity(LOG_PHI[phi])
    assert named.relative_derivative == pytest.approx(numeric.relative_derivative, abs=1e-3)
    assert named.lipschitz == named.relative_derivative / 2


@pytest.mark.parametrize("rate", [0.01, 1.0, 3.5, 200.0])
def test_exp_of_a_t_has_constant_a(rate):
    regularity = phi_regularity(partial(np.multiply, rate))
    assert regularity.bounded
    assert regularity.relative_derivative == pytest.approx(rate, rel=1e-6)
    assert regularity.lipschitz == pytest.approx(rate / 2, rel=1e-6)


def test_a_steep_spot_is_found():
    # log phi = t + 3 tanh(t - 0.3): its derivative is largest, 4, at t = 0.3.
    assert phi_regularity(lambda t: t + 3 * np.tanh(t - 0.3)).relative_derivative == pytest.approx(4.0, rel=1e-4)


@pytest.mark.parametrize(
    "phi",
    [np.exp, lambda t: t**3, lambda t: t * np.abs(t), np.cbrt, lambda t: np.sign(t) * np.sqrt(np.abs(t))],
    ids=["exp(exp t)", "exp(t^3)", "exp(t|t|)", "exp(cbrt t)", "exp(sqrt t)"],
)
def test_unbounded_transformations_are_said_to_be(phi):
    regularity = phi_regularity(phi)
    assert not regularity.bounded
    assert regularity == (np.inf, np.inf)


def test_a_falling_transformation_is_an_error():
    with pytest.raises(ValueError, match="phi must be increasing"):
        phi_regularity(np.negative)
    with pytest.raises(ValueError, match="one number for every t"):
        phi_regularity(lambda t: np.full_like(t, np.nan))


@pytest.mark.parametrize("phi", ["exp", "sigmoid", partial(np.multiply, 2.0), lambda t: t + np.tanh(t)])
@given(z=arrays(np.float64, (2, 5), elements=st.floats(-30, 30)))
def test_weights_are_lipschitz_with_the_stated_constant(phi, z):
    a, b = (np.exp(log_softmax(log_phi(phi, row))) for row in z)
    bound = phi_regularity(phi).lipschitz * (1 + 1e-3)
    assert np.linalg.norm(a - b) <= bound * np.linalg.norm(z[0] - z[1]) + 1e-12


def test_a_users_phi_equals_the_named_one():
    rng = np.random.default_rng(0)
    X, theta = rng.normal(size=(300, 2)), rng.normal(size=(3, 3))
    for k in (None, 2):
        named, own = LinearGate(4, k=k, phi="sigmoid"), LinearGate(4, k=k, phi=log_expit)
        np.testing.assert_array_equal(named.weights(X, theta), own.weights(X, theta))
        plain, doubled = LinearGate(4, k=k), LinearGate(4, k=k, phi=partial(np.multiply, 2.0))
        np.testing.assert_allclose(plain.weights(X, 2 * theta), doubled.weights(X, theta), rtol=1e-12)
