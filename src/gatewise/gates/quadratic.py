"""Quadratic scores: regions with curved borders."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from gatewise.gates.feature_maps import GateFeatures, ProductFeatures
from gatewise.gates.score import ScoreGate


@dataclass(frozen=True)
class QuadraticGate(ScoreGate):
    """Score s_m(x) = x' B_m x + beta_m . x + alpha_m; theta_m = (vech(B_m), beta_m, alpha_m).

    vech takes the upper triangle of the symmetric B_m row by row: (B_11, B_12, ..., B_1d, B_22, ...). An
    off-diagonal entry stands for two equal entries of B_m and so counts twice. ``cross=False`` keeps only the
    diagonal. theta has shape (M-1, d(d+1)/2 + d + 1), less without cross terms or intercept.

    >>> gate = QuadraticGate(2, intercept=False)
    >>> gate.scores([[1.0, 2.0]], [[1.0, 10.0, 100.0, 0.0, 0.0]])  # 1*1 + 2*10*1*2 + 100*2*2
    array([[441.,   0.]])
    """

    feature_map: ClassVar[type[GateFeatures]] = ProductFeatures

    intercept: bool = True
    cross: bool = True

    def features(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        n, d = X.shape
        if self.cross:
            i, j = np.triu_indices(d)
            second = X[:, i] * X[:, j] * np.where(i == j, 1.0, 2.0)
        else:
            second = X**2
        return np.hstack([second, X, np.ones((n, 1 if self.intercept else 0))])
