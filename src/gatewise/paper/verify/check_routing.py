"""Section 4 checked: regular transformations, stability of Top-K, realisable regions, the Top-1 barrier."""

from collections.abc import Callable
from itertools import combinations

import numpy as np
from scipy.spatial import cKDTree
from scipy.spatial.distance import pdist
from scipy.special import expit, softmax

from gatewise import theory
from gatewise.arrays import Floats
from gatewise.gates import LinearGate, phi_regularity
from gatewise.paper.verify.check import Check, CheckOutcome, slope


def relative_derivative(rng: np.random.Generator, quick: bool, factor: float = 0.5) -> CheckOutcome:
    """The change of normalised weights over the change of scores, for random and for near-tied scores."""
    largest = 0.0
    for name, phi in (("exp", np.exp), ("sigmoid", expit)):
        bound = factor * phi_regularity(name).relative_derivative  # type: ignore[arg-type]
        for K in (2, 3, 8):
            rows = 2000 if quick else 50_000
            z = rng.choice([0.01, 1.0, 4.0], (rows, 1)) * rng.normal(size=(rows, K))
            z = z - 6.0 * (name == "sigmoid") * rng.integers(2, size=(len(z), 1))  # there sigmoid is exponential
            step = rng.normal(size=z.shape) * rng.choice([1e-4, 1.0], (len(z), 1))
            # Two tied scores far above the rest, where sigmoid is exponential: the worst case of the lemma.
            step[0] = np.array([1e-4, -1e-4] + [0.0] * (K - 2))
            z[0] = np.array([0.0, 0.0] + [-30.0] * (K - 2)) - 6.0 * (name == "sigmoid")
            before, after = (phi(t) / phi(t).sum(axis=1, keepdims=True) for t in (z, z + step))
            ratio = np.linalg.norm(after - before, axis=1) / np.linalg.norm(step, axis=1)
            largest = max(largest, float(ratio.max()) / bound)
    return CheckOutcome(f"largest change / (B/2) {largest:.4f}", 0.99 < largest <= 1 + 1e-6)


def _separated(rng: np.random.Generator, M: int, d: int, r: float) -> Floats:
    while True:
        theta = rng.uniform(-1, 1, (M - 1, d + 1))
        slopes = np.vstack([theta[:, :d], np.zeros(d)])
        if min(float(np.linalg.norm(a - b)) for a, b in combinations(slopes, 2)) >= r:
            return np.asarray(theta)


def continuity(
    rng: np.random.Generator, quick: bool, modulus: Callable[..., float] = theory.topk_modulus
) -> CheckOutcome:
    """The L2 distance of Top-K gates over the distance of their parameters, X uniform on [-1, 1]^2."""
    M, d, r, deltas = 4, 2, 0.3, np.geomspace(1e-3, 3e-1, 6)
    X = rng.uniform(-1, 1, size=(40_000 if quick else 400_000, d))
    exponents, largest = [], 0.0
    for k in (1, 2, None):
        squares = np.zeros(deltas.size)
        for _ in range(6 if quick else 12):
            theta = _separated(rng, M, d, r)
            direction = rng.normal(size=theta.shape)
            direction /= np.linalg.norm(direction)
            gate = LinearGate(M, k=k)
            base = gate.weights(X, theta)
            apart = np.array(
                [((gate.weights(X, theta + s * direction) - base) ** 2).sum(axis=1).mean() for s in deltas]
            )
            squares += apart
            if k is not None:
                bounds = [modulus(s, M, r, np.sqrt(3), np.sqrt(2)) for s in deltas]
                largest = max(largest, float((np.sqrt(apart) / bounds).max()))
        exponents.append(slope(deltas, np.sqrt(squares)))
    shown = ", ".join(f"{e:.3f}" for e in exponents)
    figure = f"exponents {shown} for K = 1, 2, dense; distance / bound {largest:.3f}"
    halves = all(abs(e - 0.5) < 0.08 for e in exponents[:2])
    return CheckOutcome(figure, halves and abs(exponents[2] - 1) < 0.1 and largest <= 1)


def realised_regions(rng: np.random.Generator, quick: bool, intercept: float = -1.0) -> CheckOutcome:
    """The proof's Top-1 gate for three regions with M - 3 idle experts: assignments, and slope separation over M."""
    v = np.array([[0.8, 0.1, 0.1], [-0.5, 0.6, 0.0], [-0.3, -0.7, 0.2]])
    X = rng.uniform(-1, 1, size=(2000 if quick else 20_000, 2))
    region = np.argmax(np.column_stack([X, np.ones(len(X))]) @ v.T, axis=1)
    active, b, agreed, gaps = 0.25 * (v[:2] - v[2]), 0.5, 1.0, []
    counts = np.array([32, 64, 128, 256, 512, 1024])
    for M in counts:
        slopes = _packing(b / (2 * np.sqrt(2)), np.vstack([active[:, :2], np.zeros(2)]), int(M) - 3)
        theta = np.vstack([active, np.column_stack([slopes, np.full(len(slopes), intercept * b)])])
        chosen = LinearGate(int(M), k=1).active(X, theta)[:, 0]
        agreed = min(agreed, float((np.where(chosen == M - 1, 2, chosen) == region).mean()))
        every = np.vstack([theta[:, :2], np.zeros(2)])
        gaps.append(float(pdist(every).min()))
    rate = slope(counts, gaps)
    figure = f"assignments agree {agreed:.4f}; separation falls like M^{rate:.2f}"
    return CheckOutcome(figure, agreed == 1.0 and abs(rate + 0.5) < 0.1)


