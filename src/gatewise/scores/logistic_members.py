"""Logistic score models: a logit is the model's ability, the query's difficulty, and what features say of the model.

    P(right) = sigma(a_m + b_i + f_m(x_i)),

where b_i takes a query's difficulty out, as centring does for ridge regressions. A step of the fit is a ridge
regression of the working response f + (score - chance) / weight (`ridge_members.fit_ridge`), with one weight a model.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from gatewise.arrays import Floats
from gatewise.scores.answer_model import fit_answers
from gatewise.scores.leaders import centre, leading_models, with_leaders
from gatewise.scores.queries import Design, Queries
from gatewise.scores.ridge_members import fit_ridge, RidgeFit, Spectrum, spectrum

STEPS = 4
PROBIT = np.pi / 8.0  # E sigma(t + s e) is about sigma(t / sqrt(1 + PROBIT s^2)) for a standard normal e


class LogisticFit(NamedTuple):
    """a + f(x) as a ridge fit, the difficulty of a query as another, and the range of the scores.

    ``shrinkage`` is 1 / sqrt(1 + PROBIT s^2) with the standard deviation s of what features do not say of b.
    """

    logits: RidgeFit
    difficulty: RidgeFit
    shrinkage: float
    unit: float

    def forecast(self, features: Floats) -> Floats:
        """Forecasts (n, M) of centred scores."""
        logits = self.logits.forecast(features) + self.difficulty.forecast(features)
        return centre(self.unit * expit(self.shrinkage * logits))


def fit_logistic(seen: Spectrum, scores: Floats) -> LogisticFit:
    """The logistic model of scores (n, M), whose range is taken as that from wrong to right.

    The logits of the leading models differ from one another as in a fit to them alone.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(2000, 1))
    >>> right = rng.random((2000, 2)) < expit(np.c_[x, -x])
    >>> fit_logistic(spectrum(x), right.astype(float)).forecast(np.array([[1.0]])).round(1)
    array([[ 0.2, -0.2]])
    """
    low = float(scores.min())
    unit = float(scores.max()) - low or 1.0
    right = (scores - low) / unit
    logits, b = _fit_logits(seen, right)
    leaders = leading_models(right)
    if len(leaders) < right.shape[1]:
        own, _ = _fit_logits(seen, right[:, leaders])
        level = with_leaders(logits.level, own.level, leaders)
        logits = logits._replace(
            level=level, coefficients=with_leaders(logits.coefficients, own.coefficients, leaders)
        )
    difficulty = fit_ridge(seen, b)
    rest = b - difficulty.level - seen.rows @ difficulty.coefficients
    return LogisticFit(logits, difficulty, 1.0 / np.sqrt(1.0 + PROBIT * float(rest.var())), unit)


def _fit_logits(seen: Spectrum, right: Floats) -> tuple[RidgeFit, Floats]:
    """a_m + f_m(x) as a ridge fit, and the difficulties b (n, 1), from scores (n, M) from 0 to 1."""
    model = fit_answers(right)
    b = model.difficulty(right)[:, None]
    logits = _step(seen, right, b, np.broadcast_to(model.ability, right.shape))
    for _ in range(STEPS - 1):
        logits = _step(seen, right, b, logits.level + seen.rows @ logits.coefficients)
    return logits, b


def _step(seen: Spectrum, right: Floats, b: Floats, f: Floats) -> RidgeFit:
    """The ridge regression of the working response at logits f + b (n, M)."""
    chance = expit(f + b)
    weight = chance * (1.0 - chance)
    weight = np.maximum(weight.mean(axis=0), 0.5 * weight.max(axis=0))  # no step goes too far
    return fit_ridge(seen, f + (right - chance) / weight)


@dataclass(frozen=True, eq=False)
class LogisticMember:
    """A logistic model on the features of queries, with or without text."""

    design: Design
    fit: LogisticFit

    def forecast(self, queries: Queries) -> Floats:
        """Forecasts (n, M) of centred scores."""
        return self.fit.forecast(queries.design(self.design))


def fit_logistic_member(queries: Queries, scores: Floats, design: Design) -> LogisticMember:
    """A logistic model of scores (n, M) on the features."""
    return LogisticMember(design, fit_logistic(spectrum(queries.design(design)), scores))
