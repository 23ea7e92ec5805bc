"""Hard selection against soft mixing, region by region (section `subsec:regionwise`), and the stability of Top-K."""

from collections.abc import Sequence
from math import exp, log, sqrt

from gatewise.arrays import as_between, as_count, as_dimension, as_non_negative, as_positive, within_floats
from gatewise.theory.learning_cost import dense_cost, oracle_risk, sparse_cost


def topk_modulus(
    distance: float,
    n_experts: int,
    separation: float,
    input_norm: float,
    density: float,
    lipschitz: float = 0.5,
) -> float:
    """How far in L2(P_X) two Top-K gates can be: sqrt(sqrt(2) R_X (delta / r) {L + C4 M (M - 1)}) (`pro:continuity`).

    The proof with its constants written out, for phi of order l = 0. delta = ``distance`` of the parameters,
    r = ``separation`` of the slopes of one of them, R_X = ``input_norm`` >= |(x, 1)|, C4 = ``density`` with
    P(|a.X + b| <= t) <= C4 t for unit a, L = ``lipschitz`` of phi (1/2 for softmax and sigmoid). No K enters, and
    delta <= 1 is not needed.

    >>> round(topk_modulus(1e-4, n_experts=3, separation=0.5, input_norm=1.5, density=2.0), 4)
    0.0728
    """
    M = as_count(n_experts, "n_experts", low=2)
    bands = as_positive(density, "density") * M * (M - 1)
    ratio = as_non_negative(distance, "distance") / as_between(separation, "separation", 0.0, 1.0)
    return sqrt(
        sqrt(2) * as_positive(input_norm, "input_norm") * ratio * (as_positive(lipschitz, "lipschitz") + bands)
    )


def feasible_separation(slope_gap: float, n_experts: int, d: int, constant: float = 1.0) -> float:
    """The slope separation up to which Top-1 realises M_0 regions: r = c min(r_0, M^(-1/d)) (`cor:Top1-single`).

    r_0 = ``slope_gap`` between the regions' normalised scores. M^(-1/d) is the room that the idle experts need.

    >>> feasible_separation(0.5, n_experts=16, d=2)
    0.25
    """
    room = float(as_count(n_experts, "n_experts") ** (-1 / as_dimension(d)))
    return as_positive(constant, "constant") * min(as_positive(slope_gap, "slope_gap"), room)


def top1_risk(
    specialist_errors: Sequence[float],
    n_experts: int,
    d: int,
    n: int,
    separation: float,
    expert_error: float = 0.0,
    constant: float = 1.0,
) -> float:
    """C {sum_r |f_0 - f_r|^2 over region r + sparse cost} for linearly separable regions (`cor:Top1-single`).

    Assumes r at most `feasible_separation`.

    >>> round(top1_risk([0.01, 0.02], n_experts=4, d=2, n=1000, separation=0.25), 3)
    0.113
    """
    regional = sum(as_non_negative(error, "specialist_errors") for error in specialist_errors)
    return oracle_risk(regional, sparse_cost(n_experts, d, n, separation, expert_error), constant)


def top1_barrier(mixture_errors: Sequence[float], advantages: Sequence[float]) -> float:
    """What no Top-1 gate goes below: the two-expert errors plus the advantages, summed over regions.

    ``advantages`` are the delta_r: pointwise best single expert minus best two-expert mixture, both integrated over
    region r (`prop: Top-1 mixing`).

    >>> top1_barrier([0.0, 0.1], [0.25, 0.5])
    0.85
    """
    if len(mixture_errors) != len(advantages):
        raise ValueError(f"advantages must have one entry per region, {len(mixture_errors)}, not {len(advantages)}")
    return float(sum(as_non_negative(e, "mixture_errors") for e in mixture_errors) + sum(advantages))


def top1_risk_floor(barrier: float, n_experts: int, expert_error: float, constant: float = 1.0) -> float:
    """[sqrt(barrier) - C sqrt(M a^2)]_+^2, below which no Top-1 estimator's risk falls (`prop: Top-1 mixing`).

    >>> top1_risk_floor(0.25, n_experts=4, expert_error=0.01)
    0.09
    """
    drift = as_positive(constant, "constant") * sqrt(
        as_count(n_experts, "n_experts") * as_non_negative(expert_error, "expert_error")
    )
    return max(0.0, sqrt(as_non_negative(barrier, "barrier")) - drift) ** 2


def soft_assignment_error(
    n_regions: int, n_experts: int, margin_density: float, input_norm: float, box: float = 3.0
) -> float:
    """How near dense softmax comes to hard regions: 2 (M_0 - 1) L / t + 2 M^(-(C - 2)/2).

    t = C log(M) / (4 B), C = ``box`` > 2, B = ``input_norm`` >= max(1, |(x, 1)|), L = ``margin_density`` bounds the
    density of the margin within each region. The order is M_0 / log M. The paper's last term has a factor M_0 that
    its own argument does not need, and its display for the idle experts lacks a minus sign
    (`prop:supp-linear-no-margin`).

    >>> round(soft_assignment_error(2, n_experts=1000, margin_density=1.0, input_norm=1.5), 3)
    0.642
    """
    return _soft_error(2.0, n_regions, n_experts, margin_density, input_norm, box)


@within_floats
def soft_mixture_error(
    n_regions: int,
    n_experts: int,
    margin_density: float,
    input_norm: float,
    log_weight: float,
    box: float = 3.0,
) -> float:
    """The same for a mixture of two experts per region, with 2 (1 + e^(2 C_w)) in place of the first 2.

    C_w = ``log_weight`` bounds |log w| over all weights. Assumes M >= 2 M_0 (`prop:supp-linear-top2-no-margin`).

    >>> round(soft_mixture_error(2, 10**6, margin_density=1.0, input_norm=1.5, log_weight=0.7), 2)
    1.47
    """
    if n_experts < 2 * n_regions:
        raise ValueError(f"n_experts must be at least 2 n_regions = {2 * n_regions}, not {n_experts}")
    factor = 2 * (1 + exp(2 * as_positive(log_weight, "log_weight")))
    return _soft_error(factor, n_regions, n_experts, margin_density, input_norm, box)


def _soft_error(
    factor: float, n_regions: int, n_experts: int, margin_density: float, input_norm: float, box: float
) -> float:
    regions = as_count(n_regions, "n_regions", low=2)
    M = as_count(n_experts, "n_experts", low=regions)
    if as_positive(box, "box") <= 2:
        raise ValueError(f"box must be above 2, not {box!r}: the idle experts' weights would not vanish")
    scale = box * log(M) / (4 * max(1.0, as_positive(input_norm, "input_norm")))
    bands = factor * (regions - 1) * as_positive(margin_density, "margin_density") / scale
    return float(bands + 2 * M ** (-(box - 2) / 2))


def dense_regional_risk(
    regional_errors: Sequence[float],
    n_experts: int,
    d: int,
    n: int,
    expert_error: float = 0.0,
    constant: float = 1.0,
) -> float:
    """C {regional errors + dense cost + M_0 / log M}, dense softmax on linearly separable regions.

    ``regional_errors`` are those of the specialists (`cor:supp-example-softmax-upper1`) or of the best two-expert
    mixtures (`cor:supp-example-softmax-upper2`).

    >>> round(dense_regional_risk([0.01, 0.02], n_experts=100, d=2, n=10**6), 3)
    0.468
    """
    M = as_count(n_experts, "n_experts", low=2)
    regional = sum(as_non_negative(error, "regional_errors") for error in regional_errors)
    return oracle_risk(regional, dense_cost(M, d, n, expert_error) + len(regional_errors) / log(M), constant)
