"""Log densities of the noise families, for the candidates of a tile.

The log density of a residual r is offset - shape(r * scale), where shape is never negative: see `standard_noise`.
"""

import numpy as np

from gatewise.arrays import Floats
from gatewise.kernels.compiled import leaf
from gatewise.kernels.loss_kinds import DOUBLE_EXPONENTIAL, GAUSSIAN, LEAST, OUTCOME
from gatewise.kernels.simd.elementary import log_lanes
from gatewise.kernels.simd.lanes import choose, fill, Lanes, larger, load, store, WIDTH
from gatewise.kernels.simd.tile import Strip, TILE

HUGE = 1e300  # squares above it count as infinite
IMPOSSIBLE = -1e9  # in the place of the logarithm of a probability that is 0


@leaf
def set_noise(
    standard: tuple[float, float], sigma: Floats, first: int, count: int, member: int, scale: Floats, offset: Floats
) -> None:
    """Write the constants of the noise of a member's candidates into scale[member] and offset[member].

    standard: (scale, offset) at sigma = 1, from `standard_noise`; sigma (S,), or (1,) for one that all share; first,
    count: the member's candidates; scale, offset (MEMBERS, TILE).
    """
    standard_scale, standard_offset = standard
    for i in range(TILE):
        scale[member, i] = sigma[0]
    if sigma.size > 1:
        for i in range(count):
            scale[member, i] = sigma[first + i]
    for i in range(member * TILE, (member + 1) * TILE, WIDTH):
        own_sigma = load(scale, i)
        store(scale, i, standard_scale / own_sigma)
        store(offset, i, standard_offset - log_lanes(own_sigma))


@leaf
def _log_density(noise: int, df: float, power: Floats, t: int, r: Lanes, scale: Lanes, offset: Lanes) -> Lanes:
    """offset - shape(r * scale), for the log loss times power[t]."""
    u = r * scale
    if noise == GAUSSIAN:
        return offset - u * u
    if noise == DOUBLE_EXPONENTIAL:
        return offset - larger(u, 0.0 - u)
    if noise == OUTCOME:
        times = power[t] if power.size > 0 else 1.0
        return (choose(u, LEAST, log_lanes(u), fill(IMPOSSIBLE)) + offset) * times
    square = u * u  # where it overflows, the density is 0
    return choose(square, HUGE, fill(-np.inf), offset - log_lanes(square + 1.0) * (0.5 * (df + 1.0)))


@leaf
def add_log_density(
    noise: int, df: float, power: Floats, t: int, w: Strip, r: Strip, scale: Strip, offset: Strip
) -> Strip:
    """w + log densities of the residuals r: the log weights after observation t.

    With the log loss a density counts to the power power[t]; to the first, if power is empty.
    """
    return (
        w[0] + _log_density(noise, df, power, t, r[0], scale[0], offset[0]),
        w[1] + _log_density(noise, df, power, t, r[1], scale[1], offset[1]),
        w[2] + _log_density(noise, df, power, t, r[2], scale[2], offset[2]),
        w[3] + _log_density(noise, df, power, t, r[3], scale[3], offset[3]),
    )
