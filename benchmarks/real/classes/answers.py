"""One split of one data set with what every expert said of it, computed once and kept on disk."""

import os
import warnings
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import StratifiedKFold
from threadpoolctl import threadpool_limits

from benchmarks.real.classes.class_pools import CLASS_POOLS, pool_versions
from benchmarks.real.classes.class_sets import ClassSet
from gatewise.arrays import Floats, Indices
from gatewise.experts.class_expert import ClassExpert
from gatewise.router.class_rows import ClassRows, cross_fitted_floors, ProbabilityFloor

REVISION = 2  # count up when pools, splits or calibrations change in a way that versions and names do not say


class Answers(NamedTuple):
    """A split with the probabilities of M experts, as they say them.

    Training rows are numbered from 0 to n - 1 in the index of ``X``, test rows go on from n in ``X_test``. ``P`` are
    out of fold, ``Q`` are those of experts fitted to all training rows.
    """

    names: tuple[str, ...]
    n_classes: int
    X: Any  # a data frame, (n, d)
    outcome: Indices  # (n,)
    X_test: Any  # (n_test, d)
    outcome_test: Indices  # (n_test,)
    folds: list[tuple[Indices, Indices]]
    P: Floats  # (n, M, C)
    Q: Floats  # (n_test, M, C)
    seed: int

    @property
    def floored(self) -> tuple[Floats, Floats]:
        """P and Q bounded away from 0 as `MoEClassifier` does it: a mixture that says 0 once has no log loss."""
        rows, weight = ClassRows(self.P, self.outcome), np.ones(len(self.outcome))
        P = cross_fitted_floors(rows, weight, self.folds)
        return P, ProbabilityFloor.fit(rows, weight).apply(self.Q)


class StoredExpert(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier that was asked before: its answers (rows, C) by the number of the row in the data frame's index.

    A training row gets the answer from the fold that held it out, so ``fit`` has nothing to do.
    """

    def __init__(self, answers: Floats) -> None:
        self.answers = answers
        self.classes_ = np.arange(answers.shape[1])

    def fit(self, X: Any, y: Any) -> "StoredExpert":  # noqa: ARG002 - it was fitted before
        return self

    def predict_proba(self, X: Any) -> Floats:
        """(n, C)."""
        return np.asarray(self.answers[X.index.to_numpy()])

    def predict(self, X: Any) -> Indices:
        """The most probable class, (n,)."""
        return np.asarray(self.predict_proba(X).argmax(axis=1))


def make_answers(data: ClassSet, split: int, pool: str, folder: Path | None = None) -> Answers:
    """The split and its answers: those that ``folder`` holds, else new ones, which it will hold."""
    X, labels = data.load()
    train, test = data.split(labels, split)
    classes, outcome = np.unique(labels[train], return_inverse=True)
    seed = (data.seed + split) % 2**31
    folds = _folds(outcome, seed)
    rows = X.iloc[train].reset_index(drop=True)
    other = X.iloc[test].reset_index(drop=True)
    other.index += len(rows)
    experts = CLASS_POOLS[pool](rows)
    made_of = f"{REVISION} {zlib.crc32(repr(data).encode())} {pool_versions(pool)}"
    path = None if folder is None else folder / "answers" / pool / f"{data.package}-{data.item}-{split}.npz"
    kept = None if path is None else _kept(path, made_of)
    if kept is None:
        kept = _ask(experts, rows, outcome, other, folds, len(classes), seed)
        if path is not None:
            _keep(path, made_of, kept)
    names = tuple(name for name, _ in experts)
    outcome_test = np.searchsorted(classes, labels[test])
    return Answers(names, len(classes), rows, outcome, other, outcome_test, folds, *kept, seed)


def _folds(outcome: Indices, seed: int) -> list[tuple[Indices, Indices]]:
    with warnings.catch_warnings():  # a class may have fewer rows than there are folds
        warnings.filterwarnings("ignore", "The least populated class", UserWarning)
        return list(StratifiedKFold(5, shuffle=True, random_state=seed).split(outcome, outcome))


def _ask(
    experts: Any, X: Any, outcome: Indices, X_test: Any, folds: Any, n_classes: int, seed: int
) -> tuple[Floats, Floats]:
    """Fit every expert to every fold and to all rows."""
    P, Q = np.empty((len(X), len(experts), n_classes)), np.empty((len(X_test), len(experts), n_classes))
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # convergence, few rows of a class, names of columns
        for m, (_, expert) in enumerate(experts):
            for known, out in folds:
                P[out, m] = _fitted(expert, X.iloc[known], outcome[known], n_classes, seed).predict(X.iloc[out])
            Q[:, m] = _fitted(expert, X, outcome, n_classes, seed).predict(X_test)
    return P, Q


def _fitted(expert: Any, X: Any, outcome: Indices, n_classes: int, seed: int) -> ClassExpert:
    return ClassExpert(expert, np.arange(n_classes), seed).fit(X, outcome)


def _kept(path: Path, made_of: str) -> tuple[Floats, Floats] | None:
    """What a file holds, unless data set, pool or packages are others now."""
    if not path.exists():
        return None
    with np.load(path) as found:
        return (found["P"], found["Q"]) if str(found["made_of"]) == made_of else None


def _keep(path: Path, made_of: str, found: tuple[Floats, Floats]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".{os.getpid()}.npz")
    np.savez_compressed(partial, P=found[0], Q=found[1], made_of=np.array(made_of))
    partial.replace(path)
