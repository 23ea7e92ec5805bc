"""Section 6 checked: a linear trend shared by two regions whose learners know Fourier modes only."""

from collections.abc import Callable

import numpy as np

from gatewise import theory
from gatewise.arrays import Floats
from gatewise.paper.verify.check import Check, CheckOutcome, slope

ORDER, TREND, NOISE = 2, 4.0, 0.5
COEFFICIENTS = np.array([[0.3, 0.8, -0.5, 0.4, 0.3], [-0.2, 0.5, 0.6, -0.4, 0.2]])  # of 1, sin, cos, sin, cos


def fourier(t: Floats, order: int) -> Floats:
    """1 and sqrt(2) sin, sqrt(2) cos up to the order, orthonormal on [0, 1], (n, 2K + 1)."""
    angle = 2 * np.pi * np.arange(1, order + 1) * t[:, None]
    waves = np.sqrt(2) * np.stack([np.sin(angle), np.cos(angle)], axis=2).reshape(len(t), -1)
    return np.column_stack([np.ones(len(t)), waves])


def ramp_coefficients(order: int) -> Floats:
    """The ramp t on that basis: 1/2, then -1 / (sqrt(2) pi k) at the sines and 0 at the cosines."""
    sines = -1 / (np.sqrt(2) * np.pi * np.arange(1, order + 1))
    return np.concatenate([[0.5], np.column_stack([sines, np.zeros(order)]).ravel()])


def _squared_norm(on_ramp: float, on_basis: Floats) -> float:
    """|a t + sum_l b_l phi_l|^2 on [0, 1]: exact, since <t, t> = 1/3 and the basis is orthonormal."""
    order = (on_basis.size - 1) // 2
    return float(on_ramp**2 / 3 + 2 * on_ramp * ramp_coefficients(order) @ on_basis + on_basis @ on_basis)


def _branch(region: int, order: int) -> Floats:
    """H_j without its ramp TREND t / 2, on the basis up to the order."""
    coefficients = np.zeros(2 * order + 1)
    coefficients[: 2 * ORDER + 1] = COEFFICIENTS[region]
    coefficients[0] += TREND * region / 2
    return coefficients


