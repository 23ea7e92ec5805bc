"""How well constants behind a gate approximate a Lipschitz function, and what two specialists gain from routing."""

from math import ceil, sqrt

from gatewise.arrays import as_count, as_dimension, as_non_negative, as_positive
from gatewise.mixture import nearest_center


def global_error(d: int, lipschitz: float, radius: float) -> float:
    """The worst sup error of one constant on the unit cube: min(R, L sqrt(d) / 2) (`prop:approximation_ability`).

    The supremum is over functions bounded by R = ``radius`` with Lipschitz constant L; it is an equality.

    >>> global_error(d=4, lipschitz=1.0, radius=5.0)
    1.0
    """
    slope = as_positive(lipschitz, "lipschitz")
    return min(as_positive(radius, "radius"), slope * sqrt(as_dimension(d)) / 2)


def cells_per_side(n_experts: int, d: int, k: int = 1) -> int:
    """q = floor((M / K)^(1/d)), in whole numbers: how finely M experts cut the cube when K are active.

    >>> cells_per_side(27, d=3), cells_per_side(26, d=3)
    (3, 2)
    """
    n_experts = as_count(n_experts, "n_experts")
    return nearest_center.cells_per_side(n_experts, as_dimension(d), as_count(k, "k", high=n_experts))


def topk_error(n_experts: int, d: int, k: int = 1, lipschitz: float = 1.0) -> float:
    """The sup error that M constants behind a Top-K gate can keep to: L sqrt(d) / (2q).

    A bound, not an equality (`prop:approximation_ability`). `nearest_center_moe` keeps to it; a linear function makes
    that predictor attain it.

    >>> topk_error(16, d=2, k=1)
    0.1767766952966369
    """
    return as_positive(lipschitz, "lipschitz") * sqrt(d) / (2 * cells_per_side(n_experts, d, k))


def experts_needed(error: float, d: int, k: int = 1, lipschitz: float = 1.0) -> int:
    """The least M whose `topk_error` is at most ``error``: K ceil(L sqrt(d) / (2 error))^d.

    >>> experts_needed(0.1, d=2)
    64
    """
    ratio = as_positive(lipschitz, "lipschitz") * sqrt(as_dimension(d)) / (2 * as_positive(error, "error"))
    return int(as_count(k, "k") * max(1, ceil(ratio * (1 - 1e-12))) ** d)


def specialist_gap(error_1: float, error_2: float, other_1: float, other_2: float) -> float:
    """gamma = [(delta_1 delta_2 - eps_1 eps_2) / (delta_1 + delta_2 + eps_1 + eps_2)]_+.

    ``error_j`` is eps_j, the L2 error of specialist j on its own region; ``other_j`` is delta_j, the error there of
    the other expert. Every fixed mixture of the two has risk at least gamma^2 (`prop:two_specialized_experts`).

    >>> specialist_gap(0.1, 0.1, 0.9, 0.9)
    0.4
    """
    eps_1, eps_2 = as_non_negative(error_1, "error_1"), as_non_negative(error_2, "error_2")
    delta_1, delta_2 = as_non_negative(other_1, "other_1"), as_non_negative(other_2, "other_2")
    total = eps_1 + eps_2 + delta_1 + delta_2
    if total == 0:
        raise ValueError(
            "one of error_1, error_2, other_1, other_2 must be above 0: both experts are exact everywhere"
        )
    return max(0.0, (delta_1 * delta_2 - eps_1 * eps_2) / total)


def routing_wins(error_1: float, error_2: float, other_1: float, other_2: float) -> bool:
    """Whether eps_1^2 + eps_2^2 < gamma^2, so that Top-1 beats every fixed mixture (`prop:two_specialized_experts`).

    The condition is sufficient, not necessary.

    >>> routing_wins(0.1, 0.1, 0.9, 0.9), routing_wins(0.5, 0.5, 0.9, 0.9)
    (True, False)
    """
    return error_1**2 + error_2**2 < specialist_gap(error_1, error_2, other_1, other_2) ** 2
