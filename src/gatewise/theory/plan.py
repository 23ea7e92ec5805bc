"""How many experts? The M that balances the approximation bound against the price of learning the gate."""

from typing import NamedTuple

from gatewise.arrays import as_count, as_dimension, as_non_negative, as_positive
from gatewise.theory.approximation import topk_error
from gatewise.theory.learning_cost import sparse_cost
from gatewise.theory.regionwise import feasible_separation

MAX_CELLS = 10**5  # a side
LOOK_AHEAD = 100  # cells a side after which the end of the curve is looked at


class PlanPoint(NamedTuple):
    """The bound at one number of experts, and its two parts."""

    n_experts: int
    approximation: float
    learning: float

    @property
    def bound(self) -> float:
        return self.approximation + self.learning


class Plan(NamedTuple):
    """The best number of experts and the curve of bounds around it."""

    best: PlanPoint
    curve: tuple[PlanPoint, ...]

    @property
    def n_experts(self) -> int:
        return self.best.n_experts


def plan(
    n: int,
    d: int,
    k: int = 1,
    lipschitz: float = 1.0,
    noise: float = 1.0,
    expert_error: float = 0.0,
    constant: float = 1.0,
) -> Plan:
    """The M that minimises (L sqrt(d) / (2q))^2 + C sigma^2 (M d / n) {log(M d n) + log(1/r)} + M a^2.

    Approximation by `prop:approximation_ability`, learning by `thm:top-k` with r = M^(-1/d) / 2 (`cor:Top1-single`).
    Only M = K q^d are tried: other experts would idle. The paper's constant hides the noise; the bound of
    `prop:risk_AFTER` shows that the price of learning scales like sigma^2 when f_0 is of the size of the noise, and
    C = ``constant`` is what remains unknown. a^2 = ``expert_error``. The bound always prefers K = 1: whether one
    active expert is enough is a matter of the data (`top1_barrier`).

    >>> choice = plan(n=10_000, d=1, noise=0.5)
    >>> choice.n_experts, round(choice.best.bound, 4)
    (11, 0.0061)
    """
    n, d, k = as_count(n, "n"), as_dimension(d), as_count(k, "k")
    price = as_positive(constant, "constant") * as_positive(noise, "noise") ** 2
    drift = as_non_negative(expert_error, "expert_error")

    def point(q: int) -> PlanPoint:
        M = k * q**d
        separation = feasible_separation(0.999, M, d, constant=0.5)
        learning = price * sparse_cost(M, d, n, separation) + M * drift
        return PlanPoint(M, topk_error(M, d, k, lipschitz) ** 2, learning)

    # Along the curve the learning part only grows and the approximation part only falls. Once the former is above
    # twice the best bound, no larger M can win; if it ends below twice the last approximation, M has no end.
    curve: list[PlanPoint] = []
    least = float("inf")
    while len(curve) < MAX_CELLS:
        curve.append(point(len(curve) + 1))
        least = min(least, curve[-1].bound)
        if curve[-1].learning > 2 * least:
            return Plan(min(curve, key=lambda here: here.bound), tuple(curve))
        if len(curve) == LOOK_AHEAD and (last := point(MAX_CELLS)).learning <= 2 * last.approximation:
            break
    raise ValueError(f"n must be smaller than {n:g}: more than {MAX_CELLS:,} cells a side would pay")
