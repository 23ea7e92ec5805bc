"""Losses, and the noise densities behind them: row i is judged by a function phi_i of the mixture z_i = g(x_i) . F_i.

| task | F_im | phi_i(z) |
|---|---|---|
| regression | the forecast of expert m | -log h((y_i - z) / sigma) + log sigma, `ResidualLoss` |
| classification, densities | the probability or density that expert m gave to the outcome of row i | -log z,
`LogLoss` | | scores | the score of expert m, less price times cost | -z, `ScoreLoss` |

A loss holds the responses that it needs, so that the functions that fit gates, weigh candidates and measure gains do
not depend on the task. In every method z is (n,), or (n, S) for S candidates.
"""

from dataclasses import dataclass, replace
from math import lgamma, log, pi, sqrt
from typing import Any, ClassVar, Protocol, runtime_checkable, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from gatewise.arrays import BLOCK_NUMBERS, Floats, TINY

Size: TypeAlias = int | tuple[int, ...]
LEAST_VARIANCE = 1e-12  # of the largest variance of a list: smaller variances are raised to this


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
class Outcome:
    """The log loss in the place of a noise density: log h(-z) = log z, where z is the probability of the outcome.

    With responses that are 0 and the scale 1 the residual of a mixture z is -z, and its log density that of
    `LogLoss`: all that weighs candidates by the densities of residuals then weighs them by probabilities.

    >>> Outcome().log_density([-0.5, -0.25]).round(3)
    array([-0.693, -1.386])
    """

    def log_density(self, z: ArrayLike) -> Floats:
        """log(-z), elementwise; -inf where z is 0, or above it by rounding."""
        with np.errstate(divide="ignore"):  # the outcome had probability 0 under a candidate
            return np.asarray(np.log(np.maximum(np.negative(z), 0.0)), dtype=np.float64)

    def score(self, z: ArrayLike) -> Floats:
        """(log h)'(z) = 1 / z."""
        return np.asarray(1.0 / np.asarray(z, dtype=np.float64))

    def score_slope(self, z: ArrayLike) -> Floats:
        """(log h)''(z) = -1 / z^2."""
        return np.asarray(-1.0 / np.square(z), dtype=np.float64)


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


class Loss(Protocol):
    """The loss phi_i(z) at n rows, as a function of the mixture z.

    ``additive`` says whether a correction may be added to z: it may to a forecast, but not to a probability.
    """

    additive: ClassVar[bool]

    @property
    def scale(self) -> Floats | float:
        """The scale of the noise, one number or one for each column of z; 1 for a loss without a scale."""
        ...

    def value(self, z: Floats) -> Floats:
        """phi_i(z_i)."""
        ...

    def slope(self, z: Floats) -> Floats:
        """The derivative of phi_i at z_i."""
        ...

    def curvature(self, z: Floats) -> Floats:
        """The second derivative of phi_i at z_i."""
        ...

    def log_density(self, z: Floats) -> Floats:
        """The log density of the outcome of row i under the mixture z_i; AFTER adds it to the log weight."""
        ...

    def error(self, z: Floats) -> Floats:
        """The error that gains, regions and verdicts are reported in: squared error, log loss, or minus the score."""
        ...

    def calibrated(self, z: Floats, sample_weight: Floats) -> Self:
        """The loss with a scale for every column of z, calibrated on these rows; unchanged if it has no scale."""
        ...

    def scaled(self, scale: Floats | float) -> Self:
        """The loss with this scale; unchanged if it has no scale."""
        ...

    def part(self, rows: Any) -> Self:
        """The loss at some of the rows."""
        ...


GAUSSIAN_NOISE = Gaussian()


