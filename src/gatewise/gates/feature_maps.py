"""The classes of gates: what each makes of a row before the score's coefficients multiply it.

Every class is a frozen description with ``fit`` and ``features``. All features are bounded, fade to zero away from
the data (the gate is then its reference, the global stack), and are scaled such that coefficients with standard
deviation s give scores of a standard deviation of about s.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from scipy.special import softmax

from gatewise.arrays import Floats
from gatewise.gates.inputs import Inputs

BOUND = 4.0  # of a feature, in standard deviations
QUADRATIC_INPUTS = 6
KERNEL_INPUTS = 5
MOST_ROWS = 5000  # that centres are looked for among


class GateClass(Protocol):
    """A map of rows to features, and whether it needs the experts' forecasts there."""

    needs_experts: bool

    @classmethod
    def fit(cls, inputs: Inputs, F: Floats, seed: int) -> Self:
        """Learn scales and centres from the rows; no response is seen."""
        ...

    def features(self, inputs: Inputs, F: Floats | None) -> Floats:
        """The features (n, p)."""
        ...


@dataclass(frozen=True, eq=False)
class Linear:
    """1 and the coordinates."""

    needs_experts = False

    @classmethod
    def fit(cls, inputs: Inputs, F: Floats, seed: int) -> Self:  # noqa: ARG003 - nothing to learn
        return cls()

    def features(self, inputs: Inputs, F: Floats | None) -> Floats:  # noqa: ARG002
        return _scaled(inputs, inputs.Z)


@dataclass(frozen=True, eq=False)
class Quadratic:
    """1, the first coordinates, their squares and products, standardised."""

    needs_experts = False
    mean: Floats
    scale: Floats

    @classmethod
    def fit(cls, inputs: Inputs, F: Floats, seed: int) -> Self:  # noqa: ARG003
        products = _products(inputs.Z)
        return cls(products.mean(axis=0), _positive(products.std(axis=0)))

    def features(self, inputs: Inputs, F: Floats | None) -> Floats:  # noqa: ARG002
        products = np.clip((_products(inputs.Z) - self.mean) / self.scale, -BOUND, BOUND)
        return _scaled(inputs, np.column_stack([inputs.Z[:, :QUADRATIC_INPUTS], products]))


@dataclass(frozen=True, eq=False)
class Kernel:
    """Normalised Gaussian kernels at the centres of clusters of rows (section 5.3, without its grid)."""

    needs_experts = False
    centers: Floats  # (C, r)
    bandwidth: float

    @classmethod
    def fit(cls, inputs: Inputs, F: Floats, seed: int) -> Self:  # noqa: ARG003
        from sklearn.cluster import KMeans  # noqa: PLC0415 - slow to import

        Z = inputs.Z[:, :KERNEL_INPUTS]
        if len(Z) > MOST_ROWS:
            Z = Z[np.random.default_rng(seed).choice(len(Z), MOST_ROWS, replace=False)]
        most = 60 if 0 < Z.shape[1] <= 3 else 20
        distinct = np.unique(Z, axis=0)
        count = max(1, min(most, len(Z) // 10, len(distinct)))
        centers = (
            KMeans(count, n_init=1, random_state=seed).fit(Z).cluster_centers_ if Z.shape[1] else np.zeros((1, 0))
        )
        gaps = np.sqrt(_squared_distances(centers, centers) + np.diag(np.full(len(centers), np.inf)))
        spacing = float(np.median(gaps.min(axis=1)))
        return cls(centers, spacing if 0.0 < spacing < np.inf else 1.0)

    def features(self, inputs: Inputs, F: Floats | None) -> Floats:  # noqa: ARG002
        distances = _squared_distances(inputs.Z[:, :KERNEL_INPUTS], self.centers)
        kernels = softmax(-0.5 * distances / self.bandwidth**2, axis=1)
        return np.asarray(2.0 * kernels * inputs.inside[:, None])  # a row of kernels has a norm of about a half


@dataclass(frozen=True, eq=False)
class Forecast:
    """1, the experts' common forecast, its square, and how far each expert is from it: who is right at what level."""

    needs_experts = True
    mean: float
    scale: float
    spread: float

    @classmethod
    def fit(cls, inputs: Inputs, F: Floats, seed: int) -> Self:  # noqa: ARG003
        level = F.mean(axis=1)
        spread = np.sqrt(np.mean((F - level[:, None]) ** 2))
        return cls(float(level.mean()), float(_positive(level.std())), float(_positive(spread)))

    def features(self, inputs: Inputs, F: Floats | None) -> Floats:
        if F is None:
            raise ValueError("a gate of the class 'forecast' needs the experts' forecasts")
        common = F.mean(axis=1)
        level = np.clip((common - self.mean) / self.scale, -3.0, 3.0)
        apart = np.minimum(np.abs(F - common[:, None]) / self.spread, 3.0)
        return _scaled(inputs, np.column_stack([level, level**2 - 1.0, apart]))


CLASSES: Mapping[str, type[Any]] = {
    "linear": Linear,
    "quadratic": Quadratic,
    "kernel": Kernel,
    "forecast": Forecast,
}


def _scaled(inputs: Inputs, features: Floats) -> Floats:
    """With a constant, fading, and divided by the root of their number."""
    ones = np.ones((len(features), 1))
    width = np.sqrt(1.0 + features.shape[1])
    return np.asarray(np.concatenate([ones, features], axis=1) * (inputs.inside / width)[:, None])


def _products(Z: Floats) -> Floats:
    first, second = np.triu_indices(min(QUADRATIC_INPUTS, Z.shape[1]))
    return np.asarray(Z[:, first] * Z[:, second])


def _squared_distances(A: Floats, B: Floats) -> Floats:
    squares = (A**2).sum(axis=1)[:, None] + (B**2).sum(axis=1) - 2.0 * A @ B.T
    return np.asarray(np.maximum(squares, 0.0))


def _positive(scale: Any) -> Any:
    return np.where(scale > 0.0, scale, 1.0)
