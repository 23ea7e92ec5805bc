"""The oracle inequalities end to end: `RouterAggregator` over M, d, K and n, and along experts that move."""

import numpy as np

from gatewise import theory
from gatewise.aggregation import Blocks, least_squares, Particles
from gatewise.arrays import Floats
from gatewise.experts import expert_matrix
from gatewise.gates import LinearGate
from gatewise.nets import Net
from gatewise.paper.verify.check import Check, CheckOutcome, fitted_constant, slope
from gatewise.paper.verify.oracle_runs import (
    constant,
    Function,
    inside_class,
    MovingExpert,
    OracleDesign,
    wave_experts,
)

BOX, SIGMA, SEPARATION = 2.5, 0.4, 0.3
DENSE_MOST, SPARSE_MOST = 2.0, 4.0  # what the constants of both halves may be, in units of the noise variance
# (M, d, K); a quick run takes the first two
DENSE = ((2, 1, None), (4, 1, None), (2, 2, None), (4, 2, None), (8, 1, None), (8, 2, None))
SPARSE = ((2, 1, 1), (4, 1, 1), (2, 2, 1), (4, 2, 2), (8, 1, 2), (8, 2, 1))


def _law(M: int, d: int, k: int | None, n: int) -> float:
    """The learning cost of the theorem, in units of the noise variance."""
    cost = theory.dense_cost(M, d, n) if k is None else theory.sparse_cost(M, d, n, SEPARATION)
    return SIGMA**2 * cost


def _cells(
    cells: tuple[tuple[int, int, int | None], ...], quick: bool, rng: np.random.Generator
) -> tuple[Floats, Floats, Floats]:
    """Online risks, risks of the projection and laws, (cells, sizes), with the truth inside the class.

    Two experts on one feature are aggregated over an eta-net whose mesh is 6 times what `thm:softmax` prescribes, the
    others over particles: no net of theirs can be enumerated.
    """
    sizes, few = ((200, 800), 3) if quick else ((250, 1000), 3)
    risks, laws = np.zeros((len(cells), len(sizes), 2)), np.zeros((len(cells), len(sizes)))
    for i, (M, d, k) in enumerate(cells):
        reps = (30 if quick else 60) if (M, d) == (2, 1) else few
        designs = [inside_class(LinearGate(M, k=k), d, SIGMA, SEPARATION, rng) for _ in range(reps)]
        for j, n in enumerate(sizes):
            runs = [design.risks(n, _candidates(design, n), rng) for design in designs]
            risks[i, j] = np.mean(runs, axis=0)
            laws[i, j] = _law(M, d, k, n)
    return risks[:, :, 0], risks[:, :, 1], laws


def _candidates(design: OracleDesign, n: int) -> Net | Particles:
    """An eta-net of the box for two experts on one feature, particles else."""
    if (design.gate.n_experts, design.d) == (2, 1):
        return design.gate.net(eta=theory.dense_mesh(2, n, 6.0), radius=BOX, d=1)
    return Particles(150, BOX)


def _judge(
    cells: tuple[tuple[int, int, int | None], ...], quick: bool, rng: np.random.Generator, most: float
) -> CheckOutcome:
    online, single, laws = _cells(cells[:2] if quick else cells, quick, rng)
    both = [fitted_constant(risk, laws) for risk in (online, single)]
    rates = [-slope(1 / laws.mean(axis=0), risk.mean(axis=0)) for risk in (online, single)]
    figure = (
        f"online: C = {both[0].value:.2f} sigma^2, spread {both[0].spread:.1f}, law^{rates[0]:.2f}; "
        f"projected: C = {both[1].value:.2f} sigma^2, spread {both[1].spread:.1f}, law^{rates[1]:.2f}"
    )
    return CheckOutcome(figure, max(constant.value for constant in both) <= most)


def dense_oracle(rng: np.random.Generator, quick: bool) -> CheckOutcome:
    """Dense softmax, truth inside the class: both halves of the theorem for M in 2, 4, 8 and d in 1, 2."""
    return _judge(DENSE, quick, rng, DENSE_MOST)


def sparse_oracle(rng: np.random.Generator, quick: bool) -> CheckOutcome:
    """Top-1 and Top-2, truth inside the class: both halves of the theorem for M in 2, 4, 8 and d in 1, 2."""
    return _judge(SPARSE, quick, rng, SPARSE_MOST)


