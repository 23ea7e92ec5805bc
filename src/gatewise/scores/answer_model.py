"""Answers that depend on nothing but an ability for each model and a difficulty for each query (Rasch's model).

P(right) = sigma(a_m + b_i) with b_i ~ N(0, s^2). Given a and s, all that the scores of a query say about b_i is
their sum, so that rows with the same sum are counted together.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from gatewise.arrays import Floats, Indices

NODES = 61  # of the quadrature over the difficulty of a query
STEPS = 200  # of the fit of abilities and the spread of difficulty
SUMS = 16.0  # sums of scores that are no whole numbers are rounded to this part of one
RARE = 1e-9  # chances stay so far from 0 and 1


class AnswerModel(NamedTuple):
    """Abilities (M,) and the standard deviation of the difficulty."""

    ability: Floats
    spread: float

    def difficulty(self, scores: Floats) -> Floats:
        """Posterior means (n,) of b_i given scores (n, M) from 0 to 1; easy queries have large ones."""
        sums, place = _sums(scores)
        nodes, _ = quadrature()
        return np.asarray((self.spread * (_posterior(self, sums) @ nodes))[place])

    def chances(self, scores: Floats) -> Floats:
        """Chances (n, M) of right answers, every b_i its posterior mean.

        No router can gain on answers that are drawn with them: the same model is best for every query.
        """
        return np.asarray(expit(self.ability + self.difficulty(scores)[:, None]))

    def best_of_all(self) -> float:
        """The chance that one answer or more is right: 1 - E_b prod_m (1 - sigma(a_m + b))."""
        nodes, weights = quadrature()
        wrong = expit(-(self.ability + self.spread * nodes[:, None]))  # (nodes, M)
        return float(1.0 - weights @ wrong.prod(axis=1))


def fit_answers(scores: Floats) -> AnswerModel:
    """Abilities and the spread of the difficulty by maximum likelihood, from scores (n, M) from 0 to 1.

    Steps of the marginal likelihood, whose integral over b is a sum over NODES.

    >>> rng = np.random.default_rng(0)
    >>> model = fit_answers((rng.random((2000, 3)) < 0.5).astype(float))
    >>> bool(abs(model.best_of_all() - 0.875) < 0.02)
    True
    """
    nodes, _ = quadrature()
    sums, place = _sums(scores)
    counts = np.bincount(place)
    right_by_sum = np.stack([np.bincount(place, column) for column in scores.T], axis=1)  # (U, M)
    share = np.clip(scores.mean(axis=0), 1e-3, 1.0 - 1e-3)
    model = AnswerModel(np.log(share / (1.0 - share)), 1.0)
    for _ in range(STEPS):
        chance = np.clip(expit(model.ability + model.spread * nodes[:, None]), RARE, 1.0 - RARE)  # (nodes, M)
        posterior = _posterior(model, sums)  # (U, nodes)
        mass = counts @ posterior
        slope, curve = posterior.T @ right_by_sum - mass[:, None] * chance, mass[:, None] * chance * (1.0 - chance)
        step = slope.sum(axis=0) / curve.sum(axis=0)
        turn = float((nodes[:, None] * slope).sum() / (nodes[:, None] ** 2 * curve).sum())
        model = AnswerModel(model.ability + step, max(0.0, model.spread + turn))
        if max(np.abs(step).max(), abs(turn)) < 1e-4:
            break
    return model


@cache
def quadrature() -> tuple[Floats, Floats]:
    """Nodes and weights of the mean over a standard normal variable."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    return nodes, weights / weights.sum()


def _sums(scores: Floats) -> tuple[Floats, Indices]:
    """The distinct sums of rows (U,), and the place (n,) of every row's."""
    found, place = np.unique(np.round(scores.sum(axis=1) * SUMS) / SUMS, return_inverse=True)
    return np.asarray(found), np.asarray(place, dtype=np.intp)


def _posterior(model: AnswerModel, sums: Floats) -> Floats:
    """The distribution over the nodes (U, nodes) given the sum of a query's scores."""
    nodes, weights = quadrature()
    wrong = np.logaddexp(0.0, model.ability + model.spread * nodes[:, None]).sum(axis=1)  # -log P(all wrong)
    with np.errstate(divide="ignore"):
        log_like = sums[:, None] * model.spread * nodes - wrong + np.log(weights)
    found = np.exp(log_like - log_like.max(axis=1, keepdims=True))
    return np.asarray(found / found.sum(axis=1, keepdims=True))
