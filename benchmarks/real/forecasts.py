"""One split of one data set with what every expert forecast on it, computed once and kept on disk."""

import zlib
from pathlib import Path
from typing import Any, NamedTuple

import joblib
import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import cross_val_predict
from threadpoolctl import threadpool_limits

from benchmarks.real.competitors import Contest
from benchmarks.real.datasets import DataSet
from benchmarks.real.memo import Memo, Memoized
from benchmarks.real.pools import find_pool
from benchmarks.real.suites import select
from gatewise.arrays import Floats

Fold = tuple[NDArray[np.intp], NDArray[np.intp]]


class Forecasts(NamedTuple):
    """A split and the M experts on it; ``F`` are out-of-fold forecasts of the training rows."""

    data: str
    split: int
    names: tuple[str, ...]
    X_train: Any  # a data frame, (n, d)
    y_train: Floats  # (n,)
    X_test: Any  # (n_test, d)
    y_test: Floats  # (n_test,)
    folds: list[Fold]  # rows that a fold's experts were fitted on, rows that they forecast
    F: Floats  # (n, M)
    F_test: Floats  # (n_test, M), of experts fitted on all training rows
    made_of: str = ""


class Field(NamedTuple):
    """A contest, the rows that decide it, and the memo of its experts."""

    contest: Contest
    X_test: Any
    y_test: Floats
    memo: Memo


class Rows(NamedTuple):
    """A split without forecasts."""

    X_train: Any
    y_train: Floats
    X_test: Any
    y_test: Floats


def open_field(data: DataSet, split: int, pool: str = "default", folder: Path | None = None) -> Field:
    """The rows of a split, with experts that remember in ``folder``."""
    kept = None if folder is None else _kept(folder, data, split, pool)
    rows = _load(data, split) if kept is None else Rows(kept.X_train, kept.y_train, kept.X_test, kept.y_test)
    chosen = find_pool(pool)
    memo = Memo(None if folder is None else _path(folder, "predictions", pool, data, split, "npz"), chosen.versions)
    experts = [(name, Memoized(expert, memo)) for name, expert in chosen.make(rows.X_train)]
    contest = Contest(experts, rows.X_train, rows.y_train, data.seed + split, core=chosen.core)
    return Field(contest, rows.X_test, rows.y_test, memo)


def make_forecasts(data: DataSet, split: int, pool: str = "default", folder: Path | None = None) -> Forecasts:
    """The forecasts of a split: those that ``folder`` holds, else new ones, which it will hold."""
    kept = None if folder is None else _kept(folder, data, split, pool)
    if kept is not None:
        return kept
    field = open_field(data, split, pool, folder)
    with threadpool_limits(1):
        found = _ask(field, data, split)._replace(made_of=_made_of(data, pool))
    field.memo.save()
    if folder is not None:
        path = _path(folder, "forecasts", pool, data, split, "joblib")
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        joblib.dump(found, partial)
        partial.replace(path)
    return found


def load_forecasts(name: str, split: int, folder: Path | str, pool: str = "default") -> Forecasts:
    """The forecasts of the data set of that name, as `make_forecasts` left them in ``folder``; computes none."""
    (data,) = select("all", name)
    path = _path(Path(folder), "forecasts", pool, data, split, "joblib")
    if not path.exists():
        raise ValueError(f"folder must hold {path.name}, which python -m benchmarks.real.collect makes")
    kept: Forecasts = joblib.load(path)
    return kept


def stored_forecasts(folder: Path | str, pool: str = "default") -> list[tuple[str, int]]:
    """Every data set and split whose forecasts ``folder`` holds, in the order of the catalogue."""
    names = {f"{one.package}-{one.item}": (i, one.name) for i, one in enumerate(select("all"))}
    found = [path.stem.rsplit("-", 1) for path in (Path(folder) / "forecasts" / pool).glob("*.joblib")]
    known = sorted((*names[stem], int(split)) for stem, split in found if stem in names)
    return [(name, split) for _, name, split in known]


def _load(data: DataSet, split: int) -> Rows:
    X, y = data.load()
    train, test = data.split(len(y), split)
    return Rows(X.iloc[train].reset_index(drop=True), y[train], X.iloc[test].reset_index(drop=True), y[test])


def _kept(folder: Path, data: DataSet, split: int, pool: str) -> Forecasts | None:
    """What ``folder`` holds, unless the data set is defined otherwise now or packages have other versions."""
    path = _path(folder, "forecasts", pool, data, split, "joblib")
    kept: Forecasts | None = joblib.load(path) if path.exists() else None
    return kept if kept is not None and kept.made_of == _made_of(data, pool) else None


def _ask(field: Field, data: DataSet, split: int) -> Forecasts:
    contest = field.contest
    X, y, experts = contest.X, contest.y, contest.experts
    F = np.column_stack([cross_val_predict(expert, X, y, cv=contest.folds) for _, expert in experts])
    F_test = np.column_stack([clone(expert).fit(X, y).predict(field.X_test) for _, expert in experts])
    names, folds = tuple(name for name, _ in experts), list(contest.folds.split(X))
    return Forecasts(data.name, split, names, X, y, field.X_test, field.y_test, folds, F, F_test)


def _made_of(data: DataSet, pool: str) -> str:
    return f"{zlib.crc32(repr(data).encode())} {find_pool(pool).versions}"


def _path(folder: Path, kind: str, pool: str, data: DataSet, split: int, ending: str) -> Path:
    return folder / kind / pool / f"{data.package}-{data.item}-{split}.{ending}"
