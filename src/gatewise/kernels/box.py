"""The uniform prior on a box |theta_i| < radius, in coordinates u without bounds: theta = radius tanh(u / 2)."""

import math

from gatewise.arrays import Floats
from gatewise.kernels.compiled import compiled, compiled_fma
from gatewise.kernels.simd.exponential import exp_nonpositive

FACTORS = 16  # factors of a product whose logarithm is taken once; each is 0 or at least 1e-17


@compiled_fma
def box_theta(position: Floats, radius: float, theta: Floats) -> None:
    """Fill theta with radius tanh(position / 2); both (S, D)."""
    for s in range(position.shape[0]):
        for i in range(position.shape[1]):
            u = position[s, i]
            e = exp_nonpositive(-abs(u))
            ratio = radius * (1.0 - e) / (1.0 + e)
            theta[s, i] = ratio if u > 0.0 else -ratio


@compiled
def box_log_prior(theta: Floats, radius: float, value: Floats) -> None:
    """value[s] = sum_i log(1 - (theta_si / radius)^2) for theta (S, D).

    Up to a constant this is the log density of u when theta = radius tanh(u / 2) is uniform on the box.
    """
    width = theta.shape[1]
    for s in range(theta.shape[0]):
        total = 0.0
        for first in range(0, width, FACTORS):
            product = 1.0
            for i in range(first, min(first + FACTORS, width)):
                ratio = theta[s, i] / radius
                product *= (1.0 - ratio) * (1.0 + ratio)
            total += math.log(product)
        value[s] = total


@compiled_fma
def box_gradient(theta: Floats, radius: float, grad: Floats, out: Floats) -> None:
    """Gradient in u of f(theta(u)) + log prior(u), where grad is the gradient of f in theta.

    out = radius / 2 (1 - ratio^2) grad - ratio with ratio = theta / radius; all (S, D).
    """
    inverse, half = 1.0 / radius, 0.5 * radius
    for s in range(theta.shape[0]):
        for i in range(theta.shape[1]):
            ratio = theta[s, i] * inverse
            out[s, i] = half * (1.0 - ratio * ratio) * grad[s, i] - ratio
