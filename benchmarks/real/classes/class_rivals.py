"""Who combines the experts' probabilities: each rival is a name and a function from a split to test probabilities."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, StackingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from benchmarks.real.classes.answers import Answers, StoredExpert
from benchmarks.real.classes.dynamic_selection import METHODS, select_dynamically
from gatewise.app.models.default_pool import numeric_columns, ordinal_inputs, scaled_inputs, text_columns
from gatewise.arrays import Floats, Indices
from gatewise.estimators import MoEClassifier
from gatewise.losses import LogLoss
from gatewise.router.class_rows import ClassRows
from gatewise.router.settings import MoESettings
from gatewise.solvers.softmax_path import stack_weights

STACK, OURS = "simplex stack", "gatewise"
ROUTER_VERSION = 7  # count up when the classifier's probabilities change
GREEDY_STEPS = 50
DYNAMIC_FLOOR = 0.01  # of the class frequencies: DESlib's answers may be 0, where the log loss has no end

ClassRival = Callable[[Answers], Floats]


def best_single(given: Answers) -> Floats:
    """The expert of least held-out log loss."""
    P, Q = given.floored
    losses = -np.log(ClassRows(P, given.outcome).observed).mean(axis=0)
    return np.asarray(Q[:, int(losses.argmin())])


def soft_voting(given: Answers) -> Floats:
    """The mean."""
    return np.asarray(given.floored[1].mean(axis=1))


def simplex_stack(given: Answers) -> Floats:
    """The convex combination of least held-out log loss."""
    P, Q = given.floored
    F = ClassRows(P, given.outcome).observed
    return np.asarray(np.einsum("m,imc->ic", stack_weights(F, LogLoss(), np.ones((1, len(F))))[0], Q))


def greedy_weights(P: Floats, outcome: Indices, steps: int = GREEDY_STEPS) -> Floats:
    """Ensemble selection with replacement by log loss (Caruana and others, 2004), (M,), after the best step.

    >>> P = np.array([[[0.9, 0.1], [0.5, 0.5]], [[0.1, 0.9], [0.5, 0.5]]])
    >>> greedy_weights(P, np.array([0, 1]))
    array([1., 0.])
    """
    F, counts = ClassRows(P, outcome).observed, np.zeros(P.shape[1])
    total, best, least = np.zeros(len(F)), counts, np.inf
    for step in range(1, steps + 1):
        losses = -np.log((total[:, None] + F) / step).mean(axis=0)
        chosen = int(losses.argmin())
        counts, total = counts + np.eye(len(counts))[chosen], total + F[:, chosen]
        if losses[chosen] < least:
            best, least = counts / step, losses[chosen]
    return np.asarray(best)


def greedy(given: Answers) -> Floats:
    """Greedy selection with replacement."""
    P, Q = given.floored
    return np.asarray(np.einsum("m,imc->ic", greedy_weights(P, given.outcome), Q))


def logistic_stack(given: Answers) -> Floats:
    """scikit-learn's `StackingClassifier` with its default, a logistic regression on the probabilities."""
    return _stacked(given, LogisticRegression(max_iter=2000), passthrough=False)


def boosted_stack(given: Answers) -> Floats:
    """`StackingClassifier` with boosted trees on probabilities and inputs."""
    return _stacked(given, _boosting(given), passthrough=True)


def dynamic(name: str, given: Answers) -> Floats:
    """A method of DESlib; its regions are of standardized numbers and one-hot text."""
    encode = scaled_inputs(numeric_columns(given.X), text_columns(given.X)).fit(given.X)
    P, Q = given.floored
    p = select_dynamically(
        name, encode.transform(given.X), P, given.outcome, encode.transform(given.X_test), Q, given.seed
    )
    frequencies = np.bincount(given.outcome) / len(given.outcome)
    return (1.0 - DYNAMIC_FLOOR) * p + DYNAMIC_FLOOR * frequencies


def routed(settings: MoESettings | None, given: Answers) -> Floats:
    """`MoEClassifier` with these settings."""
    model = MoEClassifier(_experts(given), cv=given.folds, random_state=given.seed, settings=settings)
    return model.fit(given.X, given.outcome).predict_proba(given.X_test)


CLASS_RIVALS: Mapping[str, ClassRival] = {
    "best single": best_single,
    "soft voting": soft_voting,
    STACK: simplex_stack,
    "greedy selection": greedy,
    "logistic stack": logistic_stack,
    "boosted stack": boosted_stack,
    **{name: partial(dynamic, name) for name in METHODS},
}


def _experts(given: Answers) -> list[tuple[str, StoredExpert]]:
    answers = np.concatenate([given.P, given.Q])
    return [(name, StoredExpert(np.ascontiguousarray(answers[:, m]))) for m, name in enumerate(given.names)]


def _stacked(given: Answers, final: Any, passthrough: bool) -> Floats:
    """A stack over experts that know what they said of every row; training rows were held out."""
    stack = StackingClassifier(_experts(given), final, cv="prefit", passthrough=passthrough)
    return np.asarray(stack.fit(given.X, given.outcome).predict_proba(given.X_test))


def _floats(values: Any) -> Floats:
    return np.asarray(values, dtype=float)


def _boosting(given: Answers) -> Any:
    """Boosting on an array of probabilities and then the columns of X, text among numbers, which becomes codes."""
    count = len(given.names) * (given.n_classes if given.n_classes > 2 else 1)
    columns = list(given.X.columns)
    text = [count + columns.index(name) for name in text_columns(given.X)]
    numbers = [*range(count), *(count + columns.index(name) for name in numeric_columns(given.X))]
    trees = HistGradientBoostingClassifier(categorical_features=list(range(len(text))), random_state=0)
    return make_pipeline(ordinal_inputs(numbers, text), FunctionTransformer(_floats), trees)
