"""Input-adaptive K: an active set that depends on the input against Top-K, at an equal mean number of experts asked.

A kernel gate over known experts is fitted by least squares to half of the rows; the other half chooses the rule
(`choose_activation`). Error is the squared distance to the truth at fresh points. Top-K asks K experts, or K + 1 with
a probability that gives the same mean number; it is the best of all pairs of K on the convex hull of their errors.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from gatewise.arrays import Floats
from gatewise.experts import expert_matrix
from gatewise.gates import KernelGate
from gatewise.gates.active_sets import restricted
from gatewise.mixture.activation_choice import choose_activation, fixed_count_errors
from gatewise.paper.designs import DESIGNS
from gatewise.paper.outlook.ratios import mean_ratio, Ratio
from gatewise.paper.runner import Runner
from gatewise.solvers.simplex_least_squares import simplex_least_squares

NAME = "outlook-adaptive-k/1"
REPS = 60
N, N_FRESH, BUDGETS = 1200, 4000, (1.5, 2.0, 2.5)
Truth = Callable[[Floats, Floats], Floats]  # rows (n, 2) and predictions (n, M) -> (n,)


@dataclass(frozen=True)
class ActivationDesign:
    """A truth over known experts on [-1, 1]^2, as a function of the rows and of the experts' predictions."""

    name: str
    experts: tuple[Any, ...]
    truth: Truth
    noise: float
    mesh: float


def _plane(a: float, b: float, c: float) -> Callable[[Any], Floats]:
    return lambda X: np.asarray(a * X[:, 0] + b * X[:, 1] + c)


_FOUR = (
    _plane(2.0, 0.0, 2.0),
    _plane(-2.0, 1.0, -2.0),
    _plane(0.0, -3.0, 0.0),
    lambda X: 2.0 * np.sin(4.0 * X[:, 1]),
)


def _one_or_three(X: Floats, F: Floats) -> Floats:
    return np.asarray(np.where(X[:, 0] < 0.0, F[:, 0], F[:, 1:].mean(axis=1)))


def _always_two(X: Floats, F: Floats) -> Floats:
    return np.asarray(np.where(X[:, 0] < 0.0, F[:, :2].mean(axis=1), F[:, 2:].mean(axis=1)))


def _always_one(X: Floats, F: Floats) -> Floats:
    quarter = (X[:, 0] > 0).astype(int) + 2 * (X[:, 1] > 0)
    return np.asarray(F[np.arange(len(F)), quarter])


def _softmax_mixture(name: str, X: Floats, F: Floats) -> Floats:
    return np.asarray((DESIGNS[name].weights(X) * F).sum(axis=1))


ACTIVATION_DESIGNS = {
    design.name: design
    for design in (
        *(
            ActivationDesign(name, made.experts, partial(_softmax_mixture, name), made.noise_sd, 0.5)
            for name, made in DESIGNS.items()
        ),
        ActivationDesign("one here, three there", _FOUR, _one_or_three, 0.5, 0.25),
        ActivationDesign("two everywhere", _FOUR, _always_two, 0.5, 0.25),
        ActivationDesign("one everywhere", _FOUR, _always_one, 0.5, 0.25),
    )
}


@dataclass(frozen=True)
class ActivationRow:
    """One design and budget: mean errors of the chosen rule and of Top-K at the same mean number asked."""

    design: str
    budget: float
    reps: int
    asked: float
    chosen: float
    top_k: float
    ratio: Ratio
    picked: dict[str, int]


def replicate(design: str, budget: float, replication: int, seed: int) -> dict[str, Any]:
    """Errors at fresh points of the chosen rule and of Top-K, the mean number asked, and the rule's name."""
    made = ACTIVATION_DESIGNS[design]
    key = (seed, list(ACTIVATION_DESIGNS).index(design), replication)
    rng = np.random.default_rng(np.random.SeedSequence(key))
    X = rng.uniform(-1.0, 1.0, size=(N, 2))
    F = expert_matrix(made.experts, X)
    y = made.truth(X, F) + rng.normal(scale=made.noise, size=N)
    gate, half = KernelGate(len(made.experts), made.mesh, low=-1.0, high=1.0), N // 2
    theta = simplex_least_squares(gate.features(X[:half]), F[:half], y[:half]).theta
    weights = gate.weights(X[half:], theta)
    choice = choose_activation(weights, F[half:], y[half:], X[half:], budget, seed=replication)
    fresh = rng.uniform(-1.0, 1.0, size=(N_FRESH, 2))
    F_fresh, g = expert_matrix(made.experts, fresh), gate.weights(fresh, theta)
    truth = made.truth(fresh, F_fresh)
    fixed = fixed_count_errors(g, F_fresh, truth).mean(axis=0)
    if choice.rule is None:
        asked, error = budget, interpolated(fixed, budget)
    else:
        active = choice.rule.active(g, fresh)
        asked = float(active.sum(axis=1).mean())
        error = float(np.mean((truth - (restricted(g, active) * F_fresh).sum(axis=1)) ** 2))
    return {"chosen": error, "top_k": interpolated(fixed, asked), "asked": asked, "name": choice.name}


def interpolated(errors: Floats, asked: float) -> float:
    """The least error of a coin between two values of K that asks ``asked`` experts on average; errors (M,) by K.

    >>> interpolated(np.array([4.0, 3.0, 0.0]), 2.0)
    2.0
    """
    counts = np.arange(1, len(errors) + 1)
    pairs = [
        errors[i] + (errors[j] - errors[i]) * (asked - counts[i]) / (counts[j] - counts[i])
        for i in range(len(errors))
        for j in range(i + 1, len(errors))
        if counts[i] <= asked <= counts[j]
    ]
    single = [errors[i] for i in range(len(errors)) if counts[i] <= asked]
    return float(min([*pairs, *single]))


def run(reps: int = REPS, seed: int = 0, runner: Runner | None = None) -> list[ActivationRow]:
    """Every design at every budget."""
    cells = [(design, budget) for design in ACTIVATION_DESIGNS for budget in BUDGETS]
    tasks = [(*cell, r, seed) for r in range(reps) for cell in cells]
    results = (runner or Runner()).run(NAME, replicate, tasks)
    return [_row(cell, results[i :: len(cells)]) for i, cell in enumerate(cells)]


def _row(cell: tuple[str, float], results: Sequence[dict[str, Any]]) -> ActivationRow:
    chosen, top_k = (np.array([result[name] for result in results]) for name in ("chosen", "top_k"))
    names = [result["name"] for result in results]
    return ActivationRow(
        *cell,
        reps=len(results),
        asked=float(np.mean([result["asked"] for result in results])),
        chosen=float(chosen.mean()),
        top_k=float(top_k.mean()),
        ratio=mean_ratio(chosen, top_k),
        picked={name: names.count(name) for name in sorted(set(names))},
    )
