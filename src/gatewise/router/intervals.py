"""How far a response may be from its prediction: a standard deviation for every row, calibrated on held-out rows."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from gatewise.arrays import Floats
from gatewise.stats import weighted_quantile

LEVEL = 0.9
MEMORY = 100  # rows that the scale remembers when rows are added later
LARGEST_RATIO = 9.0  # of a squared residual to its expected size: a larger one counts as this
QUANTILE = 1.6448536269514722  # of |z| for a standard Gaussian at that level


@dataclass(frozen=True, eq=False)
class PredictionScale:
    """The standard deviation of a response given its row, sd(x) = factor sqrt(noise + weight * disagreement(x)).

    The disagreement of a row is the variance of the experts' forecasts under the row's gate weights. ``noise`` and
    ``weight`` come from least squares of the squared held-out residuals on 1 and the disagreement; ``factor`` is such
    that 90 % of the held-out residuals are at most 1.645 sd.
    """

    noise: float
    weight: float
    factor: float

    @classmethod
    def fit(cls, residuals: Floats, disagreement: Floats, sample_weight: Floats) -> Self:
        """Calibrate on held-out residuals (n,) and the disagreement (n,) of the same rows."""
        from scipy.optimize import nnls  # noqa: PLC0415 - slow to import

        squares, root = residuals**2, np.sqrt(sample_weight)
        cut = np.minimum(squares, np.quantile(squares, 0.99))  # a few huge errors must not decide noise and weight
        unit = float(cut.mean()) or 1.0
        typical = float(disagreement.mean()) or 1.0
        design = np.column_stack([np.ones(len(cut)), disagreement / typical]) * root[:, None]
        (constant, slope), _ = nnls(design, cut / unit * root)
        noise, weight = max(constant, 0.05) * unit, slope * unit / typical
        ratios = np.abs(residuals) / np.sqrt(noise + weight * disagreement)
        level = min(1.0, LEVEL * (1.0 + 1.0 / len(ratios)))
        return cls(float(noise), float(weight), weighted_quantile(ratios, sample_weight, level) / QUANTILE)

    def continued(self, residuals: Floats, disagreement: Floats) -> Self:
        """The scale after more rows, in their order: the factor follows the size of the residuals slowly."""
        ratios = np.minimum(np.square(residuals / self.sd(disagreement)), LARGEST_RATIO)
        change = float(np.prod(1.0 + (ratios - 1.0) / MEMORY)) ** 0.5
        return replace(self, factor=self.factor * change)

    def sd(self, disagreement: Floats) -> Floats:
        """The standard deviation at rows of this disagreement, (n,)."""
        return np.asarray(self.factor * np.sqrt(self.noise + self.weight * disagreement))


def disagreement(weights: Floats, F: Floats) -> Floats:
    """The variance of the experts' forecasts F (n, M) under the weights (n, M), (n,)."""
    mean = np.einsum("im,im->i", weights, F)
    return np.asarray(np.einsum("im,im->i", weights, (F - mean[:, None]) ** 2))
