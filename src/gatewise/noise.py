"""Standardized error densities h, mean 0 and variance 1: by name, of one's own, and how regular they are.

The condition is that of `ass:ARM-regularity`. The families themselves are in `gatewise.losses`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import log
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy.integrate import quad

from gatewise.arrays import Floats
from gatewise.losses import DoubleExponential, Gaussian, Noise, StudentT

LogDensity: TypeAlias = Callable[[Floats], Floats]

__all__ = [
    "FAMILIES",
    "Custom",
    "DoubleExponential",
    "Gaussian",
    "LogDensity",
    "Noise",
    "StudentT",
    "as_noise",
    "kl_condition",
    "kl_divergence",
]
TOLERANCE = 1e-6


@dataclass(frozen=True)
class Custom:
    """A user's log density z -> log h(z), checked to have total 1, mean 0 and variance 1."""

    function: LogDensity

    def __post_init__(self) -> None:
        total, mean, square = (_moment(self.log_density, power) for power in range(3))
        if not abs(total - 1.0) <= TOLERANCE:
            raise ValueError(
                f"noise must be the log of a density; exp(noise) integrates to {total:.6g}. "
                f"Subtract log({total:.6g}) from it."
            )
        variance = square - mean**2
        if not (abs(mean) <= TOLERANCE and abs(variance - 1.0) <= TOLERANCE):
            raise ValueError(
                f"noise must have mean 0 and variance 1; its mean is {mean:.6g} and its variance {variance:.6g}. "
                "With these mean and standard deviation s, pass z -> noise(mean + s z) + log(s) instead."
            )

    def log_density(self, z: ArrayLike) -> Floats:
        """log h(z), elementwise."""
        return np.asarray(self.function(np.asarray(z, dtype=np.float64)), dtype=np.float64)


FAMILIES: Mapping[str, type[Gaussian] | type[DoubleExponential] | type[StudentT]] = {
    "gaussian": Gaussian,
    "double_exponential": DoubleExponential,
    "student_t": StudentT,
}


def as_noise(spec: str | Noise | LogDensity) -> Noise:
    """The noise family that spec names or is.

    "gaussian", "double_exponential", "student_t" (5 degrees of freedom; others: ``StudentT(df)``), an instance, or a
    function z -> log h(z) on arrays, which is integrated once to check total 1, mean 0 and variance 1.
    """
    if isinstance(spec, str):
        if spec not in FAMILIES:
            raise ValueError(f"noise must be one of {', '.join(FAMILIES)}, or a log density; got {spec!r}.")
        return FAMILIES[spec]()
    if isinstance(spec, type):
        raise TypeError(f"noise must be an instance, as {spec.__name__}(...), not the class itself.")
    if isinstance(spec, Noise):
        return spec
    if callable(spec):
        return Custom(spec)
    raise TypeError(f"noise must be a name, a noise instance or a function z -> log density; got {spec!r}.")


def kl_divergence(noise: Noise, shift: float, scale: float) -> float:
    """int h(z) log[h(z) / (h((z - shift) / scale) / scale)] dz, by quadrature.

    >>> round(kl_divergence(Gaussian(), 1.0, 1.0), 9)
    0.5
    """

    def integrand(z: Floats) -> Floats:
        here = noise.log_density(z)
        there = noise.log_density((z - shift) / scale) - log(scale)
        with np.errstate(invalid="ignore"):
            return np.where(np.isneginf(here), 0.0, np.exp(here) * (here - there))

    return _integrate(integrand, (0.0, shift))


def kl_condition(
    noise: Noise | str | LogDensity, least_scale: float = 0.5, largest_shift: float = 1.0, n_grid: int = 9
) -> float:
    """Smallest C with KL(shift u, scale s) <= C {(1 - s)^2 + u^2} on a grid of s_0 <= s <= 1 / s_0, |u| <= T_0.

    The local condition of `ass:ARM-regularity`, with s_0 = least_scale and T_0 = largest_shift; n_grid points a side.
    An infinite value says that no constant works, as for a density of bounded support.

    >>> bool(0.5 <= kl_condition(Gaussian()) < 4.0)
    True
    """
    if not 0.0 < least_scale < 1.0:
        raise ValueError(f"least_scale must lie in (0, 1); got {least_scale}.")
    if not 0.0 < largest_shift < np.inf:
        raise ValueError(f"largest_shift must be finite and positive; got {largest_shift}.")
    family = as_noise(noise)
    scales = np.exp(np.linspace(log(least_scale), -log(least_scale), n_grid | 1))
    shifts = np.linspace(-largest_shift, largest_shift, n_grid | 1)
    worst = 0.0
    for scale in scales:
        for shift in shifts:
            distance = (1.0 - scale) ** 2 + shift**2
            if distance > 1e-12:
                worst = max(worst, kl_divergence(family, float(shift), float(scale)) / distance)
    return worst


def _moment(log_density: LogDensity, power: int) -> float:
    return _integrate(lambda z: z**power * np.exp(log_density(z)), (0.0,))


def _integrate(function: LogDensity, kinks: tuple[float, ...]) -> float:
    """Integral over the line, cut where a density may have a kink and where its tails begin."""
    cuts = sorted({-np.inf, -50.0, -5.0, -1.0, *kinks, 1.0, 5.0, 50.0, np.inf})
    parts = (quad(lambda z: float(function(np.array(z))), a, b, epsabs=1e-10, limit=200) for a, b in pairwise(cuts))
    return float(sum(part[0] for part in parts))
