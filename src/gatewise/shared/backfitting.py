"""Shared and routed components of any learners: backfitting, with cross-fitted parts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from gatewise.arrays import as_count, as_positive, Floats, Indices
from gatewise.shared.partition import region_rows


@dataclass(frozen=True)
class Backfitting:
    """How to backfit: ``folds`` of the cross-fitting (None: parts are fitted values), and when to stop.

    A learner that interpolates, such as a deep forest, would explain every residual in its first turn; its part of
    the residuals must therefore come from rows that it was not fitted to. ``seed`` makes the folds and goes to
    learners whose own random_state is None, so that every turn applies one and the same map.
    """

    folds: int | None = 5
    max_iter: int = 100
    tol: float = 1e-6
    seed: int = 0

    def __post_init__(self) -> None:
        if self.folds is not None:
            as_count(self.folds, "folds", low=2)
        as_count(self.max_iter, "max_iter")
        as_positive(self.tol, "tol")


class Convergence(NamedTuple):
    """Whether the fitted function converged, and by how much it changed at each turn.

    A change is ||f_new - f_old|| / ||y - mean(y)|| over the rows.
    """

    converged: bool
    n_iter: int
    changes: tuple[float, ...]

    def __str__(self) -> str:
        how = "converged" if self.converged else "did not converge"
        return f"backfitting {how} in {self.n_iter} turns; last change {self.changes[-1]:.1e} of the deviation of y"


def backfit(
    X: Floats, y: Floats, labels: Indices, shared: Any, routed: Sequence[Any], spec: Backfitting
) -> tuple[Any, tuple[Any, ...], Convergence]:
    """Fitted shared learner, fitted routed learners and the report.

    f_S <- learn(X, y - f_R), then in each region f_R <- learn(X_j, y_j - f_S), until the sum converges. With
    linear learners and ``folds=None`` this is block descent on the joint least squares, and ends in its solution.
    """
    rows = region_rows(labels, len(routed), [1] * len(routed))
    for j, index in enumerate(rows):
        if len(index) < (spec.folds or 1):
            raise ValueError(
                f"region {j} has {len(index)} rows, fewer than the {spec.folds} folds of the cross-fitting"
            )
    folds = _folds(rows, len(y), spec)
    parts, changes = np.zeros((2, len(y))), []
    deviation = max(float(np.linalg.norm(y - y.mean())), np.finfo(float).tiny)
    for _ in range(spec.max_iter):
        before = parts.sum(axis=0)
        parts[0] = _part(shared, X, y - parts[1], folds, spec)
        for learner, index in zip(routed, rows, strict=True):
            parts[1, index] = _part(learner, X[index], (y - parts[0])[index], folds[index], spec)
        changes.append(float(np.linalg.norm(parts.sum(axis=0) - before)) / deviation)
        if changes[-1] < spec.tol:
            break
    report = Convergence(changes[-1] < spec.tol, len(changes), tuple(changes))
    last_shared = _learn(shared, X, y - parts[1], spec)
    rest = y - (parts[0] if spec.folds is not None else last_shared.predict(X))
    last_routed = [_learn(m, X[index], rest[index], spec) for m, index in zip(routed, rows, strict=True)]
    return last_shared, tuple(last_routed), report


def _folds(rows: Sequence[Indices], n: int, spec: Backfitting) -> Indices:
    """A fold for every row, equally many of each in every region."""
    fold = np.zeros(n, dtype=np.intp)
    rng = np.random.default_rng(spec.seed)
    for index in rows:
        fold[rng.permutation(index)] = np.arange(len(index)) % (spec.folds or 1)
    return fold


def _part(learner: Any, X: Floats, target: Floats, folds: Indices, spec: Backfitting) -> Floats:
    """A learner's part of the target at every row: fitted values, or predictions from the other folds."""
    if spec.folds is None:
        return np.asarray(_learn(learner, X, target, spec).predict(X), dtype=np.float64)
    part = np.empty(len(target))
    for fold in range(spec.folds):
        out = folds == fold
        part[out] = _learn(learner, X[~out], target[~out], spec).predict(X[out])
    return part


def _learn(learner: Any, X: Floats, target: Floats, spec: Backfitting) -> Any:
    copy = clone(learner)
    unset = {
        name: spec.seed
        for name, value in copy.get_params().items()
        if name.endswith("random_state") and value is None
    }
    return copy.set_params(**unset).fit(X, target)
