"""The loss of a mixture: what happens at row i is judged by a function phi_i of one number, z_i = g(x_i) . F_i.

| task | F_im | phi_i(z) |
|---|---|---|
| regression | the forecast of expert m | -log h((y_i - z) / sigma) + log sigma, `ResidualLoss` |
| classification, densities | the probability or density that expert m gave to what came | -log z, `LogLoss` |
| scores | the score of expert m, less price times cost | -z, `ScoreLoss` |

A loss holds what it needs of its rows, so that what fits gates, weighs candidates and tells a gain never asks which
task it is. In every method z is (n,), or (n, S) for S candidates.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from gatewise.arrays import Floats
from gatewise.kernels.loss_kinds import DOUBLE_EXPONENTIAL, GAUSSIAN, LINEAR, LOG, STUDENT_T
from gatewise.noise import DoubleExponential, Gaussian, Noise, score, score_slope, StudentT
from gatewise.stats import clip_scale, root_mean_square

LEAST_SCALE = 1e-6  # of the largest scale of a list: below it a scale is rounding
TINY = float(np.sqrt(np.finfo(np.float64).tiny))


class LossCode(NamedTuple):
    """A loss as compiled code knows it: `kernels.loss_terms` takes these and z."""

    kind: int
    parameter: float
    y: Floats
    sigma: float


class Loss(Protocol):
    """phi_i(z) at n rows."""

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
        """What AFTER weighs a candidate with: the log of the density that it gave to what came."""
        ...

    def error(self, z: Floats) -> Floats:
        """What gains, regions and verdicts are told in: squared error, log loss, or lost score."""
        ...

    def calibrated(self, z: Floats, sample_weight: Floats) -> Self:
        """The loss with a scale for every column of z, found on these rows; a loss without a scale as it is."""
        ...

    def part(self, rows: Any) -> Self:
        """The loss at some of the rows."""
        ...

    def code(self) -> LossCode | None:
        """What compiled code needs to know; None where it does not know this loss."""
        ...


@dataclass(frozen=True, eq=False)
class ResidualLoss:
    """phi_i(z) = -log h((y_i - z) / sigma) + log sigma, for a noise density h of variance 1.

    ``sigma`` is one number, or one for each column of z (S,).

    >>> loss = ResidualLoss(np.array([1.0, 3.0]))
    >>> loss.slope(np.array([1.0, 1.0])), loss.curvature(np.array([1.0, 1.0]))
    (array([-0., -2.]), array([1., 1.]))
    """

    y: Floats
    noise: Noise = Gaussian()
    sigma: Floats | float = 1.0

    def value(self, z: Floats) -> Floats:
        return -self.log_density(z)

    def slope(self, z: Floats) -> Floats:
        return np.asarray(score(self.noise, self._standardised(z)) / self.sigma)

    def curvature(self, z: Floats) -> Floats:
        return np.asarray(-score_slope(self.noise, self._standardised(z)) / self.sigma**2)

    def log_density(self, z: Floats) -> Floats:
        return np.asarray(self.noise.log_density(self._standardised(z)) - np.log(self.sigma))

    def error(self, z: Floats) -> Floats:
        return np.asarray(self._residual(z) ** 2)

    def calibrated(self, z: Floats, sample_weight: Floats) -> Self:
        """With the root mean squared residual of every column as its scale, kept above zero.

        >>> ResidualLoss(np.zeros(2)).calibrated(np.array([[1.0, 3.0], [1.0, 3.0]]), np.ones(2)).sigma
        array([1., 3.])
        """
        scale = root_mean_square(self._residual(z), sample_weight)
        sigma = clip_scale(scale, max(LEAST_SCALE * float(scale.max()), TINY), np.inf)
        return replace(self, sigma=sigma if z.ndim > 1 else float(sigma))

    def part(self, rows: Any) -> Self:
        return replace(self, y=self.y[rows])

    def code(self) -> LossCode | None:
        known = noise_code(self.noise)
        return LossCode(*known, self.y, float(self.sigma)) if known and np.ndim(self.sigma) == 0 else None

    def _residual(self, z: Floats) -> Floats:
        return (self.y if z.ndim == 1 else self.y[:, None]) - z

    def _standardised(self, z: Floats) -> Floats:
        return np.asarray(self._residual(z) / self.sigma)


@dataclass(frozen=True)
class LogLoss:
    """phi_i(z) = -log z, z the probability or density that the mixture gave to what came.

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
        with np.errstate(divide="ignore"):  # a candidate that called impossible what came
            return np.asarray(np.log(z))

    def error(self, z: Floats) -> Floats:
        return self.value(z)

    def calibrated(self, z: Floats, sample_weight: Floats) -> Self:  # noqa: ARG002 - there is no scale
        return self

    def part(self, rows: Any) -> Self:  # noqa: ARG002 - nothing is kept of the rows
        return self

    def code(self) -> LossCode | None:
        return LossCode(LOG, 0.0, np.empty(0), 1.0)


@dataclass(frozen=True)
class ScoreLoss:
    """phi_i(z) = -z, z the score of the mixture; ``rate`` is that of the exponential weights, exp(rate * sum of z).

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

    def calibrated(self, z: Floats, sample_weight: Floats) -> Self:  # noqa: ARG002 - there is no scale
        return self

    def part(self, rows: Any) -> Self:  # noqa: ARG002 - nothing is kept of the rows
        return self

    def code(self) -> LossCode | None:
        return LossCode(LINEAR, 0.0, np.empty(0), 1.0)


def noise_code(noise: Noise) -> tuple[int, float] | None:
    """The code of a noise family in compiled functions, with its parameter; None for a density of one's own.

    >>> noise_code(StudentT(6.0))
    (2, 6.0)
    """
    if isinstance(noise, Gaussian):
        return GAUSSIAN, 0.0
    if isinstance(noise, DoubleExponential):
        return DOUBLE_EXPONENTIAL, 0.0
    return (STUDENT_T, noise.df) if isinstance(noise, StudentT) else None
