"""Linear scores: regions with flat borders."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gatewise.gates.score import ScoreGate


@dataclass(frozen=True)
class LinearGate(ScoreGate):
    """Score s_m(x) = beta_m . x + alpha_m; theta_m = (beta_m, alpha_m).

    theta has shape (M-1, d+1) with the intercept last, or (M-1, d) with ``intercept=False``. Regions where one
    expert leads are separated by hyperplanes (section `subsec:formulation`).

    >>> gate = LinearGate(2)
    >>> gate.weights([[0.0], [1.0]], [[np.log(3.0), 0.0]])
    array([[0.5 , 0.5 ],
           [0.75, 0.25]])
    """

    intercept: bool = True

    def features(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.column_stack([X, np.ones(len(X))]) if self.intercept else X
