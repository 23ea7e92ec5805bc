"""Selection among estimators and among gate classes: the excess over the best, and the bound region by region."""

from collections.abc import Callable

import numpy as np

from gatewise import theory
from gatewise.aggregation import Blocks
from gatewise.arrays import Floats
from gatewise.estimators import GateRegressor, GateSelector
from gatewise.experts import expert_matrix
from gatewise.gates import Gate, KernelGate, LinearGate, QuadraticGate
from gatewise.geometry import assignment_loss, TrueRegions
from gatewise.paper.verify.check import Check, CheckOutcome, fitted_constant, slope

NOISE = 0.5
X_TEST = np.linspace(0.0, 1.0, 801)[:, None]


def _off(height: float, order: int) -> Callable[[Floats], Floats]:
    """The truth sin(2 pi x) and an error of mean square height^2, half of it common to all candidates.

    What is common does not cancel when candidates are averaged.
    """

    def candidate(X: Floats) -> Floats:
        own = np.sqrt(2) * np.cos(2 * np.pi * order * X[:, 0])
        return np.asarray(np.sin(2 * np.pi * X[:, 0]) + height * np.sqrt(0.5) * (1 + own))

    return candidate


def selection_price(rng: np.random.Generator, quick: bool) -> CheckOutcome:
    """`GateSelector` over lists of L estimators, one of them best: the excess of its risk over the best one's.

    The others are worse by just what n rows can tell, sigma^2 log(L) / n, so that the choice among them is hardest.
    Scales are calibrated.
    """
    reps, excess, laws, pathwise = 12 if quick else 100, [], [], 0.0
    for L in (4, 16, 64):
        for n in (200, 800) if quick else (200, 800, 3200):
            price = NOISE**2 * theory.selection_price(L, n // 2)
            found = np.zeros((reps, 2))
            for row in range(reps):
                heights = np.sqrt(np.where(np.arange(L) == 0, 0.01**2, price * rng.uniform(1.0, 60.0, L)))
                found[row] = _select([_off(height, order + 2) for order, height in enumerate(heights)], n, rng)
                pathwise = max(pathwise, found[row, 1] / (6 * found[row, 0] + 4 * 0.01**2))
            excess.append(found.mean(axis=0) - 0.01**2)
            laws.append(price)
    aggregate, selected = (fitted_constant(column, laws) for column in np.array(excess).T)
    figure = (
        f"excess / (sigma^2 log(L)/n): aggregate up to {aggregate.value:.2f}, spread {aggregate.spread:.1f}; "
        f"selected up to {selected.value:.2f}; selected / (6 aggregate + 4 best) up to {pathwise:.3f}"
    )
    return CheckOutcome(figure, aggregate.value <= 3 and selected.value <= 3 and pathwise <= 1)


def _select(candidates: list[Callable[[Floats], Floats]], n: int, rng: np.random.Generator) -> tuple[float, float]:
    """The squared distances of the aggregate and of the selected candidate from sin(2 pi x), for one selection."""
    X = rng.uniform(size=(n, 1))
    y = np.sin(2 * np.pi * X[:, 0]) + NOISE * rng.normal(size=n)
    names = [(f"candidate {number}", candidate) for number, candidate in enumerate(candidates)]
    chosen = GateSelector(names, Blocks(burn_in=0), random_state=int(rng.integers(2**31))).fit(X, y)
    truth = np.sin(2 * np.pi * X_TEST[:, 0])
    risks = [float(((chosen.predict(X_TEST, readout) - truth) ** 2).mean()) for readout in ("aggregate", "single")]
    return risks[0], risks[1]


def _disk_experts() -> list[Callable[[Floats], Floats]]:
    return [lambda X: 1.0 + 0.1 * np.sin(6 * X[:, 0]), lambda X: -1.0 + 0.1 * np.cos(5 * X[:, 1])]


def _disk_truth(X: Floats) -> Floats:
    """Near the first expert in a disk of the unit square, near the second one outside, and 0.1 off everywhere."""
    F = expert_matrix(_disk_experts(), X)
    inside = np.linalg.norm(X - 0.5, axis=1) <= 0.35
    return np.asarray(np.where(inside, F[:, 0], F[:, 1]) + 0.1)


def _disk_gates() -> list[tuple[Gate, Floats]]:
    """A gate of each class with a parameter that aligns it with the disk as well as its class can."""
    kernel = KernelGate(2, mesh=0.1)
    hard = (np.linalg.norm(kernel.centers(2) - 0.5, axis=1) <= 0.35).astype(float)
    bowl = 40.0 * np.array([[-1.0, 0.0, -1.0, 1.0, 1.0, 0.35**2 - 0.5]])
    return [
        (LinearGate(2), np.array([[0.0, 0.0, -0.45]])),
        (QuadraticGate(2), bowl),
        (kernel, np.stack([hard, 1 - hard])),
    ]


def selection_by_region(rng: np.random.Generator, quick: bool) -> CheckOutcome:
    """Gate classes fitted and selected on a disk: the risk against 2 x expert error + 8 A^2 x the least class loss.

    The bound with these constants excludes the linear class, whose loss is ten times that of the others.
    """
    experts, X = _disk_experts(), rng.uniform(size=(4000, 2))
    own = TrueRegions(experts, _disk_truth)(X)
    losses = [assignment_loss(gate.weights(X, theta), own).value for gate, theta in _disk_gates()]
    F, truth = expert_matrix(experts, X), _disk_truth(X)
    expert_error = float(((F[np.arange(len(X)), own] - truth) ** 2).mean())
    models = [GateRegressor(experts, gate, radius=40.0, n_starts=3, random_state=0) for gate, _ in _disk_gates()]
    sizes, reps, risks = (300, 1200) if quick else (300, 1200, 4800), 3 if quick else 12, []
    for n in sizes:
        runs = []
        for _ in range(reps):
            rows = rng.uniform(size=(n, 2))
            y = _disk_truth(rows) + NOISE * rng.normal(size=n)
            chosen = GateSelector(models, random_state=int(rng.integers(2**31))).fit(rows, y)
            runs.append(float(((chosen.predict(X, "single") - truth) ** 2).mean()))
        risks.append(float(np.mean(runs)))
    bounds = [theory.assignment_bound([expert_error], loss, 1.2) for loss in losses]  # |f_m|, |f_0| <= 1.2
    laws = [theory.regional_selection_risk([0.0], bounds, [0.0] * 3, n // 3) for n in sizes]
    ratios, linear = [risk / law for risk, law in zip(risks, laws, strict=True)], bounds[0] / min(bounds)
    shown = ", ".join(f"{loss:.3f}" for loss in losses)
    figure = (
        f"class losses {shown}; risk / bound {', '.join(f'{ratio:.3f}' for ratio in ratios)}; "
        f"linear class alone {linear:.1f}"
    )
    return CheckOutcome(figure, max(ratios) <= 0.5 and min(losses) < 0.15 and slope(sizes, risks) < 0)


CHECKS = (
    Check(
        "thm:selection(global)",
        "excess of the selection among 4 to 64",
        "C <= 3 for both readouts; 6 aggregate + 4 best",
        selection_price,
    ),
    Check(
        "cor:selection(regionwise)",
        "selection among three gate classes on a disk",
        "half of 2 experts + 8 A^2 least class loss",
        selection_by_region,
    ),
)
