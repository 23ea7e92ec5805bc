"""The run: every rival and every setting of the router on every split, each result kept as soon as it is there."""

import warnings
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.real.classes.answers import Answers, make_answers, REVISION
from benchmarks.real.classes.class_pools import pool_versions
from benchmarks.real.classes.class_rivals import CLASS_RIVALS, ClassRival, OURS, routed, ROUTER_VERSION
from benchmarks.real.classes.class_sets import ClassSet
from benchmarks.real.same_lists import lists_once
from gatewise.backends import processes
from gatewise.paper.runner import Progress, run_tasks, silent
from gatewise.paper.store import record_key, Store
from gatewise.router.class_scores import ClassScores
from gatewise.router.settings import MoESettings

# The settings that may be chosen from, without the test of gates, which touches no probability.
CLASS_GRID: Mapping[str, MoESettings] = {
    f"rate {rate}": MoESettings(rate=rate, test=False) for rate in (0.1, 0.3, 1.0)
}
RIVAL_VERSION = 2  # count up when a rival changes


@dataclass(frozen=True)
class ClassResult:
    """The test scores of one method on one split; ``relative`` is the log loss over that of the class frequencies."""

    data: str
    split: int
    method: str
    relative: float
    log_loss: float
    brier: float
    accuracy: float
    auc: float
    calibration_error: float
    n_train: int
    n_test: int
    n_classes: int


def entry_name(settings: str) -> str:
    """What the router with these settings is called among the methods."""
    return f"{OURS}: {settings}"


def methods() -> dict[str, ClassRival]:
    """The rivals, and the router with every setting of the grid."""
    return {**CLASS_RIVALS, **{entry_name(name): partial(routed, one) for name, one in CLASS_GRID.items()}}


def run_split(data: ClassSet, split: int, pool: str, folder: Path) -> list[ClassResult]:
    """Every method on one split; what ``folder`` holds already is not done again."""
    store, wanted = Store(folder / f"results-{pool}.sqlite"), methods()
    keys = {name: _key(data, split, pool, name) for name in wanted}
    known = store.select(keys.values())
    missing = {name: wanted[name] for name, key in keys.items() if key not in known}
    if missing:
        with threadpool_limits(1), warnings.catch_warnings(), lists_once():
            warnings.simplefilter("ignore")  # of scikit-learn about convergence and rare classes
            for name, record in _compute(make_answers(data, split, pool, folder), missing):
                store.put(keys[name], record)
                known[keys[name]] = record
    return [ClassResult(data.name, split, name, **known[key]) for name, key in keys.items()]


def run_classes(
    sets: Sequence[ClassSet], splits: int, pool: str, jobs: int, folder: Path, progress: Progress = silent
) -> list[ClassResult]:
    """The results of every data set, split and method; first splits first."""
    tasks = [(data, split, pool, folder) for split in range(splits) for data in sets]
    return [one for part in run_tasks(run_split, tasks, processes(jobs), progress) for one in part]


def stored_results(sets: Sequence[ClassSet], splits: int, pool: str, folder: Path) -> list[ClassResult]:
    """The results of the splits of which ``folder`` holds every method."""
    store, found = Store(folder / f"results-{pool}.sqlite"), []
    for data in sets:
        for split in range(splits):
            keys = {name: _key(data, split, pool, name) for name in methods()}
            known = store.select(keys.values())
            if len(known) == len(keys):
                found += [ClassResult(data.name, split, name, **known[key]) for name, key in keys.items()]
    return found


def _key(data: ClassSet, split: int, pool: str, method: str) -> str:
    version: int | str = RIVAL_VERSION
    if method.startswith(OURS):
        version = f"{ROUTER_VERSION} {CLASS_GRID[method.removeprefix(f'{OURS}: ')]!r}"
    return record_key(
        revision=REVISION,
        pool=pool_versions(pool),
        data=f"{data.package}/{data.item}",
        definition=zlib.crc32(repr(data).encode()),
        split=split,
        method=method,
        version=version,
    )


def _compute(given: Answers, missing: Mapping[str, ClassRival]) -> Iterator[tuple[str, dict[str, float]]]:
    n, outcome = len(given.outcome), given.outcome_test
    frequencies = np.bincount(given.outcome) / n
    base = float(-np.log(frequencies[outcome]).mean())
    for name, rival in missing.items():
        scores = ClassScores.of(rival(given), outcome)
        yield (
            name,
            {
                "relative": scores.log_loss / base,
                **vars(scores),
                "n_train": n,
                "n_test": len(outcome),
                "n_classes": given.n_classes,
            },
        )
