"""The three worked examples: softmax at a threshold, linear and quadratic gates on a disk, an oscillation."""

from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp

from gatewise import theory
from gatewise.arrays import Floats
from gatewise.gates import LinearGate
from gatewise.paper.verify.check import Check, CheckOutcome, gauss_nodes, slope

Scores = Callable[[Floats], tuple[Floats, Floats, Floats]]


def assignment_loss(
    first: Floats, second: Floats, idle: Floats, log_idle: float, own: Floats, weight: Floats
) -> float:
    """sum of weight * |g - e_own|^2 for two experts and exp(log_idle) idle ones that share one score.

    Scores are (n,); ``own`` is 0 or 1, the region's expert. Idle experts enter through their number only, so that
    M may be as large as a float holds.
    """
    total = logsumexp([first, second, idle + log_idle], axis=0)
    right, wrong = np.where(own == 0, first, second) - total, np.where(own == 0, second, first) - total
    return float(weight @ (np.expm1(right) ** 2 + np.exp(2 * wrong) + np.exp(2 * (idle - total) + log_idle)))


def _least(loss: Callable[[Floats], float], starts: list[Floats]) -> float:
    """The least loss over the box [-1, 1]^p from several starts."""
    return min(
        float(minimize(loss, start, method="L-BFGS-B", bounds=[(-1.0, 1.0)] * len(start)).fun) for start in starts
    )


def threshold_global(rng: np.random.Generator, quick: bool, reach: Callable[[float], float] = np.log) -> CheckOutcome:
    """Checks that the least global loss of a softmax gate at a threshold falls like 1 / log M, within both bounds.

    The gate is minimised over all six coefficients in the box [-log M, log M]^6, for growing numbers M of experts.
    """
    x, w = (np.concatenate(parts) for parts in zip(gauss_nodes(-1, 0, 120), gauss_nodes(0, 1, 120), strict=True))
    own, counts = (x > 0).astype(int), 10.0 ** np.arange(2, 13 if quick else 31, 2)
    losses = []
    for M in counts:
        scale = reach(M)

        def loss(p: Floats, scale: float = scale, idle: float = np.log(M - 2)) -> float:
            s = scale * p
            return assignment_loss(s[0] * x + s[1], s[2] * x + s[3], s[4] * x + s[5], idle, own, w / 2)

        paper = np.array([-1.0, 1.0, 1.0, 1.0, 0.0, -1.0])
        losses.append(_least(loss, [paper, 0.5 * paper, rng.uniform(-1, 1, 6)]))
    bounds = np.array([theory.threshold_loss(int(M)) for M in counts])
    rate = slope(np.log(counts), losses)
    inside = bool(((bounds[:, 0] <= losses) & (losses <= bounds[:, 1])).all())
    scaled = losses * np.log(counts)
    figure = f"exponent in log M {rate:.3f}; loss x log M from {scaled[0]:.3f} to {scaled[-1]:.3f}"
    return CheckOutcome(figure, abs(rate + 1) < 0.06 and inside)


def threshold_interior(rng: np.random.Generator, quick: bool, steepness: float = 1.0) -> CheckOutcome:
    """Checks that the loss of the proof's softmax gate at least rho from the threshold falls like M^(-c rho), c >= 2.

    The Top-1 gate must have loss 0 everywhere.
    """
    exponents, largest, counts = [], 0.0, 10.0 ** np.arange(2, 13 if quick else 21, 2)
    for rho in (0.05, 0.1, 0.2):
        x, w = gauss_nodes(rho, 1.0, 200)
        losses = []
        for M in counts:
            a, B = steepness * np.log(M), np.log(M)
            losses.append(assignment_loss(B - a * x, B + a * x, -B + 0 * x, np.log(M - 2), np.ones(x.size), w))
            largest = max(largest, losses[-1] / theory.threshold_interior_loss(int(M), rho))
        exponents.append(-slope(counts, np.array(losses) * np.log(counts)) / rho)
    X = rng.uniform(-1, 1, size=(1000, 1))
    hard = LinearGate(3, k=1).weights(X, [[-1.0, 2.0], [1.0, 2.0]])
    top1 = float(np.abs(hard - np.eye(3)[(X[:, 0] > 0).astype(int)]).max())
    reach = f"{min(exponents):.2f}..{max(exponents):.2f}"
    figure = f"M^(-c rho) with c = {reach}; loss / bound {largest:.3f}; Top-1 loss {top1:.0f}"
    return CheckOutcome(figure, min(exponents) >= 2 and largest <= 1 and top1 == 0)


def _disk(margin: float) -> tuple[Floats, Floats, Floats, Floats]:
    """Nodes of the shrunken disk (radius 1) and ring (to radius 2): x1, radius^2, own expert, weights."""
    angle = 2 * np.pi * (np.arange(48) + 0.5) / 48
    parts = []
    for own, (low, high) in enumerate(((0.0, 1 - margin), (1 + margin, 2.0))):
        r, w = gauss_nodes(low, high, 40)
        shape = np.ones((r.size, angle.size))
        parts.append(
            [
                (r[:, None] * np.cos(angle)),
                (r**2)[:, None] * shape,
                own * shape,
                (w * r / 48 * 2 / 4)[:, None] * shape,
            ]
        )
    return tuple(np.concatenate([part[i].ravel() for part in parts]) for i in range(4))  # type: ignore[return-value]


