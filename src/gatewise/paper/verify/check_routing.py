"""Section 4 checked: regular transformations, stability of Top-K, realisable regions, the Top-1 barrier."""

import numpy as np
from scipy.spatial.distance import pdist
from scipy.special import log_expit, softmax

from gatewise import theory
from gatewise.aggregation import Blocks, Particles
from gatewise.arrays import Floats
from gatewise.gates import LinearGate, phi_regularity
from gatewise.gates.phi import Phi
from gatewise.geometry import (
    assignment_loss,
    best_expert,
    best_mixtures,
    continuity_modulus,
    separated_top1_gate,
    slope_separation,
    squared_losses,
)
from gatewise.paper.verify.check import Check, CheckOutcome, fitted_constant, slope
from gatewise.paper.verify.oracle_runs import constant, Function, MovingExpert, OracleDesign

REGIONS = np.array([[0.8, 0.1, 0.1], [-0.5, 0.6, 0.0], [-0.3, -0.7, 0.2]])  # v_r of three regions of [-1, 1]^2


def _far_sigmoid(t: Floats) -> Floats:
    """log of the logistic function at t - 60: near its exponential end for the scores that are tried."""
    return np.asarray(log_expit(t - 60.0))


def relative_derivative(rng: np.random.Generator, quick: bool) -> CheckOutcome:
    """The change of Top-K weights over the change of scores, for random and for near-tied scores of the active set.

    Scores are far above the reference's 0, so that the K experts with scores of their own are the active ones.
    """
    largest, rows = 0.0, 2000 if quick else 20_000
    phis: tuple[Phi, ...] = ("exp", "sigmoid", _far_sigmoid)
    for phi in phis:
        bound = phi_regularity(phi).lipschitz
        for K in (2, 3, 8):
            z = 45.0 + rng.choice([0.01, 1.0, 4.0], (rows, 1)) * rng.normal(size=(rows, K))
            step = rng.normal(size=z.shape) * rng.choice([1e-4, 1.0], (rows, 1))
            # Two tied scores far above the rest: the worst case of the lemma.
            step[0] = np.array([1e-4, -1e-4] + [0.0] * (K - 2))
            z[0] = np.array([45.0, 45.0] + [20.0] * (K - 2))
            gate = LinearGate(K + 1, k=K, intercept=False, phi=phi)
            before, after = (gate.weights([[1.0]], t[:, :, None])[:, 0] for t in (z, z + step))
            ratio = np.linalg.norm(after - before, axis=1) / np.linalg.norm(step, axis=1)
            largest = max(largest, float(ratio.max()) / bound)
    return CheckOutcome(f"largest change / (B/2) {largest:.4f}, reached", 0.99 < largest <= 1 + 1e-6)


def _separated(rng: np.random.Generator, gate: LinearGate, d: int, r: float) -> Floats:
    while True:
        theta = rng.uniform(-1, 1, (gate.n_experts - 1, d + 1))
        if gate.separation(theta) >= r:
            return np.asarray(theta)


def continuity(rng: np.random.Generator, quick: bool) -> CheckOutcome:
    """The L2 distance of Top-K gates over the distance of their parameters, X uniform on [-1, 1]^2.

    The figure that shows how sharp the bounds are comes from two experts on one feature whose border is moved.
    """
    M, d, r, deltas = 4, 2, 0.3, np.geomspace(1e-3, 3e-1, 6)
    X = rng.uniform(-1, 1, size=(40_000 if quick else 200_000, d))
    exponents, largest = [], 0.0
    for k in (1, 2, None):
        squares, gate = np.zeros(deltas.size), LinearGate(M, k=k)
        for _ in range(5 if quick else 12):
            theta = _separated(rng, gate, d, r)
            direction = rng.normal(size=theta.shape)
            direction /= np.linalg.norm(direction)
            apart = [
                continuity_modulus(gate, X, theta, theta + s * direction, anti_concentration=np.sqrt(2))
                for s in deltas
            ]
            squares += [pair.measured**2 for pair in apart]
            bounds = [
                min(pair.bound, theory.topk_modulus(pair.delta, M, r, np.sqrt(3), np.sqrt(2))) for pair in apart
            ]
            largest = max(largest, *(pair.measured / bound for pair, bound in zip(apart, bounds, strict=True)))
        exponents.append(slope(deltas, np.sqrt(squares)))
    sharp = _sharp_modulus()
    figure = (
        f"exponents {', '.join(f'{e:.3f}' for e in exponents)} for K = 1, 2, dense; distance / bound {largest:.3f}, "
        f"two experts {sharp[0]:.3f} and {sharp[1]:.3f}"
    )
    halves = all(abs(e - 0.5) < 0.08 for e in exponents[:2])
    near = sharp[0] > 0.44 and sharp[1] > 0.49
    return CheckOutcome(figure, halves and abs(exponents[2] - 1) < 0.1 and max(largest, *sharp) <= 1 and near)


