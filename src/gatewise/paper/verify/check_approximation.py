"""Section 2 checked: density, approximation, what lies outside the global class, two specialists."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import expit

from gatewise import theory
from gatewise.arrays import Floats
from gatewise.experts import ColumnExpert, ConstantExpert
from gatewise.gates import LinearGate
from gatewise.geometry import best_mixtures
from gatewise.mixture import MixtureOfExperts, nearest_center_moe
from gatewise.paper.verify.check import Check, CheckOutcome, cube_grid

POINTS = {1: 2001, 2: 161, 3: 41}


def density(rng: np.random.Generator, quick: bool) -> CheckOutcome:
    """A function that is continuous but not Lipschitz: its error must stay below its modulus of continuity, reached.

    The function is the root of the distance to the centre of one cell, whose modulus is the root: at the corners of
    the cell the error is what the proof allows.
    """
    ratios = []
    for d, sizes in ((1, (3, 9, 33, 129)), (2, (3, 5, 9, 17 if quick else 25))):
        for q in sizes:
            center = (rng.integers(q, size=d) + 0.5) / q
            corners = center + (cube_grid(d, 2) - 0.5) * (1 - 1e-6) / q
            X = np.concatenate([corners, rng.uniform(size=(2000, d))])
            error = np.abs(nearest_center_moe(_root(center), 3 * q**d, d, 3).predict(X) - _root(center)(X)).max()
            ratios.append(float(error) / np.sqrt(np.sqrt(d) / (2 * q)))
    figure = f"error / modulus {min(ratios):.6f} to {max(ratios):.6f}"
    return CheckOutcome(figure, max(ratios) <= 1 + 1e-9 and min(ratios) > 0.999)


def _root(center: Floats) -> Callable[[Floats], Floats]:
    return lambda X: np.asarray(np.sqrt(np.linalg.norm(X - center, axis=1)))


def one_constant(rng: np.random.Generator, quick: bool) -> CheckOutcome:
    """Half the oscillation of random Lipschitz functions and of the extremal one."""
    worst, extremal = 0.0, []
    for d, lipschitz, radius in ((1, 1.0, 2.0), (2, 3.0, 1.0), (3, 0.5, 1.0)):
        X, bound = cube_grid(d, POINTS[d] if d < 3 else 21), theory.global_error(d, lipschitz, radius)
        ramp = min(radius, lipschitz * np.sqrt(d) / 2) / d * (2 * X - 1).sum(axis=1)
        extremal.append(np.ptp(ramp) / 2 / bound)
        for _ in range(20 if quick else 200):
            peaks, heights = rng.uniform(size=(5, d)), rng.uniform(-radius, radius, 5)
            cones = heights - lipschitz * np.linalg.norm(X[:, None] - peaks, axis=2)
            worst = max(worst, float(np.ptp(np.clip(cones.max(axis=1), -radius, radius)) / 2 / bound))
    figure = f"random functions {worst:.3f}, extremal one {min(extremal):.6f} of the law"
    return CheckOutcome(figure, worst <= 1 + 1e-9 and np.allclose(extremal, 1.0, atol=1e-9))


def nearest_centers(rng: np.random.Generator, quick: bool) -> CheckOutcome:
    """Sup error over bound for several M, K, d; a linear function attains the bound."""
    largest, attained = 0.0, 1.0
    for d in (1, 2, 3):
        X = cube_grid(d, POINTS[d] if not quick or d < 3 else 25)
        for M in (7, 40) if quick else (7, 40, 150):
            for k in (1, 2, 5):
                bound = theory.topk_error(M, d, k)
                ratios = [
                    float(np.abs(nearest_center_moe(h, M, d, k).predict(X) - h(X)).max()) / bound
                    for h in (_ramp, _cone(rng.uniform(size=d)))
                ]
                largest, attained = max(largest, *ratios), min(attained, ratios[0])
    figure = f"largest error / bound {largest:.6f}; a linear function attains {attained:.3f}"
    return CheckOutcome(figure, largest <= 1 + 1e-9 and attained >= 0.97)


def _ramp(X: Floats) -> Floats:
    return np.asarray(X.sum(axis=1) / np.sqrt(X.shape[1]))


def _cone(tip: Floats) -> Callable[[Floats], Floats]:
    return lambda X: np.asarray(np.linalg.norm(X - tip, axis=1))


def double_pole(rng: np.random.Generator, quick: bool) -> CheckOutcome:
    """sigma^2 as a mixture of two experts, and its double pole at pi i, which no global mixture has."""
    X = np.linspace(0.0, 1.0, 101)[:, None]
    model = MixtureOfExperts(LinearGate(2), [[1.0, 0.0]], [lambda X: expit(X[:, 0]), ConstantExpert(0.0)])
    gap = float(np.abs(model.predict(X) - expit(X[:, 0]) ** 2).max())
    step = 1e-5 * np.exp(2j * np.pi * rng.uniform())

    def logistic(z: Any) -> Any:  # z is the distance from pi i, where 1 + exp(-z) has lost its digits
        return -1.0 / np.expm1(-z)

    double = abs(step**2 * logistic(step) ** 2)
    slopes = np.concatenate([[1.0], rng.normal(size=50 if quick else 1000)])
    shifts = np.concatenate([[0.0], rng.normal(size=slopes.size - 1)])
    at = slopes * (np.pi * 1j + step) + shifts
    values = np.where(np.arange(slopes.size) == 0, logistic(step), 1 / (1 + np.exp(-at)))
    simple = float(np.abs(step**2 * values).max())
    figure = f"routed gap {gap:.0e}; |z^2 f| at the pole {double:.4f}, global at most {simple:.0e}"
    return CheckOutcome(figure, gap < 1e-12 and abs(double - 1) < 1e-3 and simple < 1e-3)


def two_specialists(rng: np.random.Generator, quick: bool) -> CheckOutcome:
    """The best fixed mixture of random pairs against gamma^2, which one pair attains; and the Top-1 rule's risk."""
    least, misled, gap = np.inf, 0, 0.0
    x = (np.arange(128) + 0.5) / 128  # the first half is region 1
    for trial in range(200 if quick else 2000):
        errors = _pair_errors(rng, trial)  # (expert, region, x)
        norms = np.sqrt((errors**2).mean(axis=2) / 2)
        flat = errors.reshape(2, -1)
        best = best_mixtures(flat @ flat.T / x.size, 2)[1].loss
        own, other = (norms[0, 0], norms[1, 1]), (norms[1, 0], norms[0, 1])
        gamma = theory.specialist_gap(*own, *other)
        least = min(least, best / max(gamma, 1e-12) ** 2)
        X = np.column_stack([x, flat.T])
        rule = MixtureOfExperts(LinearGate(2, k=1), [[-1.0, 0.0, 0.0, 0.5]], [ColumnExpert(1), ColumnExpert(2)])
        routed = float((rule.predict(X) ** 2).mean())
        gap = max(gap, abs(routed - own[0] ** 2 - own[1] ** 2))
        misled += theory.routing_wins(*own, *other) and routed >= best
    figure = (
        f"least mixture risk / gamma^2 {least:.4f}, reached; Top-1 off by {gap:.0e}; condition misled {misled} times"
    )
    return CheckOutcome(figure, 1 <= least < 1.01 and gap < 1e-12 and not misled)


def _pair_errors(rng: np.random.Generator, trial: int) -> Floats:
    """Errors of two experts on two regions, (2, 2, 64).

    Those of the first trial nearly reach the bound: with s_j = delta_j + eps_j the least risk is
    gamma^2 (s_1 + s_2)^2 / (s_1^2 + s_2^2) where errors point apart.
    """
    size = rng.uniform(0.0, 1.0, size=(2, 2)) if trial else np.array([[0.0, 1e-3], [1.0, 0.0]])
    errors = np.ones((2, 2, 64)) * size[:, :, None]
    if trial % 2:
        errors *= rng.normal(size=errors.shape)
    errors[1] *= -1.0 if trial % 4 < 2 else 1.0
    return errors


CHECKS = (
    Check(
        "prop:topk_density",
        "sup error of 3 active constants on a root",
        "at most the modulus at sqrt(d)/(2q), reached",
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
        "best fixed mixture of random pairs, Top-1",
        ">= gamma^2, reached; Top-1 eps_1^2 + eps_2^2",
        two_specialists,
    ),
)
