"""The run: one task per data set and split, each competitor's result kept as soon as it is there."""

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.real.competitors import Competitor, COMPETITORS
from benchmarks.real.datasets import DataSet, splits_for
from benchmarks.real.forecasts import open_field
from benchmarks.real.pools import find_pool
from benchmarks.real.same_lists import lists_once
from gatewise.arrays import as_count
from gatewise.backends import processes
from gatewise.paper.runner import Progress, run_tasks, silent
from gatewise.paper.store import record_key, Store

PROTOCOL = 2  # count up when data, splits or experts change in a way that `DataSet` does not say


@dataclass(frozen=True)
class SplitResult:
    """The test error of one competitor on one split of one data set."""

    data: str
    split: int
    competitor: str
    mse: float
    n_train: int
    n_test: int
    facts: Mapping[str, Any] = field(default_factory=dict)


def tasks_of(datasets: Sequence[DataSet], splits: int | None = None) -> list[tuple[DataSet, int]]:
    """Every data set with every split that it gets, at most ``splits`` of each; first splits first."""
    if splits is not None:
        as_count(splits, "splits")
    counts = [splits_for(data.rows) for data in datasets]
    most = max(counts) if splits is None else splits
    return [(data, split) for split in range(most) for data, n in zip(datasets, counts, strict=True) if split < n]


def result_key(data: DataSet, split: int, competitor: Competitor, pool: str = "default") -> str:
    """What identifies a result in the store: also how the data set is defined, and versions of who took part."""
    return record_key(
        protocol=PROTOCOL,
        pool=find_pool(pool).versions,
        data=f"{data.package}/{data.item}",
        definition=zlib.crc32(repr(data).encode()),
        split=split,
        competitor=competitor.name,
        version=competitor.version,
    )


def run_split(
    data: DataSet,
    split: int,
    competitors: Sequence[Competitor] = COMPETITORS,
    folder: Path | None = None,
    pool: str = "default",
) -> list[SplitResult]:
    """Every competitor on one split; what ``folder`` holds already is not done again."""
    store = None if folder is None else Store(folder / f"results-{pool}.sqlite")
    keys = {one.name: result_key(data, split, one, pool) for one in competitors}
    found: dict[str, Any] = {name: None if store is None else store.get(key) for name, key in keys.items()}
    missing = [one for one in competitors if found[one.name] is None]
    if missing:
        with threadpool_limits(1), lists_once():
            for name, record in _compute(data, split, missing, folder, pool):
                found[name] = record
                if store is not None:
                    store.put(keys[name], record)
    return [SplitResult(data.name, split, one.name, **found[one.name]) for one in competitors]


def run(
    datasets: Sequence[DataSet],
    splits: int | None = None,
    competitors: Sequence[Competitor] = COMPETITORS,
    jobs: int = 1,
    folder: Path | None = None,
    progress: Progress = silent,
    pool: str = "default",
) -> list[SplitResult]:
    """The results of every data set, split and competitor, in that order."""
    place = None if folder is None else folder.resolve()  # a process that works for us may be in another folder
    tasks = [(data, split, competitors, place, pool) for data, split in tasks_of(datasets, splits)]
    found = run_tasks(run_split, tasks, processes(jobs), progress)
    by_data = {data.name: i for i, data in enumerate(datasets)}
    return sorted((one for part in found for one in part), key=lambda one: (by_data[one.data], one.split))


def stored_results(
    datasets: Sequence[DataSet], competitors: Sequence[Competitor], folder: Path, pool: str = "default"
) -> list[SplitResult]:
    """The results of the splits of which ``folder`` holds every competitor, by data set and split."""
    store, found = Store(folder / f"results-{pool}.sqlite"), []
    for data in datasets:
        for split in range(splits_for(data.rows)):
            keys = {one.name: result_key(data, split, one, pool) for one in competitors}
            known = store.select(keys.values())
            if len(known) == len(keys):
                found += [SplitResult(data.name, split, name, **known[key]) for name, key in keys.items()]
    return found


def _compute(
    data: DataSet, split: int, competitors: Sequence[Competitor], folder: Path | None, pool: str
) -> Iterator[tuple[str, dict[str, Any]]]:
    contest, X, y, memo = open_field(data, split, pool, folder)
    for competitor in competitors:
        model = competitor.build(contest).fit(contest.X, contest.y)
        mse = float(np.mean((model.predict(X) - y) ** 2))
        facts = {} if competitor.facts is None else dict(competitor.facts(model, contest, X, y))
        memo.save()
        yield competitor.name, {"mse": mse, "n_train": len(contest.y), "n_test": len(y), "facts": facts}
