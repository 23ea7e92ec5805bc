"""log densities of the noise families, added to the log weights of a tile."""

import math

from gatewise.kernels.compiled import compiled, compiled_leaf
from gatewise.kernels.logarithm import log_from_one
from gatewise.kernels.tile import Floats, TILE

GAUSSIAN, DOUBLE_EXPONENTIAL, STUDENT_T = 0, 1, 2


@compiled
def set_noise(code: int, df: float, sigma: float) -> tuple[float, float]:
    """(scale, offset) such that log density of a residual r is offset - shape(r * scale).

    Gaussian: shape(u) = u^2; double exponential: |u|; Student t: (df + 1) / 2 log(1 + u^2).
    """
    if code == GAUSSIAN:
        return math.sqrt(0.5) / sigma, -math.log(sigma) - 0.5 * math.log(2.0 * math.pi)
    if code == DOUBLE_EXPONENTIAL:
        return math.sqrt(2.0) / sigma, -math.log(sigma) - 0.5 * math.log(2.0)
    spread = math.sqrt(df - 2.0)
    peak = math.lgamma(0.5 * (df + 1.0)) - math.lgamma(0.5 * df) - 0.5 * math.log(math.pi) - math.log(spread)
    return 1.0 / (sigma * spread), peak - math.log(sigma)


@compiled_leaf
def add_log_density(
    code: int,
    df: float,
    residual: Floats,
    row: int,
    scale: Floats,
    offset: Floats,
    bar: float,
    log_weight: Floats,
) -> int:
    """log_weight += log density of residual[row]; how many log weights are then above bar."""
    above = 0
    if code == GAUSSIAN:
        for i in range(TILE):
            u = residual[row, i] * scale[i]
            value = log_weight[i] + (offset[i] - u * u)
            log_weight[i] = value
            above += 1 if value > bar else 0
    elif code == DOUBLE_EXPONENTIAL:
        for i in range(TILE):
            value = log_weight[i] + (offset[i] - abs(residual[row, i] * scale[i]))
            log_weight[i] = value
            above += 1 if value > bar else 0
    else:
        half = 0.5 * (df + 1.0)
        for i in range(TILE):
            u = residual[row, i] * scale[i]
            value = log_weight[i] + (offset[i] - half * log_from_one(1.0 + u * u))
            log_weight[i] = value
            above += 1 if value > bar else 0
    return above
