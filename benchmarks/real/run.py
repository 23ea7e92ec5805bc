"""The run: one task per data set and split, each competitor's result kept as soon as it is there."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.real.competitors import Competitor, COMPETITORS, Contest
from benchmarks.real.datasets import DataSet
from benchmarks.real.memo import Memo, Memoized
from gatewise.app.models.default_pool import make_experts
from gatewise.arrays import as_count
from gatewise.backends import processes
from gatewise.paper.runner import Progress, run_tasks, silent
from gatewise.paper.store import record_key, Store

PROTOCOL = 1  # count up when data, splits or experts change in a way that `DataSet` does not say
SPLITS = 5


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


def result_key(data: DataSet, split: int, competitor: Competitor) -> str:
    """What identifies a result in the store: also how the data set is defined, and the competitor's version."""
    return record_key(
        protocol=PROTOCOL,
        data=f"{data.package}/{data.item}",
        definition=zlib.crc32(repr(data).encode()),
        split=split,
        competitor=competitor.name,
        version=competitor.version,
    )


def run_split(
    data: DataSet, split: int, competitors: Sequence[Competitor] = COMPETITORS, folder: Path | None = None
) -> list[SplitResult]:
    """Every competitor on one split; what ``folder`` holds already is not done again."""
    store = None if folder is None else Store(folder / "results.sqlite")
    found = {one.name: _stored(store, data, split, one) for one in competitors}
    missing = [one for one in competitors if found[one.name] is None]
    if missing:
        with threadpool_limits(1):
            found.update(_compute(data, split, missing, store, folder))
    return [SplitResult(data.name, split, one.name, **found[one.name]) for one in competitors]  # type: ignore[arg-type]


def run(
    datasets: Sequence[DataSet],
    splits: int = SPLITS,
    competitors: Sequence[Competitor] = COMPETITORS,
    jobs: int = 1,
    folder: Path | None = None,
    progress: Progress = silent,
) -> list[SplitResult]:
    """The results of every data set, split and competitor, in that order."""
    as_count(splits, "splits")
    tasks = [(data, split, competitors, folder) for split in range(splits) for data in datasets]
    found = run_tasks(run_split, tasks, processes(jobs), progress)
    by_data = {data.name: i for i, data in enumerate(datasets)}
    return sorted((one for part in found for one in part), key=lambda one: (by_data[one.data], one.split))


def _stored(store: Store | None, data: DataSet, split: int, competitor: Competitor) -> dict[str, Any] | None:
    record: dict[str, Any] | None = None if store is None else store.get(result_key(data, split, competitor))
    return record


def _compute(
    data: DataSet, split: int, competitors: Sequence[Competitor], store: Store | None, folder: Path | None
) -> dict[str, dict[str, Any]]:
    X, y = data.load()
    train, test = data.split(len(y), split)
    X_train, X_test = X.iloc[train].reset_index(drop=True), X.iloc[test].reset_index(drop=True)
    memo = Memo(None if folder is None else folder / "predictions" / f"{data.package}-{data.item}-{split}.npz")
    experts = [(name, Memoized(expert, memo)) for name, expert in make_experts(X_train)]
    contest = Contest(experts, X_train, y[train], data.seed + split)
    found = {}
    for competitor in competitors:
        model = competitor.build(contest).fit(X_train, y[train])
        mse = float(np.mean((model.predict(X_test) - y[test]) ** 2))
        facts = {} if competitor.facts is None else dict(competitor.facts(model, contest, X_test, y[test]))
        record = {"mse": mse, "n_train": len(train), "n_test": len(test), "facts": facts}
        memo.save()
        if store is not None:
            store.put(result_key(data, split, competitor), record)
        found[competitor.name] = record
    return found
