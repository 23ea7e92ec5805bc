"""How residuals become weights on a device: scales, prior and noise density, with logarithms to the base 2."""

from __future__ import annotations

from math import log, sqrt
from typing import NamedTuple

import torch
from torch import Tensor

from gatewise.losses import DoubleExponential, Gaussian, StudentT
from gatewise.noise import Noise

LOG2_E = 1.0 / log(2.0)


class WeightLaw(NamedTuple):
    """log2 of a weight rises by log2(reference / sigma) - shape(scale r / sigma) when the residual r is seen.

    sigma (A, B), or (1,) for all; prior (A, B), the log2 of the prior over that of the flat one, or None; noise: 0
    for the Gaussian, 1 for the double exponential, 2 for Student t, whose shape is power log2(1 + u^2). The constant
    ``peak`` of the log density, in nats, and log(reference) are left out of the weights.
    """

    sigma: Tensor
    prior: Tensor | None
    noise: int
    scale: float
    power: float
    reference: float
    peak: float

    def shape(self, u: Tensor) -> Tensor:
        """What the log2 density lacks to its peak at the scaled residual u."""
        if self.noise == 0:
            return u.square()
        return u.abs() if self.noise == 1 else self.power * torch.log2(1.0 + u.square())


def weight_law(noise: Noise, sigma: Tensor, prior: Tensor | None, reference: float) -> WeightLaw:
    """The law of a noise family that comes with the package."""
    peak = float(noise.log_density(0.0))
    if isinstance(noise, Gaussian):
        return WeightLaw(sigma, prior, 0, sqrt(0.5 * LOG2_E), 0.0, reference, peak)
    if isinstance(noise, DoubleExponential):
        return WeightLaw(sigma, prior, 1, sqrt(2.0) * LOG2_E, 0.0, reference, peak)
    if isinstance(noise, StudentT):
        return WeightLaw(sigma, prior, 2, 1.0 / sqrt(noise.df - 2.0), 0.5 * (noise.df + 1.0), reference, peak)
    raise ValueError(
        f"on a device noise must be 'gaussian', 'double_exponential' or StudentT, not {noise!r}; or leave device=None"
    )
