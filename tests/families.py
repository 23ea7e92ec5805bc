"""One line per gate family: instances that every law is tested on. A new family adds a line here."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gatewise.gates import FeatureGate, Gate, KernelGate, LinearGate, QuadraticGate

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


EXAMPLES: dict[type[Gate], Callable[..., Gate]] = {
    LinearGate: lambda **kw: LinearGate(N_EXPERTS, **kw),
    QuadraticGate: lambda **kw: QuadraticGate(N_EXPERTS, **kw),
    KernelGate: lambda: KernelGate(N_EXPERTS, mesh=0.5, kappa=0.5),
    FeatureGate: lambda **kw: FeatureGate(N_EXPERTS, transform=Waves(), **kw),
}

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
    gate
    for family, make in EXAMPLES.items()
    for gate in ([make()] if family is KernelGate else [make(**kw) for kw in SCORE_VARIANTS])
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
