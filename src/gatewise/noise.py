"""Standardized error densities h: mean 0, variance 1 (`ass:ARM-regularity`)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import lgamma, log, pi, sqrt
from typing import Protocol, runtime_checkable, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy.integrate import quad

from gatewise.arrays import Floats

LogDensity: TypeAlias = Callable[[Floats], Floats]
Size: TypeAlias = int | tuple[int, ...]

TOLERANCE = 1e-6


@runtime_checkable
class Noise(Protocol):
    """A density of mean 0 and variance 1, by its logarithm."""

    def log_density(self, z: ArrayLike) -> Floats:
        """log h(z), elementwise."""
        ...


@dataclass(frozen=True)
class Gaussian:
    """h(z) = exp(-z^2 / 2) / sqrt(2 pi).

    >>> float(Gaussian().log_density(0.0).round(4))
    -0.9189
    """

    def log_density(self, z: ArrayLike) -> Floats:
        """log h(z), elementwise."""
        return np.asarray(-0.5 * np.square(z) - 0.5 * log(2.0 * pi), dtype=np.float64)

    def score(self, z: ArrayLike) -> Floats:
        """(log h)'(z) = -z."""
        return -np.asarray(z, dtype=np.float64)

    def score_slope(self, z: ArrayLike) -> Floats:
        """(log h)''(z) = -1."""
        return np.full(np.shape(z), -1.0)

    def sample(self, rng: np.random.Generator, size: Size) -> Floats:
        """Independent draws."""
        return np.asarray(rng.standard_normal(size))


@dataclass(frozen=True)
class DoubleExponential:
    """h(z) = exp(-sqrt(2) |z|) / sqrt(2).

    >>> float(DoubleExponential().log_density(0.0).round(4))
    -0.3466
    """

    def log_density(self, z: ArrayLike) -> Floats:
        """log h(z), elementwise."""
        return np.asarray(-sqrt(2.0) * np.abs(z) - 0.5 * log(2.0), dtype=np.float64)

    def score(self, z: ArrayLike) -> Floats:
        """(log h)'(z) = -sqrt(2) sign(z)."""
        return np.asarray(-sqrt(2.0) * np.sign(z), dtype=np.float64)

    def score_slope(self, z: ArrayLike) -> Floats:
        """(log h)''(z) = 0 away from the kink at 0."""
        return np.zeros(np.shape(z))

    def sample(self, rng: np.random.Generator, size: Size) -> Floats:
        """Independent draws."""
        return np.asarray(rng.laplace(scale=sqrt(0.5), size=size))


@dataclass(frozen=True)
class StudentT:
    """h(z) proportional to (1 + z^2 / (df - 2))^(-(df + 1) / 2): Student t scaled to unit variance.

    df > 4, so that the fourth moment `ass:ARM-regularity` asks for is finite.

    >>> float(StudentT(5.0).log_density(0.0).round(4))
    -0.7132
    """

    df: float = 5.0

    def __post_init__(self) -> None:
        if not 4.0 < self.df < np.inf:
            raise ValueError(f"df must be finite and above 4, for a finite fourth moment; got {self.df}.")

    def log_density(self, z: ArrayLike) -> Floats:
        """log h(z), elementwise."""
        df = self.df
        peak = lgamma(0.5 * (df + 1.0)) - lgamma(0.5 * df) - 0.5 * log(pi * (df - 2.0))
        return np.asarray(peak - 0.5 * (df + 1.0) * np.log1p(np.square(z) / (df - 2.0)), dtype=np.float64)

    def score(self, z: ArrayLike) -> Floats:
        """(log h)'(z) = -(df + 1) z / (df - 2 + z^2)."""
        return np.asarray(-(self.df + 1.0) * np.asarray(z) / (self.df - 2.0 + np.square(z)), dtype=np.float64)

    def score_slope(self, z: ArrayLike) -> Floats:
        """(log h)''(z) = -(df + 1) (df - 2 - z^2) / (df - 2 + z^2)^2."""
        square, base = np.square(z), self.df - 2.0
        return np.asarray(-(self.df + 1.0) * (base - square) / (base + square) ** 2, dtype=np.float64)

    def sample(self, rng: np.random.Generator, size: Size) -> Floats:
        """Independent draws."""
        return np.asarray(rng.standard_t(self.df, size) * sqrt((self.df - 2.0) / self.df))


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


def score(noise: Noise, z: Floats) -> Floats:
    """The derivative of log h at z: the noise's own ``score`` where it has one, else a central difference.

    >>> score(Gaussian(), np.array([2.0]))
    array([-2.])
    """
    if hasattr(noise, "score"):
        return np.asarray(noise.score(z))
    step = 1e-5 * (1.0 + np.abs(z))
    return np.asarray((noise.log_density(z + step) - noise.log_density(z - step)) / (2.0 * step))


def score_slope(noise: Noise, z: Floats) -> Floats:
    """The second derivative of log h at z: the noise's own ``score_slope``, else a central difference.

    >>> score_slope(Gaussian(), np.array([2.0]))
    array([-1.])
    """
    if hasattr(noise, "score_slope"):
        return np.asarray(noise.score_slope(z))
    step = 1e-4 * (1.0 + np.abs(z))
    rise = noise.log_density(z + step) - 2.0 * noise.log_density(z) + noise.log_density(z - step)
    return np.asarray(rise / step**2)


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
