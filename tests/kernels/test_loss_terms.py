"""The compiled losses against the noise families of the library, and their derivatives against differences."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gatewise.arrays import Floats
from gatewise.kernels.loss_kinds import DOUBLE_EXPONENTIAL, GAUSSIAN, LINEAR, LOG, STUDENT_T
from gatewise.kernels.loss_terms import loss_terms
from gatewise.noise import DoubleExponential, Gaussian, Noise, StudentT

NOISES = [
    (GAUSSIAN, 0.0, Gaussian()),
    (DOUBLE_EXPONENTIAL, 0.0, DoubleExponential()),
    (STUDENT_T, 6.5, StudentT(6.5)),
]
KINDS = [(kind, parameter) for kind, parameter, _ in NOISES] + [(LOG, 0.0), (LINEAR, 0.0)]


def terms(kind: int, parameter: float, z: Floats, y: Floats, sigma: float) -> tuple[Floats, Floats, Floats]:
    value, slope, curvature = np.full((3, len(z)), np.nan)
    loss_terms(kind, parameter, z, y, sigma, value, slope, curvature)
    return value, slope, curvature


def rows(seed: int) -> tuple[Floats, Floats]:
    """Positive predictions and responses on both sides, none of them nearer than 0.01."""
    rng = np.random.default_rng(seed)
    z = rng.uniform(0.2, 3.0, 200)
    return z, z + np.where(rng.random(200) < 0.5, -1.0, 1.0) * rng.uniform(0.01, 8.0, 200)


@pytest.mark.parametrize(("kind", "parameter", "noise"), NOISES)
@pytest.mark.parametrize("sigma", [0.3, 2.0])
def test_value_is_the_negative_log_density(kind: int, parameter: float, noise: Noise, sigma: float) -> None:
    z, y = rows(0)
    value = terms(kind, parameter, z, y, sigma)[0]
    assert_allclose(value, np.log(sigma) - noise.log_density((y - z) / sigma), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(("kind", "parameter"), KINDS)
@pytest.mark.parametrize("sigma", [0.3, 2.0])
def test_derivatives_are_limits_of_differences(kind: int, parameter: float, sigma: float) -> None:
    (z, y), step = rows(1), 1e-5
    _, slope, curvature = terms(kind, parameter, z, y, sigma)
    above, below = terms(kind, parameter, z + step, y, sigma), terms(kind, parameter, z - step, y, sigma)
    assert_allclose(slope, (above[0] - below[0]) / (2.0 * step), rtol=1e-6, atol=1e-6)
    assert_allclose(curvature, (above[1] - below[1]) / (2.0 * step), rtol=1e-6, atol=1e-6)


def test_student_t_bends_down_far_from_the_response() -> None:
    curvature = terms(STUDENT_T, 6.0, np.zeros(2), np.array([1.9, 2.1]), 1.0)[2]  # sqrt(df - 2) = 2
    assert curvature[0] > 0.0 > curvature[1]


def test_the_kink_of_the_double_exponential() -> None:
    value, slope, curvature = terms(DOUBLE_EXPONENTIAL, 0.0, np.ones(1), np.ones(1), 1.0)
    assert_allclose(value, [0.5 * np.log(2.0)])
    assert slope[0] == curvature[0] == 0.0


@pytest.mark.parametrize(("kind", "expected"), [(LOG, [0.0, -1.0, 1.0]), (LINEAR, [-1.0, -1.0, 0.0])])
def test_losses_of_the_mixture_alone_need_no_response(kind: int, expected: list[float]) -> None:
    assert_allclose(np.ravel(terms(kind, 0.0, np.ones(1), np.empty(0), np.nan)), expected, atol=0.0)


def test_extreme_rows_give_limits_and_no_nan() -> None:
    value, slope, curvature = terms(STUDENT_T, 5.0, np.zeros(1), np.array([1e200]), 1.0)
    assert value[0] > 1000.0
    assert slope[0] == curvature[0] == 0.0
    value, slope, curvature = terms(LOG, 0.0, np.zeros(1), np.empty(0), 1.0)
    assert (value[0], slope[0], curvature[0]) == (np.inf, -np.inf, np.inf)
