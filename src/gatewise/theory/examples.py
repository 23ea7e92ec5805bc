"""The paper's worked examples: softmax at a threshold, a disk, an oscillation with a shared expert.

Beside each bound stands the loss of the gate of its proof, by quadrature, as a function ``..._gate_loss``.
"""

from collections.abc import Callable
from math import ceil, exp, log, pi

import numpy as np
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.special import expit, logsumexp, softmax

from gatewise.arrays import as_between, as_count, as_finite, as_non_negative, as_positive, Floats, within_floats

MOST_PANELS = 100_000  # of a quadrature
MOST_CENTERS = 4000  # more lines than these are told from these: their kernels overlap by far


def threshold_loss(n_experts: int, box: float = 1.0) -> tuple[float, float]:
    """Lower and upper bound on the global loss of softmax at a threshold on [-1, 1] (`ex:L1-L2`).

    (1 - e^(-2L)) / (16 L) with L = 2 C log M, and 3 / (C log M); every coefficient lies within C log M, C > 1/2.
    The upper bound assumes (M - 2) M^(-2C) <= 1.

    >>> [round(value, 4) for value in threshold_loss(1000)]
    [0.0045, 0.4343]
    """
    M, reach = as_count(n_experts, "n_experts", low=3), as_between(box, "box", 0.5, float("inf"))
    scale = 2 * reach * log(M)
    return (1 - exp(-2 * scale)) / (16 * scale), 3 / (reach * log(M))


def threshold_interior_loss(n_experts: int, margin: float, box: float = 1.0) -> float:
    """Upper bound on the loss farther than rho from the threshold: 3 M^(-2 C rho) / (C log M) (`ex:L1-L2`).

    >>> round(threshold_interior_loss(1000, margin=0.1), 4)
    0.1091
    """
    M, reach = as_count(n_experts, "n_experts", low=3), as_between(box, "box", 0.5, float("inf"))
    return float(3 / (reach * log(M)) * M ** (-2 * reach * as_between(margin, "margin", 0.0, 1.0)))


def threshold_gate_loss(n_experts: int, margin: float = 0.0, box: float = 1.0) -> float:
    """The loss of the proof's softmax gate farther than rho = ``margin`` from the threshold, exactly (`ex:L1-L2`).

    Scores B -+ B x of the two specialists with B = C log M, 0 of the reference and -B of the M - 3 idle experts;
    x is uniform on [-1, 1]. With margin 0 it is the global loss.

    >>> round(threshold_gate_loss(1000), 4), round(threshold_gate_loss(1000, margin=0.1), 5)
    (0.028, 0.00339)
    """
    M, reach = as_count(n_experts, "n_experts", low=3), as_between(box, "box", 0.5, float("inf"))
    rho, B = as_between(margin, "margin", -1e-300, 1.0), reach * log(M)

    def missed(x: float) -> float:
        return _missed(B + B * x, B - B * x, -B, M)

    return float(quad(missed, rho, 1.0, points=[min(1.0, rho + 1 / B)], epsrel=1e-10)[0])  # both sides, density 1/2


def _missed(right: float, wrong: float, idle: float, n_experts: int) -> float:
    """|g - e_own|^2 for the scores of the right and the wrong specialist, a reference and M - 3 idle experts."""
    n_idle = n_experts - 3
    scores = np.array([right, wrong, 0.0, idle])
    counts = np.array([1.0, 1.0, 1.0, float(max(n_idle, 0))])  # M may exceed what an array of integers holds
    total = logsumexp(scores, b=counts)
    weights = np.exp(scores - total)
    return float(np.expm1(right - total) ** 2 + weights[1] ** 2 + weights[2] ** 2 + counts[3] * weights[3] ** 2)


def _check_disk(inner: float, outer: float, margin: float) -> None:
    as_between(inner, "inner", 0.0, as_positive(outer, "outer"))
    as_between(margin, "margin", 0.0, min(inner, outer - inner))


def disk_linear_floor(inner: float, outer: float, margin: float) -> float:
    """C_L, below which no linear softmax gate's interior loss falls on a disk with a ring.

    min{(R_1 - rho)^2, R_2^2 - (R_1 + rho)^2} / (8 R_2^2): inner radius R_1, outer R_2, margin rho, X uniform. The
    ring is shrunk at the inner circle only: boundaries are relative to the input space.
    See `exa:linear-quadratic-l1-l2`.

    >>> disk_linear_floor(inner=1.0, outer=2.0, margin=0.5)
    0.0078125
    """
    _check_disk(inner, outer, margin)
    return min((inner - margin) ** 2, outer**2 - (inner + margin) ** 2) / (8 * outer**2)


