"""The loss of a mixture's prediction with its first two derivatives, row by row."""

import math

from gatewise.arrays import Floats
from gatewise.kernels.compiled import compiled
from gatewise.kernels.loss_kinds import DOUBLE_EXPONENTIAL, GAUSSIAN, LINEAR, LOG, standard_noise, STUDENT_T


@compiled
def loss_terms(
    kind: int,
    parameter: float,
    z: Floats,
    y: Floats,
    sigma: float,
    value: Floats,
    slope: Floats,
    curvature: Floats,
) -> None:
    """Fill value, slope and curvature with phi_i(z_i), phi_i'(z_i) and phi_i''(z_i); all arrays (n,).

    GAUSSIAN, DOUBLE_EXPONENTIAL, STUDENT_T (``parameter``: its degrees of freedom, above 2): phi_i(z) =
    -log h((y_i - z) / sigma) + log sigma, where h is the density of `gatewise.noise` with variance 1. At its kink,
    z = y_i, the double exponential has slope 0, and its curvature is 0 everywhere. The curvature of Student t is
    negative where |y_i - z| > sigma sqrt(df - 2).
    LOG: phi_i(z) = -log z. LINEAR: phi_i(z) = -z. Both read neither ``y``, which may be empty, nor ``sigma``.
    ``parameter`` is read by STUDENT_T only.
    """
    if kind == LOG:
        _log_terms(z, value, slope, curvature)
    elif kind == LINEAR:
        for i in range(z.size):
            value[i], slope[i], curvature[i] = -z[i], -1.0, 0.0
    elif kind == GAUSSIAN:
        _gaussian_terms(z, y, sigma, value, slope, curvature)
    elif kind == DOUBLE_EXPONENTIAL:
        _double_exponential_terms(z, y, sigma, value, slope, curvature)
    else:
        _student_t_terms(parameter, z, y, sigma, value, slope, curvature)


@compiled
def _log_terms(z: Floats, value: Floats, slope: Floats, curvature: Floats) -> None:
    """-log z, -1 / z, 1 / z^2."""
    for i in range(z.size):
        inverse = 1.0 / z[i]
        value[i] = -math.log(z[i])
        slope[i] = -inverse
        curvature[i] = inverse * inverse


@compiled
def _gaussian_terms(z: Floats, y: Floats, sigma: float, value: Floats, slope: Floats, curvature: Floats) -> None:
    """With u = (y - z) / sigma: u^2 / 2 + constant, -u / sigma, 1 / sigma^2."""
    constant = math.log(sigma) - standard_noise(GAUSSIAN, 0.0)[1]
    inverse = 1.0 / sigma
    for i in range(z.size):
        u = (y[i] - z[i]) * inverse
        value[i] = 0.5 * u * u + constant
        slope[i] = -u * inverse
        curvature[i] = inverse * inverse


@compiled
def _double_exponential_terms(
    z: Floats, y: Floats, sigma: float, value: Floats, slope: Floats, curvature: Floats
) -> None:
    """With c = sqrt(2) / sigma: c |y - z| + constant, c sign(z - y), 0."""
    scale, offset = standard_noise(DOUBLE_EXPONENTIAL, 0.0)
    c, constant = scale / sigma, math.log(sigma) - offset
    for i in range(z.size):
        above = z[i] - y[i]
        value[i] = c * abs(above) + constant
        sign = 1.0 if above > 0.0 else -1.0
        slope[i] = c * sign if above != 0.0 else 0.0
        curvature[i] = 0.0


@compiled
def _student_t_terms(
    df: float, z: Floats, y: Floats, sigma: float, value: Floats, slope: Floats, curvature: Floats
) -> None:
    """With v = c (y - z), c = 1 / (sigma sqrt(df - 2)) and q = 1 / (1 + v^2):

    (df + 1) / 2 log(1 + v^2) + constant, -(df + 1) c v q, (df + 1) c^2 q (2 q - 1).
    """
    scale, offset = standard_noise(STUDENT_T, df)
    c, constant = scale / sigma, math.log(sigma) - offset
    for i in range(z.size):
        v = (y[i] - z[i]) * c
        q = 1.0 / (1.0 + v * v)
        value[i] = 0.5 * (df + 1.0) * math.log1p(v * v) + constant
        slope[i] = -(df + 1.0) * c * v * q
        curvature[i] = (df + 1.0) * c * c * q * (2.0 * q - 1.0)