def _sharp_modulus() -> tuple[float, float]:
    """Distance over `topk_modulus` and over the bound of `continuity_modulus` when a border of slope r moves."""
    X, r, delta = np.linspace(-1, 1, 20_001)[:, None], 0.3, 0.03
    found = continuity_modulus(LinearGate(2, k=1), X, [[r, 0.0]], [[r, delta]], anti_concentration=1.0)
    return found.measured / theory.topk_modulus(delta, 2, r, np.sqrt(2), 1.0), found.measured / found.bound


def realised_regions(rng: np.random.Generator, quick: bool) -> CheckOutcome:
    """The proof's Top-1 gate for three regions with M - 3 idle experts: assignments, and slope separation over M."""
    X = rng.uniform(-1, 1, size=(2000 if quick else 20_000, 2))
    region = np.argmax(np.column_stack([X, np.ones(len(X))]) @ REGIONS.T, axis=1)
    agreed, gaps, same, counts = 1.0, [], 0.0, np.array([32, 64, 128, 256, 512, 1024])
    for M in counts:
        gate, theta, specialists = separated_top1_gate(REGIONS, int(M), input_norm=np.sqrt(2))
        chosen = gate.active(X, theta)[:, 0]
        agreed = min(agreed, float((chosen == specialists[region]).mean()), float(np.abs(theta).max() <= 1))
        gaps.append(float(pdist(np.vstack([theta[:, :2], np.zeros(2)])).min()))
        found = [slope_separation(LinearGate(int(M), k=1), theta, 2)]
        found += [float(LinearGate(int(M)).separation(theta))] if counts[0] == M else []
        same = max(same, *(abs(value - gaps[-1]) for value in found))
    rate = slope(counts, gaps)
    slope_gap = float(pdist(REGIONS[:, :2] / np.linalg.norm(REGIONS, axis=1).max()).min())
    least = min(gap / theory.feasible_separation(slope_gap, int(M), 2) for gap, M in zip(gaps, counts, strict=True))
    figure = f"assignments agree {agreed:.4f}; separation M^{rate:.2f}, at least {least:.3f} of min(r_0, M^(-1/d))"
    held = agreed == 1.0 and abs(rate + 0.5) < 0.1 and 0.15 < least <= 1 and same < 1e-12
    return CheckOutcome(figure, held)


def specialist_risk(rng: np.random.Generator, quick: bool) -> CheckOutcome:
    """`RouterAggregator` with Top-1 gates where each region has a specialist: both risks over the corollary's law."""
    sigma, sizes, reps, quotients = 0.6, (200, 800) if quick else (250, 1000), 3 if quick else 4, []
    slope_gap = float(pdist(REGIONS[:, :2]).min())
    for M in (3,) if quick else (3, 6):
        design, errors = _specialists(M, sigma, rng)
        r = theory.feasible_separation(slope_gap, M, 2, constant=0.25)
        for n in sizes:
            risks = design.mean_risks(reps, n, Particles(150, 2.0), rng)
            law = sigma**2 * theory.top1_risk(list(errors / sigma**2), M, 2, n, r)
            quotients.append([risk / law for risk in risks])
    online, single = (fitted_constant(column, np.ones(len(column))) for column in np.array(quotients).T)
    figure = (
        f"risk / (specialists + sigma^2 cost): online up to {online.value:.2f}, spread {online.spread:.1f}; "
        f"projected up to {single.value:.2f}, spread {single.spread:.1f}"
    )
    return CheckOutcome(figure, max(online.value, single.value) <= 3 and max(online.spread, single.spread) <= 6)


