"""An expert that is a Fourier series on an interval."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gatewise.arrays import as_rows


@dataclass(frozen=True)
class FourierExpert:
    """f(x) = constant + sum_k sine_k sin(2 pi k t) + cosine_k cos(2 pi k t), t = (x - low) / (high - low).

    ``feature`` is the number of the column of X that holds x. The routed experts of `ex:fourier-x-sin-cos` are of
    this kind.

    >>> FourierExpert(sine=(1.0,), cosine=(0.5,)).predict([[0.25], [0.5]]).round(12)
    array([ 1. , -0.5])
    """

    sine: tuple[float, ...] = ()
    cosine: tuple[float, ...] = ()
    constant: float = 0.0
    low: float = 0.0
    high: float = 1.0
    feature: int = 0

    def __post_init__(self) -> None:
        for name in ("sine", "cosine"):
            object.__setattr__(self, name, tuple(map(float, getattr(self, name))))
        if not self.low < self.high:
            raise ValueError(f"low must be below high, not {self.low} and {self.high}")

    def predict(self, X: Any) -> NDArray[np.float64]:
        """f at every row of X, (n,)."""
        t = (as_rows(X)[:, self.feature] - self.low) / (self.high - self.low)
        total = np.full(len(t), float(self.constant))
        for wave, coefficients in ((np.sin, self.sine), (np.cos, self.cosine)):
            for k, coefficient in enumerate(coefficients, start=1):
                total += coefficient * wave(2.0 * np.pi * k * t)
        return total
