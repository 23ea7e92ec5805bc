"""What a run says: ranks, excess over the best of a row, against the simplex stack, calibration; crossed halves."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from scipy.stats import rankdata

from benchmarks.real.classes.class_rivals import OURS, STACK
from benchmarks.real.classes.class_run import ClassResult, entry_name
from gatewise.arrays import Floats

LARGE = 500  # rows of training and test together: from here on the worst excess over the simplex stack counts
TIE = 1e-9


@dataclass(frozen=True)
class ClassStanding:
    """How one method did over all data sets, from means over the splits of each.

    ``excess`` is the mean over data sets of the relative log loss less the least of the row; ``worst`` the largest
    excess over the simplex stack among data sets of 500 rows or more.
    """

    method: str
    rank: float
    accuracy_rank: float
    excess: float
    worst: float
    worst_data: str
    calibration_error: float
    brier: float
    auc: float


def table(results: Sequence[ClassResult], measure: str) -> tuple[list[str], list[str], Floats]:
    """Data sets, methods and the means over splits, (data sets, methods)."""
    data = list(dict.fromkeys(one.data for one in results))
    methods = list(dict.fromkeys(one.method for one in results))
    sums, counts = np.zeros((2, len(data), len(methods)))
    for one in results:
        place = data.index(one.data), methods.index(one.method)
        value = getattr(one, measure)
        if np.isfinite(value):
            sums[place] += value
            counts[place] += 1.0
    with np.errstate(invalid="ignore"):
        return data, methods, sums / counts


def mean_ranks(values: Floats) -> Floats:
    """Mean ranks (methods,) of values (data sets, methods), small ones first; equal ones share a rank.

    >>> mean_ranks(np.array([[0.1, 0.2, 0.2], [0.3, 0.1, 0.2]]))
    array([2.  , 1.75, 2.25])
    """
    rounded = np.round(values / TIE) * TIE
    return np.asarray(np.mean([rankdata(row) for row in rounded], axis=0))


def class_standings(results: Sequence[ClassResult]) -> list[ClassStanding]:
    """Every method's standing, best rank in log loss first."""
    data, methods, relative = table(results, "relative")
    wrong = 1.0 - table(results, "accuracy")[2]
    others = {name: np.nanmean(table(results, name)[2], axis=0) for name in ("calibration_error", "brier", "auc")}
    ranks, accuracy = mean_ranks(relative), mean_ranks(wrong)
    excess = (relative - relative.min(axis=1, keepdims=True)).mean(axis=0)
    sizes = {one.data: one.n_train + one.n_test for one in results}
    large = np.array([sizes[name] >= LARGE for name in data])
    against = relative - relative[:, [methods.index(STACK)]]
    against[~large] = -np.inf
    found = []
    for j, name in enumerate(methods):
        row = int(against[:, j].argmax())
        found.append(
            ClassStanding(
                method=name,
                rank=float(ranks[j]),
                accuracy_rank=float(accuracy[j]),
                excess=float(excess[j]),
                worst=float(against[row, j]),
                worst_data=data[row],
                calibration_error=float(others["calibration_error"][j]),
                brier=float(others["brier"][j]),
                auc=float(others["auc"][j]),
            )
        )
    return sorted(found, key=lambda one: one.rank)


def grid_losses(results: Sequence[ClassResult], grid: Sequence[str]) -> dict[str, float]:
    """For every entry of the grid the mean over data sets of its relative log loss less the simplex stack's."""
    _, methods, relative = table(results, "relative")
    stack = relative[:, methods.index(STACK)]
    return {one: float((relative[:, methods.index(entry_name(one))] - stack).mean()) for one in grid}


def as_ours(results: Sequence[ClassResult], entry: str) -> list[ClassResult]:
    """The rivals and one entry of the grid, which is called by the router's name."""
    mine = entry_name(entry)
    kept = [one for one in results if one.method == mine or not one.method.startswith(f"{OURS}: ")]
    return [replace(one, method=OURS) if one.method == mine else one for one in kept]


def crossed(
    results: Sequence[ClassResult], halves: Sequence[Sequence[str]], grid: Sequence[str]
) -> tuple[list[str], list[ClassResult]]:
    """The entries chosen for the two halves, each on the other half, and the results with them."""
    parts = [[one for one in results if one.data in set(names)] for names in halves]
    losses = [grid_losses(part, grid) for part in reversed(parts)]
    chosen = [min(grid, key=values.__getitem__) for values in losses]
    return chosen, [one for part, entry in zip(parts, chosen, strict=True) for one in as_ours(part, entry)]


def record(standings: Sequence[ClassStanding]) -> list[dict[str, Any]]:
    """As JSON can hold it."""
    return [asdict(one) for one in standings]
