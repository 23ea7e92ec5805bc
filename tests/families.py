"""One line per gate family: instances that every law is tested on. A new family adds a line here."""

from collections.abc import Callable

import numpy as np

from gatewise.gates import FeatureGate, Gate, KernelGate, LinearGate, QuadraticGate

N_EXPERTS = 4
D = 2


def half_log_phi(t: np.ndarray) -> np.ndarray:
    """log phi of phi(t) = exp(t / 2): a user's own transformation."""
    return t / 2


def waves(X: np.ndarray) -> np.ndarray:
    return np.column_stack([np.sin(3 * X), X, np.ones(len(X))])


EXAMPLES: dict[type[Gate], Callable[..., Gate]] = {
    LinearGate: lambda **kw: LinearGate(N_EXPERTS, **kw),
    QuadraticGate: lambda **kw: QuadraticGate(N_EXPERTS, **kw),
    KernelGate: lambda: KernelGate(N_EXPERTS, mesh=0.5, kappa=0.5),
    FeatureGate: lambda **kw: FeatureGate(N_EXPERTS, transform=waves, **kw),
}

SCORE_VARIANTS = [
    {},
    {"k": 1},
    {"k": 2},
    {"k": N_EXPERTS},
    {"phi": "sigmoid"},
    {"k": 3, "phi": "sigmoid"},
    {"k": 2, "phi": half_log_phi},
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
