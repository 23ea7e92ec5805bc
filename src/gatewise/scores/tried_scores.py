"""Scores and costs as a user hands them over, and complete pseudo-scores where not every model was tried.

With the chance p_im that model m was tried on query i and a forecast f_m(x_i) from other rows,

    pseudo-score_im = f_m(x_i) + tried_im (score_im - f_m(x_i)) / p_im,

whose mean given x is that of the score whenever p or f is right (doubly robust).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gatewise.arrays import Booleans, Floats, Indices
from gatewise.scores.ridge_members import fit_observed_ridge

LEAST_TRIED = 20  # rows on which every model must have been tried
LEAST_CHANCE = 1e-3
ASSUMED = (
    "not every model was tried on every query, and no propensities were given: it is assumed that the chance of "
    "being tried does not depend on the query, or that a ridge regression on the features forecasts the scores "
    "without bias"
)


@dataclass(frozen=True, eq=False)
class ScoreTable:
    """Scores of M models on n queries, complete: ``scores`` (n, M) hold pseudo-scores where ``tried`` is incomplete.

    ``repeats`` (n, M, R) are the scores as given where each model was asked several times, else None. ``costs``
    (n, M); ``by_query`` says whether they differ from query to query. ``observed`` are the least and the largest
    score of the whole table, which pseudo-scores may exceed. ``assumption`` says what the pseudo-scores rest on, ""
    if all models were tried.
    """

    names: tuple[str, ...]
    scores: Floats
    costs: Floats
    by_query: bool
    tried: Booleans
    repeats: Floats | None
    observed: tuple[float, float]
    assumption: str

    def __getitem__(self, rows: Any) -> "ScoreTable":
        repeats = None if self.repeats is None else self.repeats[rows]
        parts = (self.scores[rows], self.costs[rows], self.by_query, self.tried[rows], repeats, self.observed)
        return ScoreTable(self.names, *parts, self.assumption)

    @property
    def complete(self) -> bool:
        """Whether every model was tried on every query."""
        return bool(self.tried.all())


def score_table(features: Floats, scores: Any, costs: Any, propensity: Any, folds: Sequence[Indices]) -> ScoreTable:
    """Check scores (n, M) or (n, M, R), costs (M,) or (n, M), chances of being tried (M,) or (n, M); fill the gaps.

    ``features`` (n, q) and ``folds`` (held-out rows) are those of the forecasts that fill gaps.
    """
    names, values, repeats = _scores(scores, len(features))
    n = len(values)
    tried = ~np.isnan(values)
    few = tried.sum(axis=0) < min(LEAST_TRIED, n)
    if few.any():
        m = int(few.argmax())
        raise ValueError(
            f"scores: {names[m]!r} was tried on {int(tried[:, m].sum())} queries; every model needs "
            f"{min(LEAST_TRIED, n)}: leave it out or try it more often"
        )
    table_costs, by_query = _costs(costs, names, n)
    observed = float(np.nanmin(values)), float(np.nanmax(values))
    if tried.all():
        return ScoreTable(names, values, table_costs, by_query, tried, repeats, observed, "")
    chance = _chances(propensity, names, tried)
    filled = pseudo_scores(features, values, chance, folds)
    assumption = ASSUMED if propensity is None else "the given propensities are the chances of being tried"
    return ScoreTable(names, filled, table_costs, by_query, tried, None, observed, assumption)


def pseudo_scores(features: Floats, scores: Floats, chance: Floats, folds: Sequence[Indices]) -> Floats:
    """Scores (n, M) with NaN for not tried, as complete doubly robust pseudo-scores; forecasts are cross-fitted."""
    forecast = np.empty_like(scores)
    for held_out in folds:
        rest = np.setdiff1d(np.arange(len(scores)), held_out)
        forecast[held_out] = fit_observed_ridge(features[rest], scores[rest])(features[held_out])
    tried = ~np.isnan(scores)
    return np.asarray(forecast + np.where(tried, (np.where(tried, scores, 0.0) - forecast) / chance, 0.0))


def _scores(scores: Any, n: int) -> tuple[tuple[str, ...], Floats, Floats | None]:
    """Names of the models, mean scores (n, M) with NaN for not tried, and repeated scores (n, M, R) or None."""
    labels = [str(name) for name in scores.columns] if hasattr(scores, "columns") else None
    try:
        values = np.asarray(scores, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"scores must be numbers, NaN where a model was not tried: {error}") from error
    if values.ndim not in (2, 3) or values.shape[0] != n or values.shape[1] < 2:
        raise ValueError(
            f"scores must have shape ({n}, M) or ({n}, M, R), one row for each of X and two models or more, "
            f"not {values.shape}"
        )
    if np.isinf(values).any():
        raise ValueError("scores must lie in a bounded range, but one is infinite")
    names = labels or [f"model {m}" for m in range(values.shape[1])]
    if len(set(names)) < len(names):
        raise ValueError("scores: two models have the same name")
    if values.ndim == 2:
        return tuple(names), values, None
    if np.isnan(values).any():
        raise ValueError("scores of shape (n, M, R) must be complete; give the means (n, M), with NaN for not tried")
    return tuple(names), values.mean(axis=2), values if values.shape[2] > 1 else None


def _costs(costs: Any, names: Sequence[str], n: int) -> tuple[Floats, bool]:
    """Costs (n, M) and whether they were given for every query."""
    M = len(names)
    if costs is None:
        return np.zeros((n, M)), False
    values = _by_model(costs, names, "costs")
    if values.shape not in ((M,), (n, M)):
        raise ValueError(f"costs must have shape ({M},) or ({n}, {M}), not {values.shape}")
    if not np.isfinite(values).all() or (values < 0).any():
        raise ValueError("costs must be finite and not negative")
    return np.array(np.broadcast_to(values, (n, M))), values.ndim == 2


def _chances(propensity: Any, names: Sequence[str], tried: Booleans) -> Floats:
    if propensity is None:
        return np.array(np.broadcast_to(tried.mean(axis=0), tried.shape))
    chance = _by_model(propensity, names, "propensity")
    if chance.shape not in (tried.shape, tried.shape[1:]):
        raise ValueError(f"propensity must have shape {tried.shape} or {tried.shape[1:]}, not {chance.shape}")
    chance = np.array(np.broadcast_to(chance, tried.shape))
    if not ((chance >= LEAST_CHANCE) & (chance <= 1.0)).all():
        raise ValueError(f"propensity must hold chances from {LEAST_CHANCE} to 1")
    return chance


def _by_model(values: Any, names: Sequence[str], role: str) -> Floats:
    """Numbers as an array, in the order of the models where a data frame, a series or a dict names them.

    >>> _by_model({"b": 2.0, "a": 1.0}, ["a", "b"], "costs")
    array([1., 2.])
    """
    if isinstance(values, Mapping):
        own: Any = {str(name): value for name, value in values.items()}
    elif hasattr(values, "columns"):
        own = {str(name): np.asarray(values[name]) for name in values.columns}
    elif hasattr(values, "index") and hasattr(values, "to_dict"):  # a series: its labels are names, or places
        own = {str(name): value for name, value in values.to_dict().items()}
        own = own if set(own) != {str(m) for m in range(len(own))} else None
    else:
        own = None
    if own is not None:
        missing = [name for name in names if name not in own]
        if missing:
            raise ValueError(f"{role}: there are none for the model {missing[0]!r}; they name {', '.join(own)}")
        values = np.stack([np.asarray(own[name]) for name in names], axis=-1)
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{role} must be numbers: {error}") from error
