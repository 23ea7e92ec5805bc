"""The three designs of `tab:mc-summary`: known experts on [-1, 1]^2, mixed by a softmax of known scores."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import softmax

from gatewise.arrays import Floats
from gatewise.experts import AffineExpert, Expert, expert_matrix


@dataclass(frozen=True)
class Design:
    """y = sum_m g_m(x) f_m(x) + noise, x uniform on [-1, 1]^2 (section `sec:supp-simulation-details`).

    >>> design = DESIGNS["linear"]
    >>> X, y = design.sample(200, np.random.default_rng(0))
    >>> X.shape, y.shape, design.sizes
    ((200, 2), (200,), (200, 400))
    """

    name: str
    experts: tuple[Expert, ...]
    scores: Callable[[Floats], Floats]
    noise_sd: float
    sizes: tuple[int, int]

    def weights(self, X: Floats) -> Floats:
        """The true gate at every row, (n, 3)."""
        return softmax(self.scores(X), axis=1)

    def truth(self, X: Floats) -> Floats:
        """The regression function at every row, (n,)."""
        truth: Floats = np.einsum("nm,nm->n", self.weights(X), expert_matrix(self.experts, X))
        return truth

    def sample(self, n: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """n rows X (n, 2) and responses y (n,)."""
        X = rng.uniform(-1.0, 1.0, size=(n, 2))
        return X, self.truth(X) + rng.normal(scale=self.noise_sd, size=n)


def _wave(X: Any) -> Floats:
    """f_3 of the linear and the quadratic design."""
    return np.asarray(1.0 + np.sin(np.pi * X[:, 0]) - 1.5 * X[:, 1] ** 2)


def _saddle(X: Any) -> Floats:
    """f_3 of the nonlinear design."""
    return np.asarray(2.5 * np.sin(np.pi * X[:, 0] * X[:, 1]) - 3.0 * X[:, 0] + 2.0 * X[:, 1])


def _linear_scores(X: Floats) -> Floats:
    return np.column_stack([2.0 * X, np.zeros(len(X))])


def _quadratic_scores(X: Floats) -> Floats:
    x1, x2 = X.T
    return np.column_stack(
        [
            2.0 * x1 - 1.2 * x1**2 - 0.8 * x2**2,
            2.0 * x2 - 0.8 * x1**2 - 1.2 * x2**2,
            np.zeros(len(X)),
        ]
    )


def _nonlinear_scores(X: Floats) -> Floats:
    angle, radius = np.arctan2(X[:, 1], X[:, 0]), np.hypot(X[:, 0], X[:, 1])
    bent = angle + 0.85 * np.sin(4.5 * radius + 1.8 * angle) + 0.35 * np.sin(4.0 * angle)
    return np.asarray(7.0 * np.cos(bent[:, None] - np.array([np.pi, np.pi / 3, -np.pi / 3])))


_SMOOTH = (AffineExpert((2.0, -1.0), 2.0), AffineExpert((-1.0, 2.0), -1.0), _wave)
_STEEP = (AffineExpert((3.0, -2.0), 3.0), AffineExpert((-2.0, 3.0), -2.0), _saddle)

DESIGNS: dict[str, Design] = {
    design.name: design
    for design in (
        Design("linear", _SMOOTH, _linear_scores, 0.5, (200, 400)),
        Design("quadratic", _SMOOTH, _quadratic_scores, 0.5, (200, 400)),
        Design("nonlinear", _STEEP, _nonlinear_scores, 0.3, (500, 1000)),
    )
}
