"""What it costs to learn a gate: oracle bounds, the meshes they prescribe and the candidates these imply."""

from collections.abc import Sequence
from math import ceil, log, sqrt

from gatewise.arrays import as_between, as_count, as_dimension, as_non_negative, as_positive, within_floats


def dense_cost(n_experts: int, d: int, n: int, expert_error: float = 0.0) -> float:
    """Learning cost of dense softmax gating: M a^2 + (M d / n) log(M d n) (`thm:softmax`).

    a^2 = ``expert_error`` is the sum of the experts' mean squared errors over the calibration and aggregation
    blocks. Assumes a parameter box of radius C1 log M, bounded experts, a fixed number of shared experts.

    >>> round(dense_cost(4, d=2, n=1000), 4)
    0.0719
    """
    M, d, n = as_count(n_experts, "n_experts"), as_dimension(d), as_count(n, "n")
    return M * as_non_negative(expert_error, "expert_error") + M * d / n * log(M * d * n)


@within_floats
def sparse_cost(n_experts: int, d: int, n: int, separation: float, expert_error: float = 0.0) -> float:
    """Learning cost of Top-K gating: the dense cost plus (M d / n) log(1 / r), r the slope separation (`thm:top-k`).

    >>> round(sparse_cost(4, d=2, n=1000, separation=0.1), 4)
    0.0903
    """
    price = (
        as_count(n_experts, "n_experts")
        * d
        / as_count(n, "n")
        * log(1 / as_between(separation, "separation", 0.0, 1.0))
    )
    return dense_cost(n_experts, d, n, expert_error) + price


def oracle_risk(approximation: float, cost: float, constant: float = 1.0) -> float:
    """C {approximation + cost}: a constant times the best gate's approximation error plus the cost of learning it.

    That is the form of the bounds of `thm:softmax` and `thm:top-k`. They say that C depends neither on n nor on M,
    and give no value for it.

    >>> round(oracle_risk(0.1, 0.02), 2)
    0.12
    """
    return as_positive(constant, "constant") * (
        as_non_negative(approximation, "approximation") + as_non_negative(cost, "cost")
    )


def fixed_experts_risk(approximation: float, n: int, expert_error: float = 0.0, constant: float = 1.0) -> float:
    """C_M {approximation + a^2 + log(n) / n}, the cross-entropy projection with M fixed (`remark:fixedM`).

    Assumes that no difference of gates is invisible through the experts; C_M may grow with M in any way.

    >>> round(fixed_experts_risk(0.0, n=1000), 5)
    0.00691
    """
    n = as_count(n, "n", low=2)
    return oracle_risk(approximation, as_non_negative(expert_error, "expert_error") + log(n) / n, constant)


def erm_cost(n_experts: int, d: int, n: int, expert_error: float = 0.0) -> float:
    """M a^2 + sqrt(M d log(M d n) / n), what uniform concentration gives ERM (`prop:supp-erm-subgaussian`).

    Larger than the cost of aggregation as soon as that is below one (`remark:ERM`).

    >>> round(erm_cost(4, d=2, n=1000), 3)
    0.268
    """
    M, d, n = as_count(n_experts, "n_experts"), as_dimension(d), as_count(n, "n")
    return M * as_non_negative(expert_error, "expert_error") + sqrt(M * d * log(M * d * n) / n)


def dense_mesh(n_experts: int, n: int, constant: float = 1.0) -> float:
    """The mesh that `thm:softmax` states: eta = C / (M sqrt(n)).

    Its proof takes C sqrt(M / n_3), see `dense_mesh_in_proof`: either gives the theorem's rate.

    >>> dense_mesh(4, n=10_000)
    0.0025
    """
    return as_positive(constant, "constant") / (as_count(n_experts, "n_experts") * sqrt(as_count(n, "n")))


def dense_mesh_in_proof(n_experts: int, n_aggregation: int, constant: float = 1.0) -> float:
    """The mesh in the proof of `thm:softmax`: eta = C sqrt(M / n_3).

    >>> dense_mesh_in_proof(4, n_aggregation=10_000)
    0.02
    """
    ratio = as_count(n_experts, "n_experts") / as_count(n_aggregation, "n_aggregation")
    return as_positive(constant, "constant") * sqrt(ratio)


@within_floats
def sparse_mesh(
    n_experts: int, d: int, n_aggregation: int, separation: float, phi_order: float = 0.0, constant: float = 1.0
) -> float:
    """The mesh of `thm:top-k`: eta = C sqrt(d) r / (n_3 M^(2 + 2l)).

    >>> sparse_mesh(2, d=4, n_aggregation=100, separation=0.5)
    0.0025
    """
    power = 2 + 2 * as_non_negative(phi_order, "phi_order")
    below = float(as_count(n_aggregation, "n_aggregation") * as_count(n_experts, "n_experts") ** power)
    scale = as_positive(constant, "constant") * sqrt(as_dimension(d))
    return scale * as_between(separation, "separation", 0.0, 1.0) / below