def _sample(region: int, size: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    t = rng.uniform(size=size)
    signal = TREND * t / 2 + fourier(t, ORDER) @ _branch(region, ORDER)
    return t, signal + NOISE * rng.normal(size=size)


def routed_risks(n: int, orders: list[int], rng: np.random.Generator, trend_known: bool) -> Floats:
    """The squared error of least squares on Fourier modes in each region, for every order."""
    m = rng.binomial(n, 0.5)
    risks = np.zeros(len(orders))
    for region, size in enumerate((m, n - m)):
        t, y = _sample(region, size, rng)
        design = np.column_stack([t, fourier(t, max(orders))])
        gram, moments = design.T @ design, design.T @ y
        for i, order in enumerate(orders):
            used = np.arange(0 if trend_known else 1, 2 * order + 2)
            fit = np.zeros(2 * order + 2)
            fit[used] = np.linalg.solve(gram[np.ix_(used, used)], moments[used])
            risks[i] += 0.5 * _squared_norm(fit[0] - TREND / 2, fit[1:] - _branch(region, order))
    return risks


def shared_risk(n: int, rng: np.random.Generator) -> float:
    """The squared error of joint least squares on the trend and both regions' modes."""
    m = rng.binomial(n, 0.5)
    width = 2 * ORDER + 1
    designs, responses = [], []
    for region, size in enumerate((m, n - m)):
        t, y = _sample(region, size, rng)
        waves = np.zeros((size, 2 * width))
        waves[:, region * width : (region + 1) * width] = fourier(t, ORDER)
        designs.append(np.column_stack([(t + region) / 2, waves]))
        responses.append(y)
    design = np.vstack(designs)
    fit = np.linalg.solve(design.T @ design, design.T @ np.concatenate(responses))
    total = 0.0
    for region in (0, 1):
        found = fit[1 + region * width : 1 + (region + 1) * width].copy()
        found[0] += fit[0] * region / 2
        total += 0.5 * _squared_norm((fit[0] - TREND) / 2, found - _branch(region, ORDER))
    return total


def _risk_tables(rng: np.random.Generator, quick: bool, trend_known: bool) -> tuple[Floats, Floats, Floats]:
    sizes = np.array([200, 400, 800, 1600, 3200] if quick else [200, 400, 800, 1600, 3200, 6400, 12_800])
    reps = 10 if quick else 60
    shared, routed = [], []
    for n in sizes:
        centre = TREND * np.sqrt(n / 2) / (4 * np.pi * NOISE)
        orders = sorted({ORDER, *(max(ORDER, round(centre * f)) for f in (0.5, 0.7, 1.0, 1.4))})
        shared.append(np.mean([shared_risk(int(n), rng) for _ in range(4 * reps)]))
        routed.append(np.mean([routed_risks(int(n), orders, rng, trend_known) for _ in range(reps)], axis=0).min())
    return sizes, np.array(shared), np.array(routed)


def fourier_slopes(rng: np.random.Generator, quick: bool, trend_known: bool = False) -> CheckOutcome:
    """Risks with and without the shared trend over n, the routed order being the best of each n."""
    sizes, shared, routed = _risk_tables(rng, quick, trend_known)
    fast, slow = slope(sizes, shared), slope(sizes, routed)
    floor = [theory.fourier_branch_risk(n / 2, TREND, NOISE) for n in sizes]
    figure = f"exponents {fast:.3f} shared, {slow:.3f} routed; routed / floor {float((routed / floor).min()):.2f}"
    return CheckOutcome(figure, abs(fast + 1) < 0.12 and abs(slow + 0.5) < 0.1)


def rate_gap(rng: np.random.Generator, quick: bool, trend_known: bool = False) -> CheckOutcome:
    """Checks that (risk without the shared trend) / (risk with it) grows with n like the quotient of their rates."""
    sizes, shared, routed = _risk_tables(rng, quick, trend_known)
    profiles = theory.RateProfile(1.0, 1.0), theory.RateProfile(1.0, 0.5)
    wins = theory.shared_wins(profiles[0], (profiles[0],) * 2, (profiles[1],) * 2)
    rate = slope(sizes, routed / shared)
    figure = f"routed / shared from {routed[0] / shared[0]:.2f} to {routed[-1] / shared[-1]:.2f}, exponent {rate:.3f}"
    return CheckOutcome(figure, abs(rate - 0.5) < 0.15 and wins and routed[-1] > shared[-1])


def joint_sieve(rng: np.random.Generator, quick: bool, dimension: int = 11) -> CheckOutcome:
    """n risk / sigma^2 of joint least squares at a large n: the dimension of the additive class."""
    n = 2000
    risk = np.mean([shared_risk(n, rng) for _ in range(150 if quick else 1500)])
    scaled = float(risk * n / NOISE**2)
    return CheckOutcome(f"n risk / sigma^2 = {scaled:.2f}, dimension {dimension}", abs(scaled / dimension - 1) < 0.15)


def _series(t: Floats, y: Floats, order: int) -> Floats:
    return np.asarray(fourier(t, order).T @ y / t.size)


def series_floor(
    rng: np.random.Generator, quick: bool, estimate: Callable[[Floats, Floats, int], Floats] = _series
) -> CheckOutcome:
    """Checks that the risk of the orthogonal-series estimator of a ramp is at least tail + sigma^2 (2K + 1) / m."""
    ratios, ramp, reps = [], 0.4, 300 if quick else 3000
    for order in (1, 4, 16):
        m, exact = 200, ramp * ramp_coefficients(order)
        floor = ramp**2 * theory.fourier_tail(order) + NOISE**2 * (2 * order + 1) / m
        risks = []
        for _ in range(reps):
            t = rng.uniform(size=m)
            found = estimate(t, ramp * t + NOISE * rng.normal(size=m), order)
            risks.append(float(((found - exact) ** 2).sum()) + ramp**2 * theory.fourier_tail(order))
        ratios.append((np.mean(risks) + 3 * np.std(risks) / np.sqrt(reps)) / floor)
    return CheckOutcome(f"risk / floor {min(ratios):.3f} (mean + 3 standard errors)", min(ratios) >= 1)


CHECKS = (
    Check(
        "ex:fourier-x-sin-cos",
        "risk with and without the shared trend over n",
        "n^-1 +- 0.12 and n^-1/2 +- 0.1",
        fourier_slopes,
    ),
    Check("prop:procedure-shared", "quotient of the two risks over n", "n^1/2 +- 0.15", rate_gap),
    Check(
        "prop:supp-joint-shared-upper", "risk of joint least squares", "sigma^2 dimension / n +- 15 %", joint_sieve
    ),
    Check(
        "lem:supp-fourier-sieve-lower",
        "risk of the orthogonal-series estimator",
        ">= tail + sigma^2 (2K+1)/m",
        series_floor,
    ),
)