def outside_class(rng: np.random.Generator, quick: bool) -> CheckOutcome:
    """Dense softmax, truth outside of the class: risk over (least distance of the class + cost)."""
    sizes, reps, quotients = (200, 800) if quick else (250, 1000), 3 if quick else 5, []
    X = np.linspace(-1, 1, 801)[:, None]
    for M in (2, 4):
        design = OracleDesign(LinearGate(M), 1, wave_experts(M, 1, rng), _zigzag, SIGMA)
        best = least_squares(design.gate, X, _zigzag(X), expert_matrix(design.experts, X), radius=BOX).mse
        for n in sizes:
            risks = design.mean_risks(reps, n, _candidates(design, n), rng)
            quotients.append([risk / (best + _law(M, 1, None, n)) for risk in risks])
    online, single = np.array(quotients).T
    figure = (
        f"risk / (best + sigma^2 cost) online {online.min():.2f} to {online.max():.2f}, "
        f"projected {single.min():.2f} to {single.max():.2f}"
    )
    return CheckOutcome(figure, online.max() <= 1.5 and single.max() <= 1.5)


def _zigzag(X: Floats) -> Floats:
    return np.asarray(0.6 * np.abs((2 * X[:, 0]) % 2 - 1) - 0.3)


def moving_experts_cost(rng: np.random.Generator, quick: bool) -> CheckOutcome:
    """Experts at a known distance a_t from their targets: M times the mean of a_t^2 is what this adds to the risk.

    Each expert is off on its own region only, by a_t sqrt(M) there, so that no gate avoids it and the bound of
    `lem:supp-evolving-population-comparator` is reached at every time. The same rows with a = 0 are taken off.
    """
    quotients, n, reps = [], 240 if quick else 600, 2 if quick else 10
    for M, k in ((2, 1), (4, 1), (4, None), (8, None)):
        edges = np.linspace(-1, 1, M + 1)
        centers = (edges[:-1] + edges[1:]) / 2
        sharp = 1000 * np.column_stack([2 * centers, -(centers**2)])
        thetas = (
            sharp[:-1] - sharp[-1] + np.concatenate([np.zeros((1, M - 1, 2)), 500 * rng.normal(size=(30, M - 1, 2))])
        )
        seed, risks = int(rng.integers(2**31)), []
        for a in (0.0, 0.1, 0.3):
            sizes = a * ((1 + np.arange(n)) / n) ** -0.25
            experts = [
                MovingExpert(constant(2.0 * m), _inside(edges[m], edges[m + 1], np.sqrt(M)), sizes.item)
                for m in range(M)
            ]
            design = OracleDesign(LinearGate(M, k=k), 1, experts, _steps(edges), 0.1)
            blocks = Blocks(burn_in=0, calibration=1 / 3, updates=10)
            risks.append(np.array(design.mean_risks(reps, n, thetas, np.random.default_rng(seed), blocks=blocks)))
            drift = M * float((sizes[n // 3 :] ** 2).mean())
            quotients.extend([(risks[-1] - risks[0]) / drift] if a else [])
    online, single = np.array(quotients).T
    figure = (
        f"added risk / (M mean a_t^2) online {online.min():.3f} to {online.max():.3f}, "
        f"projected {single.min():.3f} to {single.max():.3f}"
    )
    return CheckOutcome(
        figure, bool(min(online.min(), single.min()) >= 0.85 and max(online.max(), single.max()) <= 1.15)
    )


def _inside(low: float, high: float, value: float) -> Function:
    return lambda X: np.where((X[:, 0] > low) & (X[:, 0] <= high), value, 0.0)


def _steps(edges: Floats) -> Function:
    return lambda X: np.asarray(2.0 * (np.searchsorted(edges, X[:, 0], side="left") - 1.0))


CHECKS = (
    Check(
        "thm:softmax",
        "risks of aggregate and projection, M, d, n",
        "C <= 2 sigma^2 in every cell, both halves",
        dense_oracle,
        cost=5.0,
    ),
    Check(
        "thm:top-k",
        "risks of aggregate and projection, M, d, K, n",
        "C <= 4 sigma^2 in every cell, both halves",
        sparse_oracle,
        cost=7.0,
    ),
    Check(
        "thm:softmax (truth outside)",
        "the same, truth outside of the class",
        "risk <= 1.5 (best + sigma^2 cost)",
        outside_class,
        cost=3.0,
    ),
    Check(
        "thm:softmax, thm:top-k (moving experts)",
        "risk added by experts at a known distance",
        "M mean a_t^2 +- 15 %: C = 1, reached",
        moving_experts_cost,
        cost=3.0,
    ),
)