def log_candidates(n_experts: int, d: int, mesh: float, box: float = 1.0) -> float:
    """log S of the Euclidean net of that mesh: D log ceil(sqrt(D) C1 log(M) / eta), D = (M - 1)(d + 1).

    The box has radius C1 log M with C1 = ``box`` (`ass:compact-theta`); S is that of `gatewise.nets.eta_net`.

    >>> round(log_candidates(3, d=1, mesh=0.1), 2)
    12.36
    """
    M, params = as_count(n_experts, "n_experts", low=2), (n_experts - 1) * (as_dimension(d) + 1)
    per_axis = ceil(sqrt(params) * as_positive(box, "box") * log(M) / as_positive(mesh, "mesh"))
    return params * log(per_axis)


def selection_price(n_classes: int, n: int) -> float:
    """log(L) / n, the price of choosing among L gate classes (`thm:selection(global)`).

    >>> round(selection_price(3, n=1000), 6)
    0.001099
    """
    return log(as_count(n_classes, "n_classes")) / as_count(n, "n")


def selection_risk(class_risks: Sequence[float], n: int, constant: float = 1.0) -> float:
    """C {min_l (approximation_l + cost_l) + log(L) / n} for the selected class (`thm:selection(global)`).

    >>> round(selection_risk([0.2, 0.05, 0.1], n=1000), 4)
    0.0511
    """
    if len(class_risks) < 2:
        raise ValueError(f"class_risks must hold at least two classes, not {len(class_risks)}")
    return oracle_risk(min(class_risks), selection_price(len(class_risks), n), constant)


def assignment_bound(specialist_errors: Sequence[float], assignment_loss: float, bound: float) -> float:
    """2 sum_r |f_0 - f_r|^2 over region r + 8 A^2 |g - g*|^2, above the squared error of a gate (`eq:L1loss`).

    The decomposition before `eq:L1loss` with the constants of its proof: ``specialist_errors`` are the squared errors
    of the best experts on their regions, ``assignment_loss`` that of the gate, and A = ``bound`` >= |f_m|.

    >>> round(assignment_bound([0.01, 0.02], 0.05, bound=1.0), 3)
    0.46
    """
    regional = sum(as_non_negative(error, "specialist_errors") for error in specialist_errors)
    return 2 * regional + 8 * as_positive(bound, "bound") ** 2 * as_non_negative(assignment_loss, "assignment_loss")


def regional_selection_risk(
    specialist_errors: Sequence[float],
    assignment_losses: Sequence[float],
    costs: Sequence[float],
    n: int,
    constant: float = 1.0,
) -> float:
    """C [sum_r |f_0 - f_r|^2 + min_l {assignment loss_l + cost_l} + log(L) / n] (`cor:selection(regionwise)`).

    ``assignment_losses`` and ``costs`` have one entry for each of the L gate classes.

    >>> round(regional_selection_risk([0.01, 0.02], [0.3, 0.05], [0.01, 0.04], n=1000), 4)
    0.1207
    """
    if len(assignment_losses) != len(costs) or len(costs) < 2:
        raise ValueError(
            f"assignment_losses and costs must have one entry for each of two classes or more, not "
            f"{len(assignment_losses)} and {len(costs)}"
        )
    regional = sum(as_non_negative(error, "specialist_errors") for error in specialist_errors)
    classes = [
        as_non_negative(loss, "assignment_losses") + cost for loss, cost in zip(assignment_losses, costs, strict=True)
    ]
    return oracle_risk(regional + min(classes), selection_price(len(costs), n), constant)


@within_floats
def after_risk(candidate_risk: float, log_prior_inverse: float, n: int, noise: float, bound: float) -> float:
    """What the proof of `prop:risk_AFTER` gives with every constant written out, for Gaussian noise of known scale.

    (4 sigma^2 + 6 A^2) {risk_s / (2 sigma^2) + log(1 / pi_s) / n}: Kullback-Leibler distances add up to at most
    log(1 / pi_s) plus those of candidate s, and the squared difference of means is at most
    {2 (v_p + v_q) + 4 A^2} D(p || q), with variances v_p = sigma^2 and v_q <= sigma^2 + A^2 for forecasts in [-A, A].

    >>> round(after_risk(0.0, log(100), n=1000, noise=1.0, bound=1.0), 4)
    0.0461
    """
    variance, reach = as_positive(noise, "noise") ** 2, as_positive(bound, "bound") ** 2
    price = as_non_negative(log_prior_inverse, "log_prior_inverse") / as_count(n, "n")
    return (4 * variance + 6 * reach) * (as_non_negative(candidate_risk, "candidate_risk") / (2 * variance) + price)
