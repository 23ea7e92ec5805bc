"""The predictive density of every candidate, sigma^-1 h(residual / sigma), its product over rows and its gradient."""

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from gatewise.aggregation.particles.forms import checked_rows, Form, Rows
from gatewise.arrays import as_positive, Floats
from gatewise.kernels.loss_kinds import ABSOLUTE, SQUARE

PROBES = np.array([-1e3, -30.0, -3.7, -1.0, -0.2, -1e-3, 1e-3, 0.2, 0.9, 1.7, 4.0, 25.0, 1e4])


class Noise(Protocol):
    """A standardized error density: log h(z), elementwise."""

    def log_density(self, z: Any, /) -> Any: ...


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
        if not as_positive(self.low, "low") <= as_positive(self.high, "high"):
            raise ValueError(f"low must be at most high, not {self.low} and {self.high}")


class Power(NamedTuple):
    """log h(z) = peak - rate |z|^degree, degree 1 or 2."""

    degree: int
    rate: float
    peak: float


def power_of(noise: Noise) -> Power | None:
    """The power law of log h, or None; told from its values, so that any class of Gaussian noise is recognised.

    Of such a density the likelihood needs one sum over the residuals, whatever sigma is.
    """
    peak = float(noise.log_density(np.zeros(1))[0])
    drop = peak - np.asarray(noise.log_density(PROBES))
    for degree in (1, 2):
        rate = float(drop[3])  # at z = -1
        if np.allclose(drop, rate * np.abs(PROBES) ** degree, rtol=1e-8, atol=1e-12):
            return Power(degree, rate, peak)
    return None


def score(noise: Noise, z: Floats) -> Floats:
    """d log h / dz: the noise's own ``score`` where it has one, else a central difference."""
    if hasattr(noise, "score"):
        return np.asarray(noise.score(z))
    step = 1e-5 * (1.0 + np.abs(z))
    return np.asarray((noise.log_density(z + step) - noise.log_density(z - step)) / (2.0 * step))


@dataclass(frozen=True)
class Likelihood:
    """sum_i log h(r_i(theta) / sigma(theta)) - log sigma(theta) over rows, for many candidates at once.

    sigma is a known number, or belongs to the candidate: then ``calibration`` holds its rows, low and high.
    """

    form: Form
    noise: Noise
    sigma: float | None
    calibration: tuple[Rows, float, float] | None
    power: Power | None

    @classmethod
    def build(cls, form: Form, noise: Noise, scale: float | Calibration) -> "Likelihood":
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
        squares = np.square(self.form.residuals(theta, rows)).sum(axis=1)
        return np.asarray(np.clip(np.sqrt(squares / rows.y.size), low, high))

    def log_densities(self, residuals: Floats, sigma: Floats) -> Floats:
        """log of sigma^-1 h(r / sigma), (S, n), for residuals (S, n) and sigma (S,)."""
        with np.errstate(over="ignore"):
            return np.asarray(self.noise.log_density(residuals / sigma[:, None]) - np.log(sigma)[:, None])

    def value(self, theta: Floats, rows: Rows, share: float = 1.0) -> Floats:
        """The log likelihood of the rows, (S,), the last one's taken ``share`` times."""
        log_densities = self.log_densities(self.form.residuals(theta, rows), self.scales(theta))
        return np.asarray(log_densities @ _counts(rows, share))

    def value_and_grad(self, theta: Floats, rows: Rows, share: float = 1.0) -> tuple[Floats, Floats]:
        """The log likelihood as `value`, (S,), and its gradient in theta, that of sigma(theta) included."""
        n = rows.y.size - 1 + share if rows.y.size else 0.0
        sigma, sigma_grad = self._scales_and_grad(theta)
        if self.power is None:
            z = self.form.residuals(theta, rows) / sigma[:, None]
            counts = _counts(rows, share)
            slopes = score(self.noise, z) * counts
            value = np.asarray(self.noise.log_density(z)) @ counts - n * np.log(sigma)
            grad = self.form.pull(theta, rows, slopes / sigma[:, None])
            by_scale = -n - (slopes * z).sum(axis=1)
        else:
            degree, rate, peak = self.power
            total, total_grad = self._sum_and_grad(theta, rows, share)
            factor = rate / sigma**degree
            value = n * (peak - np.log(sigma)) - factor * total
            grad = np.multiply(total_grad, -factor[:, None, None], out=total_grad)
            by_scale = degree * factor * total - n
        if sigma_grad is not None:
            grad += by_scale[:, None, None] * sigma_grad
        return value, grad

    def _sum_and_grad(self, theta: Floats, rows: Rows, share: float) -> tuple[Floats, Floats]:
        """sum_i |r_i|^degree and its gradient, the last row taken ``share`` times."""
        loss = SQUARE if self.power is not None and self.power.degree == 2 else ABSOLUTE
        total, grad = self.form.value_and_grad(theta, rows, loss)
        if share < 1.0:
            last, last_grad = self.form.value_and_grad(theta, rows.part(rows.y.size - 1, rows.y.size), loss)
            total, grad = total - (1.0 - share) * last, grad - (1.0 - share) * last_grad
        return total, grad

    def _scales_and_grad(self, theta: Floats) -> tuple[Floats, Floats | None]:
        """sigma, (S,), and the gradient of log sigma in theta; 0 where sigma is clipped, None when it is known."""
        if self.calibration is None:
            return np.full(len(theta), self.sigma), None
        rows, low, high = self.calibration
        squares, grad = self.form.value_and_grad(theta, rows, SQUARE)
        sigma = np.sqrt(squares / rows.y.size)
        inside = (sigma > low) & (sigma < high)
        half = np.divide(0.5, squares, out=np.zeros_like(squares), where=inside)
        return np.clip(sigma, low, high), half[:, None, None] * grad


def _counts(rows: Rows, share: float) -> Floats:
    counts = np.ones(rows.y.size)
    counts[-1:] = share
    return counts
