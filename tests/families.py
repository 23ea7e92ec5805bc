"""Instances of every registered gate family, which every law is tested on.

A new family needs no line here, unless it cannot be built by ``family(n_experts)`` alone.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from gatewise.experts import AffineExpert
from gatewise.gates import FeatureGate, ForecastGate, Gate, KernelGate, LinearGate, QuadraticGate, ScoreGate
from gatewise.gates import GATES as REGISTRY

N_EXPERTS = 4
D = 2


# Objects and not functions: a function's text holds its address, and the names of tests must be the same in every
# process.
@dataclass(frozen=True)
class HalfLogPhi:
    """log phi of phi(t) = exp(t / 2): a user's own transformation."""

    def __call__(self, t: np.ndarray) -> np.ndarray:
        return t / 2


@dataclass(frozen=True)
class Waves:
    """Features of one's own."""

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return np.column_stack([np.sin(3 * X), X, np.ones(len(X))])


EXPERTS = tuple(AffineExpert((float(m), 1.0 - m), 0.5 * m) for m in range(N_EXPERTS))
KEYWORDS: dict[type[Gate], dict[str, Any]] = {
    KernelGate: {"mesh": 0.5, "kappa": 0.5},
    FeatureGate: {"transform": Waves()},
    ForecastGate: {"experts": EXPERTS},
}


def example(family: type[Gate], **keywords: Any) -> Gate:
    """A gate of a family, with what it cannot do without."""
    return family(N_EXPERTS, **KEYWORDS.get(family, {}), **keywords)


SCORE_VARIANTS = [
    {},
    {"k": 1},
    {"k": 2},
    {"k": N_EXPERTS},
    {"phi": "sigmoid"},
    {"k": 3, "phi": "sigmoid"},
    {"k": 2, "phi": HalfLogPhi()},
]

GATES: list[Gate] = [
    example(family, **keywords)
    for family in REGISTRY.values()
    for keywords in (SCORE_VARIANTS if issubclass(family, ScoreGate) else [{}])
] + [LinearGate(N_EXPERTS, intercept=False), QuadraticGate(N_EXPERTS, k=2, intercept=False, cross=False)]


def random_theta(gate: Gate, rng: np.random.Generator, *leading: int, d: int = D) -> np.ndarray:
    """Parameters of the right kind for any family, (*leading, *theta_shape)."""
    shape = (*leading, *gate.theta_shape(d))
    if isinstance(gate, KernelGate):
        theta = rng.exponential(size=shape)
        return theta / theta.sum(axis=-2, keepdims=True)
    return rng.normal(scale=2.0, size=shape)


def relabelled(gate: Gate, theta: np.ndarray, order: np.ndarray) -> np.ndarray:
    """The parameter under which expert order[m] plays the part of expert m."""
    if isinstance(gate, KernelGate):
        return theta[order]
    full = np.vstack([theta, np.zeros(theta.shape[1])])[order]  # the reference has all parameters zero
    return full[:-1] - full[-1]
