"""What a run says: mean test errors, ranks, ratios to the best of a row and to the simplex stack."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import rankdata

from benchmarks.real.competitors import STACK
from benchmarks.real.run import SplitResult
from gatewise.arrays import Floats

TIE = 0.002  # errors within 0.2 % share a rank


@dataclass(frozen=True)
class Standing:
    """How one competitor did over all data sets; ratios are of test MSE, averaged over the splits first."""

    competitor: str
    mean_rank: float
    geometric_mean: float  # of the ratio to the best competitor of each data set
    worst: float  # ratio to the simplex stack
    worst_data: str


@dataclass(frozen=True)
class Errors:
    """Mean test MSE, a row per data set and a column per competitor."""

    data: tuple[str, ...]
    competitors: tuple[str, ...]
    mse: Floats

    @property
    def ratios(self) -> Floats:
        """MSE over the least of its row."""
        ratios: Floats = self.mse / self.mse.min(axis=1, keepdims=True)
        return ratios


def mean_errors(results: Sequence[SplitResult]) -> Errors:
    """The mean over the splits of each data set for each competitor, in the order in which they come."""
    data = tuple(dict.fromkeys(one.data for one in results))
    names = tuple(dict.fromkeys(one.competitor for one in results))
    mse = np.full((len(data), len(names)), np.nan)
    for i, row in enumerate(data):
        for j, name in enumerate(names):
            mse[i, j] = np.mean([one.mse for one in results if (one.data, one.competitor) == (row, name)])
    return Errors(data, names, mse)


def tied_ranks(row: Floats) -> Floats:
    """Ranks of the errors in a row, the mean rank for those within 0.2 % of the least of their group.

    >>> tied_ranks(np.array([1.0, 1.001, 1.5, 1.501, 0.5]))
    array([2.5, 2.5, 4.5, 4.5, 1. ])
    """
    groups, least = np.empty(len(row)), -np.inf
    for place, j in enumerate(np.argsort(row, kind="stable")):
        if place == 0 or row[j] > (1.0 + TIE) * least:
            least, group = row[j], place
        groups[j] = group
    return np.asarray(rankdata(groups))


def standings(errors: Errors) -> list[Standing]:
    """Mean rank, geometric mean of the ratios and the worst ratio to the simplex stack, best rank first.

    >>> table = Errors(("a", "b"), ("simplex stack", "mean"), np.array([[1.0, 2.0], [4.0, 2.0]]))
    >>> [(one.competitor, one.mean_rank, one.worst, one.worst_data) for one in standings(table)]
    [('simplex stack', 1.5, 1.0, 'a'), ('mean', 1.5, 2.0, 'a')]
    """
    ranks = np.mean([tied_ranks(row) for row in errors.mse], axis=0)
    logs = np.log(errors.ratios).mean(axis=0)
    stack = errors.competitors.index(STACK) if STACK in errors.competitors else None
    against = np.full_like(errors.mse, np.nan) if stack is None else errors.mse / errors.mse[:, [stack]]
    found = []
    for j, name in enumerate(errors.competitors):
        row = 0 if stack is None else int(against[:, j].argmax())
        worst = float(against[row, j])
        found.append(Standing(name, float(ranks[j]), float(np.exp(logs[j])), worst, errors.data[row]))
    return sorted(found, key=lambda one: one.mean_rank)


def fact_means(results: Sequence[SplitResult]) -> dict[str, dict[str, Any]]:
    """For every competitor that records facts: means of the numbers, counts of the words, over all runs."""
    found: dict[str, dict[str, Any]] = {}
    for name in dict.fromkeys(one.competitor for one in results if one.facts):
        mine = [one.facts for one in results if one.competitor == name and one.facts]
        found[name] = {key: _combine([facts[key] for facts in mine if key in facts]) for key in mine[0]}
    return found


def _combine(values: list[Any]) -> Any:
    if all(isinstance(value, str) for value in values):
        return {word: values.count(word) for word in sorted(set(values))}
    return float(np.mean([float(value) for value in values if value is not None] or [np.nan]))