def _specialists(M: int, sigma: float, rng: np.random.Generator) -> tuple[OracleDesign, Floats]:
    """Three specialists that are off by a wave on their regions, M - 3 idle experts, and the specialists' errors."""

    def region(X: Floats) -> Floats:
        return np.asarray(np.argmax(np.column_stack([X, np.ones(len(X))]) @ REGIONS.T, axis=1))

    levels = np.array([1.0, -1.0, 0.0])

    def truth(X: Floats) -> Floats:
        return np.asarray(levels[region(X)] + 0.3 * X[:, 0])

    experts = [*map(_specialist, levels), *map(constant, (2.0, -2.0, 3.0)[: M - 3])]
    X = rng.uniform(-1, 1, (20_000, 2))
    off, own = truth(X), region(X)
    errors = np.array([((experts[r](X) - off) ** 2 * (own == r)).mean() for r in range(3)])
    return OracleDesign(LinearGate(M, k=1), 2, experts, truth, sigma), errors


def _specialist(level: float) -> Function:
    """Right on its region up to a small wave."""
    return lambda X: np.asarray(level + 0.3 * X[:, 0] + 0.1 * np.sin(5 * X[:, 1]))


def top1_barrier(rng: np.random.Generator, quick: bool) -> CheckOutcome:
    """Random Top-1 gates against the barrier, and a two-expert mixture below it, where two regions need mixtures."""
    x = np.linspace(-1, 1, 401)
    left = x < 0
    experts = np.stack(
        [np.where(left, 1.0, 3.0), np.where(left, -1.0, 3.0), np.where(left, -3.0, 1.5), np.where(left, -3.0, -1.0)]
    )
    experts = experts + 0.1 * np.sin(rng.uniform(2, 6, (4, 1)) * x)
    residuals = experts - 0.2 * np.cos(3 * x)  # the truth taken off
    mixed, advantages, top2, single = [], [], 0.0, 0.0
    for where in (left, ~left):
        part = residuals[:, where]
        pair = best_mixtures(part @ part.T / x.size, 2)[1]
        mixed.append(pair.loss)
        advantages.append(float((part**2).min(axis=0).sum()) / x.size - pair.loss)
        top2 += float(((pair.weights @ part) ** 2).sum()) / x.size
        single += float((part**2).min(axis=0).sum()) / x.size
    barrier = theory.top1_barrier(mixed, advantages)
    thetas = rng.normal(scale=3, size=(3000 if quick else 40_000, 3, 2))
    predictions = np.einsum("snm,mn->sn", LinearGate(4, k=1).weights(x[:, None], thetas), residuals)
    lowest = float((predictions**2).mean(axis=1).min())
    figure = (
        f"best Top-1 of {len(thetas)} gates {lowest:.3f}, barrier {barrier:.3f}, pointwise best {single:.3f}, "
        f"two-expert mixture {top2:.3f}"
    )
    held = lowest >= barrier * (1 - 1e-9) and np.isclose(barrier, single) and top2 < 0.1 * barrier
    return CheckOutcome(figure, bool(held and min(advantages) > 0))


