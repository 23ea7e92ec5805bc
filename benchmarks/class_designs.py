"""Designs for the verdict of `MoEClassifier`: eight in which no gate helps, and one whose truth is a gate.

In a design with given probabilities the truth is the same function of the experts' probabilities at all inputs, so
nothing that depends on the inputs can be better. In a design with fitted experts one of them is of the true form.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from gatewise.arrays import Floats, Indices
from gatewise.losses import LogLoss
from gatewise.solvers.softmax_path import stack_weights

D = 2  # inputs
DIRECTIONS = np.array([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0]])


class GivenProbabilities(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The probabilities of ``n_classes`` classes are columns of X, from ``first`` on."""

    def __init__(self, first: int, n_classes: int) -> None:
        self.first = first
        self.n_classes = n_classes
        self.classes_ = np.arange(n_classes)

    def fit(self, X: Any, y: Any) -> "GivenProbabilities":  # noqa: ARG002 - nothing to learn
        return self

    def predict_proba(self, X: Floats) -> Floats:
        """(n, C)."""
        return np.asarray(X[:, self.first : self.first + self.n_classes])

    def predict(self, X: Floats) -> Indices:
        """The most probable class."""
        return np.asarray(self.predict_proba(X).argmax(axis=1))


@dataclass(frozen=True)
class ClassDesign:
    """Rows X (n, p) with the numbers of their classes (n,), and the experts.

    With ``given`` experts the probabilities are the last columns of X, after D inputs.
    """

    draw: Callable[[int, np.random.Generator], tuple[Floats, Indices]]
    experts: tuple[tuple[str, Any], ...]
    given: bool


def drawn_classes(p: Floats, rng: np.random.Generator) -> Indices:
    """A class for every row, by its probabilities (n, C)."""
    return np.asarray((rng.uniform(size=(len(p), 1)) > p.cumsum(axis=1)[:, :-1]).sum(axis=1))


def given_design(
    M: int, C: int, truth: Callable[[Floats, Floats], Floats], offset: float = 0.0, scale: float = 1.5
) -> ClassDesign:
    """M given experts; ``truth(P, Z)`` (n, C) is made of their probabilities P (n, M, C) and the inputs Z (n, D).

    ``offset`` is added to the scores of the first class.
    """

    def draw(n: int, rng: np.random.Generator) -> tuple[Floats, Indices]:
        Z, scores = rng.normal(size=(n, D)), rng.normal(scale=scale, size=(n, M, C)) / np.sqrt(2.0)
        scores[:, :, 0] += offset
        P = np.asarray(softmax(scores, axis=2))
        return np.column_stack([Z, P.reshape(n, -1)]), drawn_classes(truth(P, Z), rng)

    experts = tuple((f"p{m + 1}", GivenProbabilities(D + m * C, C)) for m in range(M))
    return ClassDesign(draw, experts, given=True)


def _blend(weights: Sequence[float]) -> Callable[[Floats, Floats], Floats]:
    return lambda P, _Z: np.einsum("m,imc->ic", np.asarray(weights), P)


def _log_linear(exponents: Sequence[float]) -> Callable[[Floats, Floats], Floats]:
    return lambda P, _Z: np.asarray(softmax(np.einsum("m,imc->ic", np.asarray(exponents), np.log(P)), axis=1))


def _fitted(strength: float, experts: dict[str, Any]) -> ClassDesign:
    """Two classes by a logistic regression on two of five inputs."""

    def draw(n: int, rng: np.random.Generator) -> tuple[Floats, Indices]:
        X = rng.normal(size=(n, 5))
        p = expit(strength * (X[:, 0] + 0.5 * X[:, 1]))
        return X, drawn_classes(np.column_stack([1.0 - p, p]), rng)

    return ClassDesign(draw, tuple(experts.items()), given=False)


_LINE, _TREE = LogisticRegression(), DecisionTreeClassifier(max_depth=3, random_state=0)
CLASS_NULLS: dict[str, ClassDesign] = {
    "exact blend": given_design(3, 2, _blend((0.5, 0.3, 0.2))),
    "one expert": given_design(3, 2, _blend((1.0, 0.0, 0.0))),
    "log-linear blend": given_design(3, 2, _log_linear((0.6, 0.5, 0.3))),
    "three classes": given_design(3, 3, _blend((0.5, 0.3, 0.2))),
    "rare class": given_design(3, 2, _blend((0.5, 0.3, 0.2)), offset=3.5),
    "30 experts": given_design(30, 2, _blend((0.4, 0.3, 0.3, *([0.0] * 27)))),
    "noise": _fitted(0.0, {"frequencies": DummyClassifier(), "line": _LINE, "tree": _TREE}),
    "overfitting": _fitted(1.0, {"line": _LINE, "knn1": KNeighborsClassifier(1), "tree": _TREE}),
}


def gate_truth(strength: float) -> Callable[[Floats, Floats], Floats]:
    """The mixture by a softmax gate that is linear in the inputs."""

    def truth(P: Floats, Z: Floats) -> Floats:
        return np.einsum("im,imc->ic", softmax(strength * Z @ DIRECTIONS, axis=1), P)

    return truth


def gate_class_design(strength: float) -> ClassDesign:
    """Three given experts of two classes; the truth is a linear softmax gate."""
    return given_design(3, 2, gate_truth(strength))


def nats(strength: float, n: int = 20_000) -> float:
    """By how many nats a row a gate of this strength lies below the best constant weights."""
    rng = np.random.default_rng(0)
    Z, P = rng.normal(size=(n, D)), softmax(rng.normal(scale=1.5, size=(n, 3, 2)) / np.sqrt(2.0), axis=2)
    truth = gate_truth(strength)(P, Z)
    F, weight = P.transpose(0, 2, 1).reshape(-1, 3), truth.ravel()
    constant = F @ stack_weights(F, LogLoss(), weight[None])[0]
    return float(weight @ (np.log(weight) - np.log(constant)) / n)