def _packing(radius: float, taken: Floats, count: int) -> Floats:
    """count points of the coarsest square grid in the disk that stay half a step from the points taken."""
    side = 3
    while True:
        axis = radius * np.linspace(-1, 1, side)
        points = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
        clear = cKDTree(taken).query(points)[0] > (axis[1] - axis[0]) / 2
        usable = points[(np.linalg.norm(points, axis=1) <= radius) & clear]
        if len(usable) >= count:
            return np.asarray(usable[:count])
        side += 1


def top1_barrier(rng: np.random.Generator, quick: bool, k: int = 1) -> CheckOutcome:
    """Random Top-1 gates against the barrier, and a Top-2 gate below it, where two regions need mixtures."""
    x = np.linspace(-1, 1, 401)
    left = x < 0
    experts = np.stack(
        [np.where(left, 1.0, 3.0), np.where(left, -1.0, 3.0), np.where(left, -3.0, 1.5), np.where(left, -3.0, -1.0)]
    )
    experts = experts + 0.1 * np.sin(rng.uniform(2, 6, (4, 1)) * x)
    truth = 0.2 * np.cos(3 * x)
    mixed, advantages, pairs = [], [], []
    for where in (left, ~left):
        best = min((_best_pair(experts[:, where], truth[where], pair), pair) for pair in combinations(range(4), 2))
        single = ((experts[:, where] - truth[where]) ** 2).min(axis=0).sum()
        mixed.append(best[0][0] / x.size)
        advantages.append((single - best[0][0]) / x.size)
        pairs.append((best[1], best[0][1]))
    barrier = theory.top1_barrier(mixed, advantages)
    thetas = rng.normal(scale=3, size=(3000 if quick else 40_000, 3, 2))
    predictions = np.einsum("snm,mn->sn", LinearGate(4, k=k).weights(x[:, None], thetas), experts)
    lowest = float(((predictions - truth) ** 2).mean(axis=1).min())
    weights = np.zeros((x.size, 4))
    for where, ((i, j), w) in zip((left, ~left), pairs, strict=True):
        weights[where, i], weights[where, j] = w, 1 - w
    top2 = float(((np.einsum("nm,mn->n", weights, experts) - truth) ** 2).mean())
    figure = f"best Top-1 of {len(thetas)} gates {lowest:.3f}, barrier {barrier:.3f}, two-expert mixture {top2:.3f}"
    return CheckOutcome(figure, lowest >= barrier * (1 - 1e-9) and top2 < barrier and min(advantages) > 0)


def _best_pair(experts: Floats, truth: Floats, pair: tuple[int, int]) -> tuple[float, float]:
    first, second = experts[pair[0]], experts[pair[1]]
    step = first - second
    w = float(np.clip(step @ (truth - second) / (step @ step), 0.0, 1.0))
    return float(((w * step + second - truth) ** 2).sum()), w


def decomposition(rng: np.random.Generator, quick: bool, factor: float = 8.0) -> CheckOutcome:
    """Risk of a gate against 2 x expert error + 8 A^2 x assignment error, random experts and an extremal pair."""
    largest, A = 0.0, 2.0
    for trial in range(300 if quick else 5000):
        M = int(rng.integers(2, 6)) if trial else 2
        experts = rng.uniform(-A, A, (M, 50)) if trial % 2 else rng.choice([-A, A], (M, 50))
        truth = experts[rng.integers(M), :] + (rng.uniform(0, 0.2) * rng.normal(size=50) if trial % 3 else 0.0)
        nearest = np.abs(experts - truth).argmin(axis=0)
        weights = softmax(rng.normal(scale=rng.uniform(0.1, 4), size=(50, M)), axis=1)
        risk = float(((np.einsum("nm,mn->n", weights, experts) - truth) ** 2).mean())
        expert_error = float(((experts[nearest, np.arange(50)] - truth) ** 2).mean())
        gate_error = float(((weights - np.eye(M)[nearest]) ** 2).sum(axis=1).mean())
        largest = max(largest, risk / (2 * expert_error + factor * A**2 * gate_error))
    return CheckOutcome(f"largest risk / bound {largest:.3f}", largest <= 1)


CHECKS = (
    Check(
        "lem:supp-relative-derivative", "weights' change over scores' change", "<= B/2, attained", relative_derivative
    ),
    Check(
        "pro:continuity",
        "L2 distance of gates over |theta - theta'|",
        "exponent 1/2 +- 0.08; <= explicit bound",
        continuity,
    ),
    Check(
        "cor:Top1-single",
        "Top-1 gate with idle experts",
        "regions exact; separation M^(-1/d) +- 0.15",
        realised_regions,
    ),
    Check(
        "prop: Top-1 mixing", "risk of Top-1 gates, two mixed regions", ">= barrier; mixture below it", top1_barrier
    ),
    Check("eq:L1loss", "risk against expert and assignment errors", "<= 2 experts + 8 A^2 gate", decomposition),
)
