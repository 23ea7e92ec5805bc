"""Which mesh, and how many experts, for a kernel gate? Approximation against the price of its many parameters."""

from math import inf, log
from typing import NamedTuple

from gatewise.arrays import as_count, as_dimension, as_non_negative, as_positive, within_floats
from gatewise.theory.approximation import topk_error
from gatewise.theory.kernel_bounds import kernel_loss, mesh_limit, n_centers

MAX_STEPS, MAX_CELLS = 512, 64


class KernelPlanPoint(NamedTuple):
    """The bound at one mesh and number of experts: experts on their regions, the gate's approximation, learning."""

    mesh: float
    n_experts: int
    experts: float
    approximation: float
    learning: float

    @property
    def bound(self) -> float:
        return self.experts + self.approximation + self.learning


class KernelPlan(NamedTuple):
    """The best mesh and number of experts, and all points that were tried."""

    best: KernelPlanPoint
    points: tuple[KernelPlanPoint, ...]

    @property
    def mesh(self) -> float:
        return self.best.mesh

    @property
    def n_experts(self) -> int:
        return self.best.n_experts


@within_floats
def kernel_cost(mesh: float, n_experts: int, d: int, n: int) -> float:
    """(M - 1) C log(n) / n with C = `n_centers` of the mesh: what the free weights of a kernel gate cost to learn.

    >>> round(kernel_cost(0.25, n_experts=3, d=2, n=1000), 3)
    0.345
    """
    n = as_count(n, "n", low=2)
    return (as_count(n_experts, "n_experts") - 1) * n_centers(mesh, d) * log(n) / n


def kernel_plan(
    n: int,
    d: int,
    *,
    n_experts: int | None = None,
    boundary: float | None = None,
    lipschitz: float = 1.0,
    noise: float = 1.0,
    bound: float = 1.0,
    kappa: float = 0.75,
    constant: float = 1.0,
) -> KernelPlan:
    """The mesh h = 1/m, and M, with the least sum of approximation and learning (remark to `thm:kernel-global-main`).

    For a given pool, ``n_experts`` = M and ``boundary`` = Gamma of its regions: the least of
    8 A^2 C {M h^(d+2) + Gamma h sqrt(log(1/h))} + sigma^2 (M - 1) (1/h + 1)^d log(n) / n, A = ``bound`` >= |f_m|.
    Without a pool, M = q^d constants on cubes are planned, too: their error L^2 d / (4 q^2) is added, and
    Gamma = 2 d (q - 1). C = ``constant`` is unknown, so this tells orders; `choose_kernel_gate` asks the data.

    >>> [round(1 / kernel_plan(n, d=1, n_experts=2, boundary=2.0, constant=0.01).mesh) for n in (10**3, 10**4, 10**5)]
    [5, 15, 49]
    """
    n, d = as_count(n, "n", low=2), as_dimension(d)
    price, reach = as_positive(noise, "noise") ** 2, 8 * as_positive(bound, "bound") ** 2
    if (n_experts is None) != (boundary is None):
        raise ValueError("n_experts and boundary belong together: give both for a pool, or neither")
    lipschitz = as_positive(lipschitz, "lipschitz")
    pools = _pools(d, lipschitz) if n_experts is None else [(n_experts, 0.0, as_non_negative(boundary, "boundary"))]
    points: list[KernelPlanPoint] = []
    least = inf
    for M, expert_error, gamma in pools:
        for steps in range(2, MAX_STEPS):
            h = 1.0 / steps
            if h >= mesh_limit(d, kappa):
                continue
            learning = price * kernel_cost(h, M, d, n)
            points.append(
                KernelPlanPoint(h, M, expert_error, reach * _gate_loss(h, M, d, gamma, kappa, constant), learning)
            )
            least = min(least, points[-1].bound)
            if M == 1 or learning > least:  # one expert needs no gate; and the price only grows from here
                break
    return KernelPlan(min(points, key=lambda point: point.bound), tuple(points))


def _gate_loss(mesh: float, n_experts: int, d: int, boundary: float, kappa: float, constant: float) -> float:
    """`kernel_loss`; 0 for one expert, which needs no gate."""
    return 0.0 if n_experts == 1 else kernel_loss(mesh, n_experts, d, boundary, kappa, constant)


def _pools(d: int, lipschitz: float) -> list[tuple[int, float, float]]:
    """(M, error of M constants on cubes, Gamma of these cubes) for M = q^d."""
    counts = [q for q in range(1, MAX_CELLS) if q**d <= MAX_CELLS**2]
    return [(q**d, topk_error(q**d, d, 1, lipschitz) ** 2, 2.0 * d * (q - 1)) for q in counts]
