"""Could another router do better? One is fitted on half of the documents and judged on the others."""

from dataclasses import dataclass

import numpy as np

from gatewise.arrays import Booleans, Floats, Indices
from gatewise.geometry.grouped_rows import group_sums, halves, ratio_interval
from gatewise.stats import Interval

PENALTIES: Floats = np.array([1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3, 1e4])
FOLDS = 4


@dataclass(frozen=True)
class GateRegret:
    """What a token's loss falls by when a router fitted on other documents chooses its last expert, others unchanged.

    ``gain`` is on the held-out documents, in nats a token: a lower estimate of the regret, as a still better router
    may exist. ``oracle`` is the gain of the best expert of each token, which no router knows. ``changed`` is the
    fraction of tokens for which the fitted router chooses another expert.
    """

    layer: int
    gain: Interval
    oracle: float
    changed: float


@dataclass(frozen=True, eq=False)
class RidgeScores:
    """Predicted rises of the loss, linear in the hidden states, for a list of penalties."""

    centre: Floats
    scale: Floats
    level: Floats
    coefficients: Floats  # (P, d, M)

    def __call__(self, hidden: Floats) -> Floats:
        """The predictions (P, n, M) at hidden states (n, d)."""
        return np.asarray((hidden - self.centre) / self.scale @ self.coefficients + self.level)


def ridge_scores(hidden: Floats, rises: Floats, penalties: Floats) -> RidgeScores:
    """Least squares of rises (n, M) on hidden states (n, d), standardised, with each penalty times n."""
    centre, scale = hidden.mean(axis=0), hidden.std(axis=0) + 1e-9
    X, level = (hidden - centre) / scale, rises.mean(axis=0)
    values, vectors = np.linalg.eigh(X.T @ X / len(X))
    target = vectors.T @ (X.T @ (rises - level)) / len(X)
    shrunk = target / (np.maximum(values, 0.0)[:, None] + penalties[:, None, None])
    return RidgeScores(centre, scale, level, vectors @ shrunk)


def chosen_experts(predicted: Floats, barred: Booleans) -> Indices:
    """The expert of least predicted rise, (..., n), of those that are not active in another place, (n, M)."""
    return np.asarray(np.where(barred, np.inf, predicted).argmin(axis=-1))


def measured_regret(
    layer: int,
    hidden: Floats,
    rises: Floats,
    barred: Booleans,
    current: Indices,
    documents: Indices,
    rng: np.random.Generator,
) -> GateRegret:
    """The gain of a router that is fitted to rises (n, M) of the loss, with documents as units.

    The scores are ridge regressions of the rises on the hidden states, so that the router is linear and takes the
    largest score, as most are. The penalty is the one of largest gain in folds of the first half's documents.
    """
    first, second = halves(documents, rng)
    penalty = _best_penalty(hidden[first], rises[first], barred[first], documents[first], rng)
    router = ridge_scores(hidden[first], rises[first], np.array([penalty]))
    choice = chosen_experts(router(hidden[second])[0], barred[second])
    gain = -rises[second][np.arange(len(second)), choice]
    units = np.unique(documents[second], return_inverse=True)[1]
    sums = group_sums(np.column_stack([gain, np.ones_like(gain)]), units, int(units.max()) + 1)
    oracle = -np.where(barred[second], np.inf, rises[second]).min(axis=1)
    return GateRegret(
        layer, ratio_interval(sums[:, 0], sums[:, 1]), float(oracle.mean()), float((choice != current[second]).mean())
    )


def _best_penalty(
    hidden: Floats, rises: Floats, barred: Booleans, documents: Indices, rng: np.random.Generator
) -> float:
    names, units = np.unique(documents, return_inverse=True)
    fold = rng.permutation(len(names))[units] % FOLDS
    gains = np.zeros(len(PENALTIES))
    for part in range(FOLDS):
        out = fold == part
        choices = chosen_experts(ridge_scores(hidden[~out], rises[~out], PENALTIES)(hidden[out]), barred[out])
        gains -= np.take_along_axis(rises[out], choices.T, axis=1).sum(axis=0)
    return float(PENALTIES[gains.argmax()])
