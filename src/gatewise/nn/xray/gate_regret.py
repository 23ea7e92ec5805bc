"""Could another router do better? One is fitted on half of the documents and judged on the others."""

from dataclasses import dataclass, replace

import numpy as np

from gatewise.arrays import Booleans, Floats, Indices
from gatewise.geometry.grouped_rows import group_sums, halves, positive_ratio_p_value, ratio_interval
from gatewise.stats import adjusted_p_values, Interval

PENALTIES: Floats = np.array([1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3, 1e4])
THRESHOLDS: Floats = np.array([0.0, 0.01, 0.03, 0.1, 0.3, np.inf])  # nats
FOLDS = 4


@dataclass(frozen=True)
class GateRegret:
    """What a token's loss falls by when a router fitted on other documents chooses its last expert, others unchanged.

    ``gain`` is on the held-out documents, in nats a token: a lower estimate of the regret, as a still better router
    may exist. ``oracle`` is the gain of the best expert of each token, which no router knows. ``changed`` is the
    fraction of tokens for which the fitted router chooses another expert, and ``adjusted`` the p-value of no gain,
    adjusted for all layers that were asked for together.
    """

    layer: int
    gain: Interval
    oracle: float
    changed: float
    adjusted: float


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


def router_gains(predicted: Floats, rises: Floats, barred: Booleans) -> Floats:
    """What every router gains at every row, (P, T, n), from predictions (P, n, M) and rises (n, M).

    A router takes the expert of least predicted rise that is not active in another place of the token, (n, M), if the
    prediction is below minus its threshold, and leaves the token as it was otherwise.
    """
    allowed = np.where(barred, np.inf, predicted)
    choice = allowed.argmin(axis=-1)  # (P, n)
    least = np.take_along_axis(allowed, choice[..., None], axis=-1)[..., 0]
    gain = -rises[np.arange(len(rises)), choice]
    return np.where(least[:, None, :] < -THRESHOLDS[:, None], gain[:, None, :], 0.0)


def measured_regret(
    layer: int, hidden: Floats, rises: Floats, barred: Booleans, documents: Indices, rng: np.random.Generator
) -> GateRegret:
    """The gain of a router that is fitted to rises (n, M) of the loss, with documents as units.

    The scores are ridge regressions of the rises on the hidden states, as linear as the scores of most routers; a
    token whose best prediction does not pass a threshold stays where it is. Penalty and threshold are those of
    largest gain in folds of the first half's documents; the second half judges.
    """
    first, second = halves(documents, rng)
    place = _best_router(hidden[first], rises[first], barred[first], documents[first], rng)
    router = ridge_scores(hidden[first], rises[first], PENALTIES[place[0] : place[0] + 1])
    gain = router_gains(router(hidden[second]), rises[second], barred[second])[0, place[1]]
    units = np.unique(documents[second], return_inverse=True)[1]
    sums = group_sums(np.column_stack([gain, np.ones_like(gain)]), units, int(units.max()) + 1)
    oracle = -np.where(barred[second], np.inf, rises[second]).min(axis=1)
    changed = float((gain != 0.0).mean())
    interval, p_value = ratio_interval(sums[:, 0], sums[:, 1]), positive_ratio_p_value(sums[:, 0], sums[:, 1])
    return GateRegret(layer, interval, float(oracle.mean()), changed, p_value)


def adjusted_regrets(found: list[GateRegret]) -> tuple[GateRegret, ...]:
    """The same with p-values that are adjusted for all layers."""
    p_values = adjusted_p_values([one.adjusted for one in found])
    return tuple(replace(one, adjusted=float(p)) for one, p in zip(found, p_values, strict=True))


def _best_router(
    hidden: Floats, rises: Floats, barred: Booleans, documents: Indices, rng: np.random.Generator
) -> tuple[int, int]:
    """The places of the best penalty and threshold."""
    names, units = np.unique(documents, return_inverse=True)
    fold = rng.permutation(len(names))[units] % FOLDS
    gains = np.zeros((len(PENALTIES), len(THRESHOLDS)))
    for part in range(FOLDS):
        out = fold == part
        predicted = ridge_scores(hidden[~out], rises[~out], PENALTIES)(hidden[out])
        gains += router_gains(predicted, rises[out], barred[out]).sum(axis=2)
    best = int(gains.argmax())
    return best // len(THRESHOLDS), best % len(THRESHOLDS)