def disk_linear_gate_loss(inner: float, outer: float, margin: float) -> float:
    """The least interior loss of a linear softmax gate on the disk, to quadrature (`exa:linear-quadratic-l1-l2`).

    Least over slope a and level c of 2 E {sigma(c + a x_1)^2 inside, sigma(-c - a x_1)^2 in the ring}, the weights of
    the wrong specialist; idle experts have no weight, as they may where M is large. `disk_linear_floor` bounds it.

    >>> round(disk_linear_gate_loss(inner=1.0, outer=2.0, margin=0.25), 4)
    0.2285
    """
    _check_disk(inner, outer, margin)
    angle = pi * (np.arange(64) + 0.5) / 64  # half of the circle: the other half is its mirror image
    parts = []
    for low, high, sign in ((0.0, inner - margin, 1.0), (inner + margin, outer, -1.0)):
        r, mass = _panels(low, high, 1)
        parts.append((sign, np.outer(r, np.cos(angle)), 2 * r * mass / outer**2 / len(angle)))

    def loss(p: Floats) -> float:
        return float(sum(2 * mass @ (expit(sign * (p[1] + p[0] * x)) ** 2).sum(axis=1) for sign, x, mass in parts))

    even = log((outer**2 - (inner + margin) ** 2) / (inner - margin) ** 2)  # the best constant weights
    starts = [(a / inner, c) for a in (0.0, 1.0, 4.0) for c in (even, 0.0, 4.0 * a)]
    return min(float(minimize(loss, start, method="Nelder-Mead", options={"xatol": 1e-6}).fun) for start in starts)


def _panels(low: float, high: float, n_panels: int) -> tuple[Floats, Floats]:
    """Nodes and weights of the rule with 24 nodes on every one of n equal panels of [low, high]."""
    x, w = np.polynomial.legendre.leggauss(24)
    width = (high - low) / n_panels
    left = low + width * np.arange(n_panels)[:, None]
    return np.asarray((left + width * (x + 1) / 2).ravel()), np.tile(w * width / 2, n_panels)


@within_floats
def disk_curvature_limit(inner: float, box: float) -> float:
    """The c_0 below which the quadratic gate of the disk fits the box: min{(2C - 1)/R_1^2, C/R_1^2, C}.

    >>> disk_curvature_limit(inner=1.0, box=1.0)
    1.0
    """
    reach, square = as_between(box, "box", 0.5, float("inf")), as_positive(inner, "inner") ** 2
    return min((2 * reach - 1) / square, reach / square, reach)


def disk_quadratic_loss(
    n_experts: int, inner: float, outer: float, margin: float, curvature: float, box: float = 1.0
) -> float:
    """8 M^(-alpha), alpha = 2 c_0 (2 R_1 rho - rho^2), which a quadratic gate attains (`exa:linear-quadratic-l1-l2`).

    c_0 = ``curvature`` must be below `disk_curvature_limit`.

    >>> round(disk_quadratic_loss(1000, inner=1.0, outer=2.0, margin=0.5, curvature=0.9), 5)
    0.00071
    """
    _check_disk(inner, outer, margin)
    c_0 = as_between(curvature, "curvature", 0.0, disk_curvature_limit(inner, box))
    return float(8 * as_count(n_experts, "n_experts", low=3) ** (-2 * c_0 * (2 * inner * margin - margin**2)))


def disk_quadratic_gate_loss(
    n_experts: int, inner: float, outer: float, margin: float, curvature: float, box: float = 1.0
) -> float:
    """The interior loss of the proof's quadratic gate on the disk, exactly (`exa:linear-quadratic-l1-l2`).

    Scores b +- c_0 log(M) (R_1^2 - |x|^2) of the two specialists, 0 of the reference and -C log M of the idle
    experts, b as large as the box allows; X is uniform on the disk of radius R_2. `disk_quadratic_loss` bounds it.

    >>> round(disk_quadratic_gate_loss(1000, inner=1.0, outer=2.0, margin=0.5, curvature=0.9), 6)
    2e-06
    """
    _check_disk(inner, outer, margin)
    c_0 = as_between(curvature, "curvature", 0.0, disk_curvature_limit(inner, box))
    M = as_count(n_experts, "n_experts", low=3)
    reach, bend = box * log(M), c_0 * log(M)
    level = reach - bend * inner**2

    def density(r: float, own: int) -> float:
        tilt = bend * (inner**2 - r**2)
        right, wrong = (level + tilt, level - tilt) if own == 0 else (level - tilt, level + tilt)
        return 2 * r / outer**2 * _missed(right, wrong, -reach, M)

    return _integral(density, 0, 0.0, inner - margin) + _integral(density, 1, inner + margin, outer)


