"""Designs for the verdict of `MoERegressor`: eight in which no gate helps, and one whose truth is a gate.

In a design with given forecasts the truth is a mixture of the experts with constant weights: no gate can be better.
So it is where the true line is among experts that are fitted. In pure noise all experts are fitted, and
`benchmarks.null_check` looks for a gate on many fresh rows. A fitted line would not do: with the few rows that it has
seen it is a little off, and a gate that may learn from many others saves a part of that.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import softmax
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsRegressor
from sklearn.tree import DecisionTreeRegressor

from benchmarks.local_designs import KnownExpert
from gatewise.arrays import Floats
from gatewise.experts import ColumnExpert

D = 5  # inputs
Draw = Callable[[int, np.random.Generator], tuple[Floats, Floats]]


@dataclass(frozen=True)
class VerdictDesign:
    """Rows X (n, p) with responses y (n,), and the experts.

    With ``given`` experts the forecasts are the last columns of X, after D inputs; the gate sees all columns.
    """

    draw: Draw
    experts: tuple[tuple[str, Any], ...]
    given: bool


def _inputs(n: int, rng: np.random.Generator) -> Floats:
    return rng.normal(size=(n, D))


def _line(X: Floats) -> Floats:
    return np.asarray(X[:, 0] + 0.5 * X[:, 1])


def _given(weights: Sequence[float], noise: Callable[[Floats, np.random.Generator], Floats]) -> VerdictDesign:
    """Forecasts that are smooth functions of the inputs with something of their own; their mixture is the truth."""
    M = len(weights)

    def draw(n: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        X = _inputs(n, rng)
        phases = np.arange(M)
        F = np.sin(X[:, [0]] + phases) + 0.5 * X[:, [1]] * np.cos(phases) + 0.7 * rng.normal(size=(n, M))
        return np.column_stack([X, F]), F @ np.asarray(weights) + noise(X, rng)

    experts = tuple((f"f{m + 1}", ColumnExpert(D + m)) for m in range(M))
    return VerdictDesign(draw, experts, given=True)


def _fitted(truth: Callable[[Floats], Any], experts: dict[str, Any], inputs: Any = _inputs) -> VerdictDesign:
    def draw(n: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        X = inputs(n, rng)
        return X, truth(X) + rng.normal(size=n)

    return VerdictDesign(draw, tuple(experts.items()), given=False)


def _clusters(n: int, rng: np.random.Generator) -> Floats:
    """Five tight clusters, at the same places in every draw."""
    places = np.random.default_rng(5).normal(scale=2.0, size=(5, D))
    return np.asarray(places[rng.integers(0, 5, n)] + 0.1 * rng.normal(size=(n, D)))


def _normal(X: Floats, rng: np.random.Generator) -> Floats:
    return rng.normal(size=len(X))


def _heavy(X: Floats, rng: np.random.Generator) -> Floats:
    return np.asarray(0.6 * rng.standard_t(2.5, size=len(X)))


def _uneven(X: Floats, rng: np.random.Generator) -> Floats:
    return np.asarray(np.exp(0.7 * X[:, 0]) * rng.normal(size=len(X)))


_BLEND = (0.5, 0.3, 0.2)
_KNOWN = KnownExpert(_line)
_MANY = (0.4, 0.3, 0.3, *([0.0] * 27))
NULLS: dict[str, VerdictDesign] = {
    "noise": _fitted(
        lambda X: np.zeros(len(X)),
        {"mean": DummyRegressor(), "line": LinearRegression(), "tree": DecisionTreeRegressor(max_depth=3)},
    ),
    "linear truth": _fitted(_line, {"line": _KNOWN, "mean": DummyRegressor(), "knn": KNeighborsRegressor(10)}),
    "exact blend": _given(_BLEND, _normal),
    "heavy tails": _given(_BLEND, _heavy),
    "uneven noise": _given(_BLEND, _uneven),
    "30 experts": _given(_MANY, _normal),
    "overfitting expert": _fitted(
        _line, {"line": _KNOWN, "knn1": KNeighborsRegressor(1), "tree": DecisionTreeRegressor(max_depth=3)}
    ),
    "clustered inputs": _fitted(
        _line, {"line": _KNOWN, "mean": DummyRegressor(), "knn": KNeighborsRegressor(5)}, _clusters
    ),
}


def gate_design(strength: float, noise: float = 0.6) -> VerdictDesign:
    """Three given experts; the truth is a softmax gate, linear in two of the inputs."""

    def draw(n: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        X, F = _inputs(n, rng), rng.normal(size=(n, 3))
        scores = np.column_stack([X[:, 0], X[:, 1], np.zeros(n)])
        truth = (softmax(strength * scores, axis=1) * F).sum(axis=1)
        return np.column_stack([X, F]), truth + noise * rng.normal(size=n)

    return VerdictDesign(draw, tuple((f"f{m + 1}", ColumnExpert(D + m)) for m in range(3)), given=True)


def gap(strength: float, noise: float = 0.6) -> float:
    """By which fraction the truth's mean squared error lies below that of the best constant weights.

    Inputs and forecasts are symmetric in the first two experts; the best weights come from a large sample.
    """
    from gatewise.solvers.simplex_least_squares import convex_stack  # noqa: PLC0415

    X, y = gate_design(strength, noise).draw(200_000, np.random.default_rng(0))
    F = X[:, D:]
    constant = float(np.mean((y - F @ convex_stack(F, y).theta[:, 0]) ** 2))
    return 1.0 - noise**2 / constant


def strength_for(wanted: float, gap_of: Callable[[float], float] = gap, halvings: int = 10) -> float:
    """The strength of the gate whose gap, by ``gap_of``, is the one wanted: by bisection."""
    low, high = 0.0, 20.0
    for _ in range(halvings):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if gap_of(middle) < wanted else (low, middle)
    return high