@dataclass(frozen=True, eq=False)
class ResidualLoss:
    """phi_i(z) = -log h((y_i - z) / sigma) + log sigma, for a noise density h of variance 1.

    ``variance`` is sigma^2: one number, or one for each column of z (S,).

    >>> loss = ResidualLoss(np.array([1.0, 3.0]))
    >>> loss.slope(np.array([1.0, 1.0])), loss.curvature(np.array([1.0, 1.0]))
    (array([-0., -2.]), array([1., 1.]))
    """

    additive: ClassVar[bool] = True

    y: Floats
    noise: Noise = GAUSSIAN_NOISE
    variance: Floats | float = 1.0

    @property
    def scale(self) -> Floats | float:
        return np.sqrt(self.variance)

    def value(self, z: Floats) -> Floats:
        return -self.log_density(z)

    def slope(self, z: Floats) -> Floats:
        return np.asarray(score(self.noise, self._standardised(z)) / self.scale)

    def curvature(self, z: Floats) -> Floats:
        return np.asarray(-score_slope(self.noise, self._standardised(z)) / self.variance)

    def log_density(self, z: Floats) -> Floats:
        return np.asarray(self.noise.log_density(self._standardised(z)) - np.log(self.scale))

    def error(self, z: Floats) -> Floats:
        return np.asarray(self._residual(z) ** 2)

    def calibrated(self, z: Floats, sample_weight: Floats) -> Self:
        """The loss with the mean squared residual of every column as its variance, kept above zero.

        >>> ResidualLoss(np.zeros(2)).calibrated(np.array([[1.0, 3.0], [1.0, 3.0]]), np.ones(2)).scale
        array([1., 3.])
        """
        squares = np.empty(z.shape[1:])
        step = max(1, BLOCK_NUMBERS // max(1, len(z)))
        for j in range(0, max(1, squares.size), step):  # some columns at a time
            part = (..., slice(j, j + step)) if z.ndim == 2 else ...
            squares[part] = np.average(np.square(self._residual(z[part])), axis=0, weights=sample_weight)
        low = max(LEAST_VARIANCE * float(squares.max()), TINY)
        return replace(self, variance=np.maximum(squares, low))

    def scaled(self, scale: Floats | float) -> Self:
        return replace(self, variance=np.square(scale))

    def part(self, rows: Any) -> Self:
        return replace(self, y=self.y[rows])

    def _residual(self, z: Floats) -> Floats:
        return (self.y if z.ndim == 1 else self.y[:, None]) - z

    def _standardised(self, z: Floats) -> Floats:
        return np.asarray(self._residual(z) / self.scale)


class _LossOfMixture:
    """What losses of z alone have in common: no scale, and nothing that is kept of the rows."""

    additive: ClassVar[bool] = False
    scale: ClassVar[float] = 1.0

    def calibrated(self, z: Floats, sample_weight: Floats) -> Self:  # noqa: ARG002 - there is no scale
        return self

    def scaled(self, scale: Floats | float) -> Self:  # noqa: ARG002
        return self

    def part(self, rows: Any) -> Self:  # noqa: ARG002 - nothing is kept of the rows
        return self


@dataclass(frozen=True)
class LogLoss(_LossOfMixture):
    """phi_i(z) = -log z, where z is the probability or density that the mixture gave to the outcome.

    Mixable: under AFTER the sum of the aggregate's losses exceeds that of the best of S candidates by at most log S.

    >>> LogLoss().value(np.array([0.5, 0.25])).round(3)
    array([0.693, 1.386])
    """

    def value(self, z: Floats) -> Floats:
        return -self.log_density(z)

    def slope(self, z: Floats) -> Floats:
        return np.asarray(-1.0 / z)

    def curvature(self, z: Floats) -> Floats:
        return np.asarray(1.0 / z**2)

    def log_density(self, z: Floats) -> Floats:
        with np.errstate(divide="ignore"):  # the outcome had probability 0 under a candidate
            return np.asarray(np.log(z))

    def error(self, z: Floats) -> Floats:
        return self.value(z)


@dataclass(frozen=True)
class ScoreLoss(_LossOfMixture):
    """phi_i(z) = -z, where z is the score of the mixture.

    ``rate`` is the learning rate of the exponential weights: a candidate's weight is exp(rate * sum_i z_i).

    >>> ScoreLoss(rate=2.0).log_density(np.array([0.5]))
    array([1.])
    """

    rate: float = 1.0

    def value(self, z: Floats) -> Floats:
        return -z

    def slope(self, z: Floats) -> Floats:
        return np.full(z.shape, -1.0)

    def curvature(self, z: Floats) -> Floats:
        return np.zeros(z.shape)

    def log_density(self, z: Floats) -> Floats:
        return self.rate * z

    def error(self, z: Floats) -> Floats:
        return -z
