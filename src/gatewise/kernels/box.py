"""The uniform prior on a box in coordinates without walls: theta = radius tanh(u / 2), many positions at once."""

import math

from gatewise.arrays import Floats
from gatewise.kernels.compiled import compiled, compiled_fma
from gatewise.kernels.simd.exponential import exp_nonpositive

FACTORS = 16  # of a product whose logarithm is taken once: each may be as small as 1e-17


@compiled_fma
def box_theta(position: Floats, radius: float, theta: Floats) -> None:
    """theta = radius tanh(position / 2), both (S, D)."""
    for s in range(position.shape[0]):
        for i in range(position.shape[1]):
            u = position[s, i]
            e = exp_nonpositive(-abs(u))
            ratio = radius * (1.0 - e) / (1.0 + e)
            theta[s, i] = ratio if u > 0.0 else -ratio


@compiled
def box_log_prior(theta: Floats, radius: float, value: Floats) -> None:
    """value[s] = sum_i log(1 - (theta_si / radius)^2), theta (S, D)."""
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
def box_pull(theta: Floats, radius: float, grad: Floats, out: Floats) -> None:
    """out = radius / 2 (1 - ratio^2) grad - ratio with ratio = theta / radius, all (S, D)."""
    inverse, half = 1.0 / radius, 0.5 * radius
    for s in range(theta.shape[0]):
        for i in range(theta.shape[1]):
            ratio = theta[s, i] * inverse
            out[s, i] = half * (1.0 - ratio * ratio) * grad[s, i] - ratio
