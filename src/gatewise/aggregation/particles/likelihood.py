"""The log likelihood of every candidate, and its gradient.

Candidate theta predicts row i with the density sigma^-1 h(r_i / sigma) of its residual r_i; the log likelihood is the
sum over rows of its logarithm.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gatewise.aggregation.particles.forms import checked_rows, Form, ParticleRows
from gatewise.aggregation.scales import check_bounds, clipped_scale
from gatewise.arrays import as_positive, Floats
from gatewise.kernels.loss_kinds import ABSOLUTE, OUTCOME, SQUARE
from gatewise.losses import Noise, Outcome, score
from gatewise.stats import clip_scale

PROBES = np.array([-1e3, -30.0, -3.7, -1.0, -0.2, -1e-3, 1e-3, 0.2, 0.9, 1.7, 4.0, 25.0, 1e4])


@dataclass(frozen=True)
class Calibration:
    """A scale per candidate: its root mean square residual on these rows, clipped to [low, high].

    Step (d) of `alg:general`: X (n2, d), y (n2,), F (n2, M).
    """

    X: Any
    y: Any
    F: Any
    low: float
    high: float

    def __post_init__(self) -> None:
        check_bounds((self.low, self.high), "low and high")


class PowerLaw(NamedTuple):
    """log h(z) = peak - rate |z|^degree, degree 1 or 2; or log h(z) = log(-z), the log loss, for degree 0."""

    degree: int
    rate: float
    peak: float


def power_of(noise: Noise) -> PowerLaw | None:
    """The power law of log h, or None if it has none; found from values of log h at a few points.

    With a power law the log likelihood is a function of sum_i |r_i|^degree and sigma, which the kernels compute fast.
    """
    if isinstance(noise, Outcome):
        return PowerLaw(degree=0, rate=1.0, peak=0.0)
    peak = float(noise.log_density(np.zeros(1))[0])
    drop = peak - np.asarray(noise.log_density(PROBES))
    for degree in (1, 2):
        rate = float(drop[3])  # at z = -1
        if np.allclose(drop, rate * np.abs(PROBES) ** degree, rtol=1e-8, atol=1e-12):
            return PowerLaw(degree, rate, peak)
    return None


@dataclass(frozen=True)
class Likelihood:
    """sum_i log h(r_i(theta) / sigma(theta)) - log sigma(theta) over rows, for many candidates at once.

    sigma is a known number, or belongs to the candidate: then ``calibration`` holds its rows, low and high.
    """

    form: Form
    noise: Noise
    sigma: float | None
    calibration: tuple[ParticleRows, float, float] | None
    power: PowerLaw | None

    @classmethod
    def build(cls, form: Form, noise: Noise, scale: float | Calibration) -> "Likelihood":
        """The likelihood for a known noise scale, or for one that is calibrated for every candidate."""
        power = power_of(noise)
        if not isinstance(scale, Calibration):
            return cls(form, noise, as_positive(scale, "scale"), None, power)
        rows = checked_rows(form, scale.X, scale.y, scale.F)
        return cls(form, noise, None, (rows, float(scale.low), float(scale.high)), power)

    def scales(self, theta: Floats) -> Floats:
        """sigma(theta), (S,)."""
        if self.calibration is None:
            return np.full(len(theta), self.sigma)
        rows, low, high = self.calibration
        return clipped_scale(self.form.residuals(theta, rows).T, low, high)

    def log_densities(self, residuals: Floats, sigma: Floats) -> Floats:
        """log of sigma^-1 h(r / sigma), (S, n), for residuals (S, n) and sigma (S,)."""
        with np.errstate(over="ignore"):
            return np.asarray(self.noise.log_density(residuals / sigma[:, None]) - np.log(sigma)[:, None])

    def value(self, theta: Floats, rows: ParticleRows, exponent: float = 1.0) -> Floats:
        """The log likelihood of the rows, each to its power, (S,); the last one's is multiplied by ``exponent``."""
        log_densities = self.log_densities(self.form.residuals(theta, rows), self.scales(theta))
        return np.asarray(log_densities @ _counts(rows, exponent))

    def value_and_grad(self, theta: Floats, rows: ParticleRows, exponent: float = 1.0) -> tuple[Floats, Floats]:
        """The log likelihood as `value`, (S,), and its gradient in theta, that of sigma(theta) included."""
        counts = _counts(rows, exponent)
        n = float(counts.sum())
        sigma, sigma_grad = self._scales_and_grad(theta)
        if self.power is None or (rows.power < 1.0).any():  # compiled sums take every row once
            z = self.form.residuals(theta, rows) / sigma[:, None]
            slopes = score(self.noise, z) * counts
            value = np.asarray(self.noise.log_density(z)) @ counts - n * np.log(sigma)
            grad = self.form.residual_gradient(theta, rows, slopes / sigma[:, None])
            by_scale = -n - (slopes * z).sum(axis=1)
        else:
            degree, rate, peak = self.power
            total, total_grad = self._sum_and_grad(theta, rows, exponent)
            factor = rate / sigma**degree
            value = n * (peak - np.log(sigma)) - factor * total
            grad = np.multiply(total_grad, -factor[:, None, None], out=total_grad)
            by_scale = degree * factor * total - n
        if sigma_grad is not None:
            grad += by_scale[:, None, None] * sigma_grad
        return value, grad

    def _sum_and_grad(self, theta: Floats, rows: ParticleRows, exponent: float) -> tuple[Floats, Floats]:
        """sum_i |r_i|^degree, or of -log(-r_i), and its gradient, the last term times ``exponent``."""
        assert self.power is not None
        loss = (OUTCOME, ABSOLUTE, SQUARE)[self.power.degree]
        total, grad = self.form.value_and_grad(theta, rows, loss)
        if exponent < 1.0:
            last, last_grad = self.form.value_and_grad(theta, rows.part(rows.y.size - 1, rows.y.size), loss)
            total, grad = total - (1.0 - exponent) * last, grad - (1.0 - exponent) * last_grad
        return total, grad

    def _scales_and_grad(self, theta: Floats) -> tuple[Floats, Floats | None]:
        """sigma, (S,), and the gradient of log sigma in theta; 0 where sigma is clipped, None when it is known."""
        if self.calibration is None:
            return np.full(len(theta), self.sigma), None
        rows, low, high = self.calibration
        squares, grad = self.form.value_and_grad(theta, rows, SQUARE)
        sigma = clip_scale(np.sqrt(squares / rows.y.size), low, high)
        inside = (sigma > low) & (sigma < high)
        half = np.divide(0.5, squares, out=np.zeros_like(squares), where=inside)
        return sigma, half[:, None, None] * grad


def _counts(rows: ParticleRows, exponent: float) -> Floats:
    """How often every row's log density counts, (n,): its power, that of the last one times ``exponent``."""
    counts = rows.power.copy()
    counts[-1:] *= exponent
    return counts
