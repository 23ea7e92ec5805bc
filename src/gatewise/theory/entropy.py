"""How large the classes are: covering and packing numbers in the sup norm and in L2 (`thm:metric_entropy`)."""

from math import ceil, exp, floor, log, log10

from gatewise.arrays import as_between, as_count, as_dimension, as_non_negative, as_positive, within_floats

MOST_DIGITS = 100_000


def constant_covering(epsilon: float, radius: float) -> int:
    """N(eps) of the constants in [-R, R]: max(1, ceil(R / eps)) closed balls (`thm:metric_entropy`, part (i)).

    True for every eps > 0, not only up to 2R. Open balls need floor(R / eps) + 1, one more where eps divides R.

    >>> constant_covering(0.25, radius=1.0), constant_covering(9.0, radius=1.0)
    (4, 1)
    """
    # A quotient such as 3 / 0.1 is a whole number up to rounding and must not count one ball too many.
    return max(1, ceil(as_positive(radius, "radius") / as_positive(epsilon, "epsilon") * (1 - 1e-12)))


def softmax_dimension(n_experts: int, d: int) -> int:
    """M + (M - 1)(d + 1), the number of free parameters of M constants behind a linear softmax gate.

    It is the coefficient of log(1 / eps) in the upper bound of `thm:metric_entropy`, part (ii).

    >>> softmax_dimension(3, d=2)
    9
    """
    n_experts = as_count(n_experts, "n_experts")
    return n_experts + (n_experts - 1) * (as_dimension(d) + 1)


def softmax_covering(
    epsilon: float, n_experts: int, d: int, radius: float, box: float, sensitivity: float = 4.0
) -> int:
    """How many balls of radius eps are enough for the dense softmax class (`thm:metric_entropy`, part (ii)).

    ceil(3R/eps) ceil(6R/eps)^(M-1) ceil(12 s R d C1/eps)^((M-1)d) ceil(12 s R C1/eps)^(M-1), experts in [-R, R],
    scores in the box of C1. s = ``sensitivity`` bounds |h - h'| <= s R max|z - z'| for scores z: the proof has s = 4
    (whence its 48); s = 1 is true as well, since the softmax map is 1-Lipschitz from the sup norm to the sum norm.
    The centres of these balls need not lie in the class.

    >>> softmax_covering(1.0, n_experts=2, d=1, radius=1.0, box=1.0)
    41472
    """
    eps, R = as_positive(epsilon, "epsilon"), as_positive(radius, "radius")
    scores = 12 * as_positive(sensitivity, "sensitivity") * R * as_positive(box, "box") / eps
    rest, d = as_count(n_experts, "n_experts") - 1, as_dimension(d)
    digits = rest * (log10(6 * R / eps + 1) + (d + 1) * log10(scores * d + 1))
    if digits > MOST_DIGITS:
        raise ValueError(f"the number of balls has about {digits:.3g} digits; it is computed up to {MOST_DIGITS:,}")
    values = ceil(3 * R / eps) * ceil(6 * R / eps) ** rest
    return int(values * ceil(scores * d) ** (rest * d) * ceil(scores) ** rest)


def softmax_packing(epsilon: float, n_experts: int, d: int, radius: float, box: float) -> int:
    """How many functions of the dense softmax class lie 3 eps apart, so that N(eps) is at least this.

    (floor(2 R m C1 / (3 eps)) + 1)^(d+1), m the least slope of the logistic function on [-T, T],
    T = 2 (d + 1) C1 + log(M - 1) (`thm:metric_entropy`, part (ii)).

    >>> softmax_packing(0.001, n_experts=2, d=1, radius=1.0, box=1.0)
    144
    """
    n_experts, d = as_count(n_experts, "n_experts", low=2), as_dimension(d)
    R, C1 = as_positive(radius, "radius"), as_positive(box, "box")
    slope = least_slope(2 * (d + 1) * C1 + log(n_experts - 1))
    return int((floor(2 * R * slope * C1 / (3 * as_positive(epsilon, "epsilon"))) + 1) ** (d + 1))


def least_slope(reach: float) -> float:
    """The least derivative of the logistic function on [-T, T]: e^-T / (1 + e^-T)^2.

    >>> least_slope(0.0)
    0.25
    """
    return exp(-reach) / (1 + exp(-reach)) ** 2


def topk_separation(n_experts: int, k: int, radius: float, swaps: int = 1) -> float:
    """How far apart uncountably many Top-K functions lie: 2 R j / K when j = ``swaps`` experts change places at once.

    `thm:metric_entropy`, part (iii), has j = 1 and concludes N(eps) = infinity up to eps = R / K. Any j up to
    min(K, M - K) is possible, and with M >= 2K the class is not totally bounded below eps = R, where one ball is
    enough. At j = K the distance is 2 R exactly, so that eps = R itself (K = 1 of the theorem) is excluded.

    >>> topk_separation(8, k=4, radius=1.0), topk_separation(8, k=4, radius=1.0, swaps=4)
    (0.5, 2.0)
    """
    n_experts = as_count(n_experts, "n_experts", low=2)
    k = as_count(k, "k", high=n_experts - 1)
    swaps = as_count(swaps, "swaps", high=min(k, n_experts - k))
    return 2 * as_positive(radius, "radius") * swaps / k


@within_floats
def topk_log_covering(
    eta: float, n_experts: int, d: int, separation: float, phi_order: float = 0.0, constant: float = 1.0
) -> float:
    """log N(eta) of the Top-K gates in L2(P_X): at most D log(C M^(5/2 + 2l) d log M / (eta^2 r)).

    D = (M - 1)(d + 1), r = ``separation`` of the slopes, l = ``phi_order`` of `ass:regular gating` (0 for softmax).
    C stands inside the power: it costs D log C, which is O(1) only while M and d are fixed.
    See `remark:topk-l2-covering`.

    >>> round(topk_log_covering(0.1, n_experts=4, d=2, separation=0.5), 1)
    88.1
    """
    n_experts, d = as_count(n_experts, "n_experts", low=2), as_dimension(d)
    r, order = as_between(separation, "separation", 0.0, 1.0), as_non_negative(phi_order, "phi_order")
    top = as_positive(constant, "constant") * n_experts ** (2.5 + 2 * order) * d * log(n_experts)
    return (n_experts - 1) * (d + 1) * log(top / (as_positive(eta, "eta") ** 2 * r))
