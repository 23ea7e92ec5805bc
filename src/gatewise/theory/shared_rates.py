"""What a shared expert changes: rate profiles of section `sec:shared` and the Fourier example."""

from collections.abc import Callable, Iterable
from math import inf, log, pi, sqrt
from typing import NamedTuple

from scipy.special import polygamma

from gatewise.arrays import as_between, as_count, as_non_negative, as_positive, within_floats


class RateProfile(NamedTuple):
    """A rate m -> scale * m^(-exponent); such rates are regular under rescaling, as `ass:learner-separation` asks.

    >>> RateProfile(scale=2.0, exponent=0.5)(100)
    0.2
    """

    scale: float
    exponent: float

    def __call__(self, m: float) -> float:
        return float(self.scale * as_positive(m, "m") ** (-self.exponent))


Rate = Callable[[float], float]


def shared_risk(n: int, share: float, shared: Rate, regions: tuple[Rate, Rate], constant: float = 1.0) -> float:
    """C {rho_S(n) + p_1 rho_1(n p_1) + p_2 rho_2(n p_2)}: with a shared expert (`prop:procedure-shared`).

    ``share`` is p_1 = P(X in region 1).

    >>> rate = RateProfile(1.0, 1.0)
    >>> shared_risk(100, 0.5, rate, (rate, rate))
    0.03
    """
    n, shares = as_count(n, "n"), _shares(share)
    parts = sum(p * rate(n * p) for p, rate in zip(shares, regions, strict=True))
    return as_positive(constant, "constant") * (shared(n) + parts)


def routed_risk_floor(n: int, share: float, branches: tuple[Rate, Rate], constant: float = 1.0) -> float:
    """c max{p_1 rho_1(n p_1), p_2 rho_2(n p_2)} with the branch rates: without one (`prop:procedure-shared`).

    >>> rate = RateProfile(1.0, 0.5)
    >>> routed_risk_floor(200, 0.5, (rate, rate))
    0.05
    """
    n = as_count(n, "n")
    worst = max(p * rate(n * p) for p, rate in zip(_shares(share), branches, strict=True))
    return as_positive(constant, "constant") * worst


def shared_wins(
    shared: RateProfile, regions: tuple[RateProfile, RateProfile], branches: tuple[RateProfile, ...]
) -> bool:
    """Whether the shared representation's rate is of smaller order: its slowest exponent beats the branches' slowest.

    >>> fast, slow = RateProfile(1.0, 1.0), RateProfile(1.0, 0.5)
    >>> shared_wins(fast, (fast, fast), (slow, slow))
    True
    """
    return min(shared.exponent, *(r.exponent for r in regions)) > min(r.exponent for r in branches)


def sieve_rate(m: float, noise: float, bias: Callable[[int], float], dimensions: Iterable[int]) -> float:
    """inf_K {A(K) + sigma^2 K / m}, the rate of sieve least squares (`prop:supp-joint-shared-upper`).

    >>> sieve_rate(100, 1.0, lambda k: 1.0 / k, range(1, 101))
    0.2
    """
    variance = as_positive(noise, "noise") ** 2 / as_positive(m, "m")
    return min((bias(k) + variance * k for k in dimensions), default=inf)


def fourier_tail(order: int) -> float:
    """What Fourier modes up to K leave of the ramp t on [0, 1]: sum_{k > K} 1 / (2 pi^2 k^2), about 1 / (2 pi^2 K).

    >>> round(fourier_tail(0) * 12, 12)
    1.0
    """
    return float(polygamma(1, as_count(order, "order", low=0) + 1) / (2 * pi**2))


@within_floats
def fourier_branch_risk(m: float, slope: float, noise: float) -> float:
    """min_K {(gamma / 2)^2 tail(K) + sigma^2 (2K + 1) / m}: a Fourier learner on a branch (`ex:fourier-x-sin-cos`).

    The least risk that `lem:supp-fourier-sieve-lower` leaves to the orthogonal-series estimator, over all orders
    K; it behaves like gamma sigma / (pi sqrt(m)), against sigma^2 / m for the shared representation.

    >>> round(fourier_branch_risk(10_000, 1.0, 1.0) * 100 * pi, 2)
    1.0
    """
    gamma, m = as_non_negative(slope, "slope"), as_positive(m, "m")
    variance = as_positive(noise, "noise") ** 2 / m
    best = int(gamma / (4 * pi * sqrt(variance))) if gamma else 0
    return min((gamma / 2) ** 2 * fourier_tail(k) + variance * (2 * k + 1) for k in range(max(0, best - 2), best + 3))


def rate_exponent(rate: Rate, low: float, high: float) -> float:
    """The exponent between two sample sizes: -log(rate(high) / rate(low)) / log(high / low).

    >>> rate_exponent(RateProfile(3.0, 0.5), 100, 10_000)
    0.5
    """
    ratio = log(rate(as_positive(high, "high")) / rate(as_between(low, "low", 0.0, high)))
    return -ratio / log(high / low)


def _shares(share: float) -> tuple[float, float]:
    return as_between(share, "share", 0.0, 1.0), 1.0 - share