def top1_floor(rng: np.random.Generator, quick: bool) -> CheckOutcome:
    """The projected Top-1 estimator along experts that lean to the truth by a: its risk against the floor.

    Truth 0 and experts 1 and -1: A_1 = 1. Each leans to 0 on its half of [-1, 1] by a sqrt(2) there, so that the
    estimator's risk is (1 - sqrt(2) a)^2, the floor with C = 1. Four experts in two pairs stay above theirs.
    """
    ratios, n = [], 300 if quick else 1000
    for values in (np.array([1.0, -1.0]), np.array([1.0, -1.0, 1.0, -1.0])):
        M = len(values)
        for a in (0.0, 0.1, 0.25):
            experts = [
                MovingExpert(constant(v), _half(-v * np.sqrt(2), v > 0), np.full(n + 1, a).item) for v in values
            ]
            gate = LinearGate(M, k=1)
            design = OracleDesign(gate, 1, experts, constant(0.0), 0.3)
            thetas = np.concatenate([_halves(M)[None], rng.normal(size=(40, M - 1, 2))])
            risk = design.mean_risks(
                3, n, thetas, rng, blocks=Blocks(burn_in=0, calibration=1 / 3, updates=n // 6)
            ).single
            ratios.append(risk / theory.top1_risk_floor(1.0, M, a**2))
    figure = f"risk / floor from {min(ratios):.3f}; two experts {', '.join(f'{ratio:.3f}' for ratio in ratios[:3])}"
    return CheckOutcome(figure, min(ratios) >= 1 - 1e-6 and max(ratios[:3]) <= 1.1)


def _half(value: float, right: bool) -> Function:
    return lambda X: np.where((X[:, 0] > 0) == right, value, 0.0)


def _halves(M: int) -> Floats:
    """Expert 1 on the right half and expert 2 on the left one; with four experts the last two are never chosen."""
    if M == 2:
        return np.array([[1.0, 0.0]])
    return np.array([[1.0, 5.0], [-1.0, 5.0], [0.0, -5.0]])


def decomposition(rng: np.random.Generator, quick: bool) -> CheckOutcome:
    """Risk of a gate against 2 x expert error + 8 A^2 x assignment error: random experts, and a case that reaches it.

    There one expert is delta below the truth A, 500 others are at -A and share the weight delta / (2 A).
    """
    largest, A = 0.0, 2.0
    for trial in range(200 if quick else 3000):
        M = int(rng.integers(2, 6))
        F = rng.uniform(-A, A, (50, M)) if trial % 2 else rng.choice([-A, A], (50, M))
        truth = np.clip(F[:, rng.integers(M)] + rng.uniform(0, 0.2) * rng.normal(size=50), -A, A)
        weights = softmax(rng.normal(scale=rng.uniform(0.1, 4), size=(50, M)), axis=1)
        largest = max(largest, _decomposed(F, truth, weights, A))
    delta = 1e-3 * A
    F = np.concatenate([[A - delta], np.full(500, -A)])[None]
    weights = np.concatenate([[1 - delta / (2 * A)], np.full(500, delta / (2 * A) / 500)])[None]
    reached = _decomposed(F, np.array([A]), weights, A)
    figure = f"risk / bound up to {largest:.3f} at random, {reached:.3f} in the extremal case"
    return CheckOutcome(figure, largest <= 1 and 0.99 < reached <= 1)


def _decomposed(F: Floats, truth: Floats, weights: Floats, A: float) -> float:
    """risk / (2 x expert error + 8 A^2 x assignment error) on rows with predictions F (n, M)."""
    losses = squared_losses(F, truth)
    risk = float((((weights * F).sum(axis=1) - truth) ** 2).mean())
    gate_error = assignment_loss(weights, best_expert(losses)).value
    return risk / theory.assignment_bound([float(losses.min(axis=1).mean())], gate_error, A)


CHECKS = (
    Check(
        "lem:supp-relative-derivative", "weights' change over scores' change", "<= B/2, reached", relative_derivative
    ),
    Check(
        "pro:continuity",
        "L2 distance of gates over |theta - theta'|",
        "exponent 1/2 +- 0.08; <= bound, whose sharp constant is 0.45",
        continuity,
    ),
    Check(
        "cor:Top1-single",
        "Top-1 gate with idle experts",
        "regions exact; separation M^(-1/d) +- 0.1",
        realised_regions,
    ),
    Check(
        "cor:Top1-single (risk)",
        "risks of the Top-1 router, specialists",
        "C <= 3, spread <= 6",
        specialist_risk,
        cost=6.0,
    ),
    Check(
        "prop: Top-1 mixing", "risk of Top-1 gates, two mixed regions", ">= barrier; mixture below it", top1_barrier
    ),
    Check(
        "prop: Top-1 mixing (estimator)",
        "risk of the projected Top-1 router",
        ">= [sqrt(A_1) - sqrt(M) a]^2, C = 1, reached",
        top1_floor,
    ),
    Check(
        "eq:L1loss", "risk against expert and assignment errors", "<= 2 experts + 8 A^2 gate, reached", decomposition
    ),
)
