"""Section 2 checked: density, approximation, what lies outside the global class, two specialists."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import expit

from gatewise import theory
from gatewise.arrays import Floats
from gatewise.gates import LinearGate
from gatewise.mixture import MixtureOfExperts, nearest_center_moe
from gatewise.paper.verify.check import Check, CheckOutcome, cube_grid

POINTS = {1: 2001, 2: 161, 3: 41}


def density(rng: np.random.Generator, quick: bool, build: Callable[..., Any] = nearest_center_moe) -> CheckOutcome:
    """A function that is continuous but not Lipschitz: the error must stay below its modulus of continuity."""
    kink = rng.uniform(0.3, 0.7)

    def target(X: Floats) -> Floats:
        return np.asarray(np.sqrt(np.abs(X[:, 0] - kink)))

    ratios, last = [], 0.0
    for d, sizes in ((1, (2, 8, 32, 128)), (2, (2, 4, 8, 16 if quick else 24))):
        X = cube_grid(d, POINTS[d])
        for q in sizes:
            last = float(np.abs(build(target, 3 * q**d, d, 3).predict(X) - target(X)).max())
            ratios.append(last / np.sqrt(np.sqrt(d) / (2 * q)))
    return CheckOutcome(f"largest error / modulus {max(ratios):.3f}", max(ratios) <= 1 + 1e-9)


def one_constant(
    rng: np.random.Generator, quick: bool, law: Callable[[int, float, float], float] = theory.global_error
) -> CheckOutcome:
    """Half the oscillation of random Lipschitz functions and of the extremal one."""
    worst, extremal = 0.0, []
    for d, lipschitz, radius in ((1, 1.0, 2.0), (2, 3.0, 1.0), (3, 0.5, 1.0)):
        X, bound = cube_grid(d, POINTS[d] if d < 3 else 21), law(d, lipschitz, radius)
        ramp = min(radius, lipschitz * np.sqrt(d) / 2) / d * (2 * X - 1).sum(axis=1)
        extremal.append(np.ptp(ramp) / 2 / bound)
        for _ in range(20 if quick else 200):
            peaks, heights = rng.uniform(size=(5, d)), rng.uniform(-radius, radius, 5)
            cones = heights - lipschitz * np.linalg.norm(X[:, None] - peaks, axis=2)
            worst = max(worst, float(np.ptp(np.clip(cones.max(axis=1), -radius, radius)) / 2 / bound))
    figure = f"random functions {worst:.3f}, extremal one {min(extremal):.6f} of the law"
    return CheckOutcome(figure, worst <= 1 + 1e-9 and np.allclose(extremal, 1.0, atol=1e-9))


def nearest_centers(
    rng: np.random.Generator, quick: bool, build: Callable[..., Any] = nearest_center_moe
) -> CheckOutcome:
    """Sup error over bound for several M, K, d; a linear function attains the bound."""
    largest, attained = 0.0, 1.0
    for d in (1, 2, 3):
        X = cube_grid(d, POINTS[d] if not quick or d < 3 else 25)
        for M in (7, 40) if quick else (7, 40, 150):
            for k in (1, 2, 5):
                bound = theory.topk_error(M, d, k)
                bend = rng.uniform(size=d)
                ratios = [
                    float(np.abs(build(h, M, d, k).predict(X) - h(X)).max()) / bound
                    for h in (_ramp, lambda X, bend=bend: np.linalg.norm(X - bend, axis=1))
                ]
                largest, attained = max(largest, *ratios), min(attained, ratios[0])
    figure = f"largest error / bound {largest:.6f}; a linear function attains {attained:.3f}"
    return CheckOutcome(figure, largest <= 1 + 1e-9 and attained >= 0.97)


def _ramp(X: Floats) -> Floats:
    return np.asarray(X.sum(axis=1) / np.sqrt(X.shape[1]))


def double_pole(rng: np.random.Generator, quick: bool, target: Callable[[Any], Any] = lambda s: s**2) -> CheckOutcome:
    """sigma^2 as a mixture of two experts, and its double pole at pi i, which no global mixture has."""
    X = np.linspace(0.0, 1.0, 101)[:, None]
    gate = LinearGate(2)
    model = MixtureOfExperts(gate, [[1.0, 0.0]], [lambda X: expit(X[:, 0]), lambda X: 0.0 * X[:, 0]])
    gap = float(np.abs(model.predict(X) - target(expit(X[:, 0]))).max())
    step = 1e-5 * np.exp(2j * np.pi * rng.uniform())

    def logistic(z: complex) -> complex:  # z is the distance from pi i, where 1 + exp(-z) has lost its digits
        return complex(-1.0 / np.expm1(-z))

    double = abs(step**2 * target(logistic(step)))
    slopes = np.concatenate([[1.0], rng.normal(size=50 if quick else 1000)])
    shifts = np.concatenate([[0.0], rng.normal(size=slopes.size - 1)])
    at = slopes * (np.pi * 1j + step) + shifts
    values = np.where(np.arange(slopes.size) == 0, logistic(step), 1 / (1 + np.exp(-at)))
    simple = float(np.abs(step**2 * values).max())
    figure = f"routed gap {gap:.0e}; |z^2 f| at the pole {double:.4f}, global at most {simple:.0e}"
    return CheckOutcome(figure, gap < 1e-12 and abs(double - 1) < 1e-3 and simple < 1e-3)


def two_specialists(
    rng: np.random.Generator, quick: bool, gap: Callable[..., float] = theory.specialist_gap
) -> CheckOutcome:
    """The best fixed mixture of random pairs against gamma^2; pairs whose errors point apart come nearest."""
    least, broken = np.inf, 0
    for trial in range(200 if quick else 4000):
        size = rng.uniform(0.0, 1.0, size=(2, 2)) if trial else np.array([[0.0, 1.0], [1.0, 0.0]])
        errors = np.ones((2, 2, 64)) * size[:, :, None]  # (expert, region, x)
        if trial % 2 and trial:
            errors *= rng.normal(size=errors.shape)
        errors[1] *= -1.0 if trial % 4 < 2 else 1.0
        norms = np.sqrt((errors**2).mean(axis=2) / 2)
        first, second = (e.ravel() for e in errors)
        w = np.clip(second @ (second - first) / ((first - second) ** 2).sum(), 0.0, 1.0)
        best = float(((w * first + (1 - w) * second) ** 2).sum() / 128)
        gamma = gap(norms[0, 0], norms[1, 1], norms[1, 0], norms[0, 1])
        least = min(least, best / max(gamma, 1e-12) ** 2)
        routed = norms[0, 0] ** 2 + norms[1, 1] ** 2
        broken += routed < gamma**2 and routed >= best
    return CheckOutcome(
        f"least mixture risk / gamma^2 {least:.4f}; condition misled {broken} times", least >= 1 and not broken
    )


CHECKS = (
    Check(
        "prop:topk_density",
        "sup error of 3 active constants on a root",
        "at most the modulus at sqrt(d)/(2q)",
        density,
    ),
    Check("prop:approximation_ability", "worst error of one constant", "= min(R, L sqrt(d)/2)", one_constant),
    Check(
        "prop:approximation_ability",
        "nearest-centre sup error over M, K, d",
        "<= L sqrt(d)/(2q), attained",
        nearest_centers,
    ),
    Check(
        "exa:complex_experts",
        "sigma^2 from two experts; order of its pole",
        "gap 0; pole of order 2, global order 1",
        double_pole,
    ),
    Check(
        "prop:two_specialized_experts",
        "best fixed mixture of random pairs",
        ">= gamma^2; Top-1 below it if so promised",
        two_specialists,
    ),
)