def _integral(density: Callable[[float, int], float], own: int, low: float, high: float) -> float:
    return float(quad(density, low, high, args=(own,), epsrel=1e-10)[0])


def oscillation_curvature(amplitude: float, frequency: float) -> float:
    """sup |f''| of A sin(2 pi L x) + x^2: 4 pi^2 |A| L^2 + 2; with the sine in a shared expert, 2.

    >>> oscillation_curvature(0.0, 3.0)
    2.0
    """
    return 4 * pi**2 * abs(as_finite(amplitude, "amplitude")) * as_non_negative(frequency, "frequency") ** 2 + 2


def oscillation_risk(n_experts: int, amplitude: float, frequency: float, constant: float = 1.0) -> float:
    """C (sup |f''| / 2)^2 / log(M)^2: local lines behind a softmax gate (`exa:role-shared-routed-expert`).

    With A = 0 this is the case of the shared expert, O(1 / log^2 M); else O(L^4 / log^2 M). For the construction in
    the box of C_1 log M it is a bound with C = 1 / C_1^2. An upper bound: the error follows L^4 / log^2 M only while
    L^2 is far below C_1 log M, so with C_1 = 1 not at numbers of experts that exist (`gatewise verify` has the
    exponents there); beyond, the error stays near A^2 / 2.

    >>> round(oscillation_risk(1000, 1.0, 4.0) / oscillation_risk(1000, 0.0, 4.0))
    100380
    """
    scale = as_positive(constant, "constant") / log(as_count(n_experts, "n_experts", low=2)) ** 2
    return float(scale * (oscillation_curvature(amplitude, frequency) / 2) ** 2)


def oscillation_gate_loss(n_experts: int, amplitude: float, frequency: float, box: float = 1.0) -> float:
    """The squared error of M tangents of A sin(2 pi L x) + x^2 behind the proof's gate, to quadrature.

    The gate has the bandwidth tau = 1 / sqrt(C_1 log M) of the box of C_1 log M (`exa:role-shared-routed-expert`);
    x is uniform on [0, 1]. With A = 0 the sine is in the shared expert. `oscillation_risk` bounds it. Beyond 4,000
    experts 4,000 centres stand for all, which changes the error by less than (1 / (4000 tau))^2 of itself.

    >>> round(oscillation_gate_loss(1000, 0.0, 0.0), 5), round(oscillation_gate_loss(1000, 1.0, 4.0), 3)
    (0.00788, 0.49)
    """
    M, C = as_count(n_experts, "n_experts", low=3), as_positive(box, "box")
    precision = C * log(M)  # 1 / tau^2
    amplitude, omega = as_finite(amplitude, "amplitude"), 2 * pi * as_non_negative(frequency, "frequency")
    panels = max(4.0, frequency, 0.5 * precision**0.5)
    if panels > MOST_PANELS:
        raise ValueError(f"frequency and box are too large for the quadrature: {panels:g} panels")
    c = (np.arange(min(M, MOST_CENTERS)) + 0.5) / min(M, MOST_CENTERS)
    level, tilt = amplitude * np.sin(omega * c) + c**2, amplitude * omega * np.cos(omega * c) + 2 * c
    nodes, mass = _panels(0.0, 1.0, ceil(panels))
    total = 0.0
    for x, w in zip(np.array_split(nodes, len(mass) // 24), np.array_split(mass, len(mass) // 24), strict=True):
        weights = softmax(-0.5 * precision * (x[:, None] - c) ** 2, axis=1)  # (24, M)
        forecasts = weights @ (level - tilt * c) + x * (weights @ tilt)
        total += float(w @ (forecasts - amplitude * np.sin(omega * x) - x**2) ** 2)
    return total
