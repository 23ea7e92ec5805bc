"""The two designs of `fig:fourier-simulation`: x uniform on [0, 1], two regions cut at 1/2, noise 0.5."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gatewise.arrays import Floats, Indices
from gatewise.experts import FourierExpert
from gatewise.shared import FourierBasis, PolynomialBasis

CUT = 0.5


@dataclass(frozen=True)
class SharedDesign:
    """y = f_S(x) + 1{x <= 1/2} f_1(2x) + 1{x > 1/2} f_2(2x - 1) + noise, and the bases that the paper fits to it.

    >>> X, y = SHARED_DESIGNS["simple-shared"].sample(200, np.random.default_rng(0))
    >>> X.shape, y.shape
    ((200, 1), (200,))
    """

    name: str
    shared_part: Callable[[Floats], Floats]
    routed_parts: tuple[Callable[[Floats], Floats], Callable[[Floats], Floats]]
    shared: Any
    routed: Any
    noise_sd: float = 0.5

    def residual(self, X: Floats) -> Floats:
        """The routed part at every row, (n,)."""
        low, high = (part(X) for part in self.routed_parts)
        return np.where(X[:, 0] <= CUT, low, high)

    def truth(self, X: Floats) -> Floats:
        """The regression function at every row, (n,)."""
        truth: Floats = self.shared_part(X) + self.residual(X)
        return truth

    def sample(self, n: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """n rows X (n, 1) and responses y (n,)."""
        X = rng.uniform(size=(n, 1))
        return X, self.truth(X) + rng.normal(scale=self.noise_sd, size=n)


def regions(X: Floats) -> Indices:
    """The true regions: 0 up to 1/2, 1 beyond."""
    return (X[:, 0] > CUT).astype(np.intp)


def _slope(X: Floats) -> Floats:
    return X[:, 0].copy()


def _tilt_up(X: Floats) -> Floats:
    return np.asarray(0.6 * (2.0 * X[:, 0] - 0.5))


def _tilt_down(X: Floats) -> Floats:
    return np.asarray(-0.6 * (2.0 * X[:, 0] - 1.5))


def _three_waves(X: Floats) -> Floats:
    return np.sin(6.0 * np.pi * X[:, 0])


_WAVES = (
    FourierExpert((1.0, 0.6, 0.4), (0.7, -0.5, 0.3), low=0.0, high=0.5).predict,
    FourierExpert((-0.8, 0.5, -0.3), (0.6, 0.4, -0.5), low=0.5, high=1.0).predict,
)

# The local coordinates 2x and 2x - 1 give a sieve of period 1/2 the same columns.
SHARED_DESIGNS: dict[str, SharedDesign] = {
    design.name: design
    for design in (
        SharedDesign(
            "simple-shared",
            _slope,
            _WAVES,
            PolynomialBasis(1, feature=0, intercept=False),
            FourierBasis(3, low=0.0, high=0.5),
        ),
        SharedDesign(
            "complex-shared",
            _three_waves,
            (_tilt_up, _tilt_down),
            FourierBasis(3, low=0.0, high=1.0, intercept=False),
            PolynomialBasis(1, feature=0),
        ),
    )
}