def disk(rng: np.random.Generator, quick: bool, flat: bool = True) -> CheckOutcome:
    """`exa:linear-quadratic-l1-l2`: interior losses on a disk and the ring around it, for M = 10, 100, ... experts.

    Checks that the best linear gate found numerically stays above the bound C_L for every M, and that the loss of the
    proof's quadratic gate stays below its bound and falls as fast as it. With flat = False the "linear" gate is given
    the squared radius instead of x_1, and the check must fail.
    """
    margin, curvature, counts = 0.25, 0.9, 10.0 ** np.arange(1, 6 if quick else 10)
    x, square, own, w = _disk(margin)
    linear, quadratic, bounds = [], [], []
    for M in counts:
        idle, scale = np.log(M - 2), np.log(M)
        feature = x if flat else square

        def loss(p: Floats, scale: float = scale, idle: float = idle, feature: Floats = feature) -> float:
            s = scale * p
            return assignment_loss(s[0] * feature + s[1], s[2] * feature + s[3], s[4] + 0 * x, idle, own, w)

        starts = [rng.uniform(-1, 1, 5) for _ in range(3 if quick else 8)]
        linear.append(_least(loss, [np.array([0, 0.5, 0, 1.0, -1]), np.array([-0.5, 0.5, 0.5, 0, -1]), *starts]))
        a, b = curvature * scale, 0.5 * (1 - curvature) * scale
        quadratic.append(assignment_loss(b + a * (1 - square), b - a * (1 - square), -scale + 0 * x, idle, own, w))
        bounds.append(theory.disk_quadratic_loss(int(M), 1.0, 2.0, margin, curvature))
    floor = theory.disk_linear_floor(1.0, 2.0, margin)
    rate, promised = -slope(counts, quadratic), -slope(counts, bounds)
    figure = f"linear at least {min(linear):.4f}, C_L {floor:.4f}; quadratic M^-{rate:.2f}, bound 8 M^-{promised:.2f}"
    met = min(linear) >= floor and bool((np.array(quadratic) <= bounds).all()) and rate >= promised - 0.02
    return CheckOutcome(figure, met)


def oscillation(
    rng: np.random.Generator, quick: bool, width: Callable[[float], float] = lambda M: 0.025 / np.sqrt(np.log(M))
) -> CheckOutcome:
    """Checks the squared error of M local linear experts mixed by the proof's softmax gate.

    It must fall like (log M)^-2 as M grows, grow like L^4 with the frequency L of the truth, and stay bounded for
    very large L.
    """
    x = np.sort(rng.uniform(0, 1, 300 if quick else 1000))
    counts = np.geomspace(400, 4000 if quick else 30_000, 5).astype(int)
    smooth = [_line_error(x, int(M), width(float(M)), 0.0, 0.0) for M in counts]
    waves = np.array([1.0, 2.0, 3.0, 4.0])
    rough = [_line_error(x, 1000, width(1000.0), 1.0, L) for L in waves]
    far = _line_error(x, 1000, width(1000.0), 1.0, 150.5)
    by_log, by_wave = slope(np.log(counts), smooth), slope(waves, rough)
    figure = f"exponent in log M {by_log:.3f}; in L {by_wave:.3f}, but error {far:.2f} at L = 150, near A^2/2"
    return CheckOutcome(figure, abs(by_log + 2) < 0.12 and abs(by_wave - 4) < 0.25 and far < 2)


def _line_error(x: Floats, M: int, tau: float, amplitude: float, frequency: float) -> float:
    centers, omega = (np.arange(M) + 0.5) / M, 2 * np.pi * frequency
    log_weight = -0.5 * ((x[:, None] - centers) / tau) ** 2
    weights = np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    level = amplitude * np.sin(omega * centers) + centers**2
    tilt = amplitude * omega * np.cos(omega * centers) + 2 * centers
    prediction = weights @ (level - tilt * centers) + x * (weights @ tilt)
    return float(((prediction - amplitude * np.sin(omega * x) - x**2) ** 2).mean())


CHECKS = (
    Check(
        "ex:L1-L2",
        "least global loss of softmax at a threshold",
        "(log M)^-1 +- 0.06; between both bounds",
        threshold_global,
    ),
    Check(
        "ex:L1-L2", "loss away from the threshold; Top-1", "M^(-c rho), c >= 2; <= bound; Top-1 0", threshold_interior
    ),
    Check(
        "exa:linear-quadratic-l1-l2", "interior losses on the disk", "linear >= C_L; quadratic <= 8 M^-alpha", disk
    ),
    Check(
        "exa:role-shared-routed-expert",
        "error of local lines over M and L",
        "(log M)^-2 +- 0.12; L^4 +- 0.25",
        oscillation,
    ),
)
