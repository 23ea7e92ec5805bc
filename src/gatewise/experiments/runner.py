"""Run many independent replications: here, in several processes or on a dask cluster; remember those that are done.

A backend is one function: it takes the work and the tasks, and yields (position, result) as results come in. Each
replication has a seed of its own and one thread, so neither backend, nor order, nor an interruption changes a bit.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

from joblib import delayed, Parallel, parallel_config
from threadpoolctl import ThreadpoolController

from gatewise.checks import as_count
from gatewise.experiments.store import record_key, Store

Work: TypeAlias = Callable[..., Any]
Tasks: TypeAlias = Sequence[tuple[Any, ...]]
Progress: TypeAlias = Callable[[Iterable[Any], int, int], Iterable[Any]]  # results, done before, total
Backend: TypeAlias = Callable[[Work, Tasks], Iterator[tuple[int, Any]]]
SECONDS_TO_ANSWER = 10


def silent(items: Iterable[Any], _done: int, _total: int) -> Iterable[Any]:
    """No progress shown."""
    return items


def in_turn(work: Work, tasks: Tasks) -> Iterator[tuple[int, Any]]:
    """One after the other, in this process."""
    for i, task in enumerate(tasks):
        yield i, _alone(work, task)


def processes(jobs: int) -> Backend:
    """``jobs`` processes of this machine, each with one thread; -1 takes one for each core."""
    if jobs != -1:
        as_count(jobs, "jobs")

    def spread(work: Work, tasks: Tasks) -> Iterator[tuple[int, Any]]:
        with parallel_config("loky", n_jobs=jobs, inner_max_num_threads=1):
            pool = Parallel(return_as="generator_unordered")
            yield from pool(delayed(_numbered)(i, work, task) for i, task in enumerate(tasks))

    return in_turn if jobs == 1 else spread


def dask_cluster(address: str) -> Backend:
    """The workers of a running dask cluster; they need Gatewise installed, at the same version."""

    def spread(work: Work, tasks: Tasks) -> Iterator[tuple[int, Any]]:
        try:
            from dask import distributed  # noqa: PLC0415 - an extra
        except ModuleNotFoundError as error:
            raise ValueError("the dask backend needs: pip install 'gatewise[dask]'") from error
        kit: Any = distributed  # it has no types
        try:
            client = kit.Client(address, timeout=SECONDS_TO_ANSWER, set_as_default=False)
        except (OSError, ValueError) as error:
            raise ValueError(f"no dask scheduler answers at {address!r}; start one, or name its address") from error
        with client:
            futures = client.map(_numbered, range(len(tasks)), [work] * len(tasks), tasks, pure=False)
            for _, numbered in kit.as_completed(futures, loop=client.loop, with_results=True):
                yield numbered

    return spread


def run_tasks(work: Work, tasks: Tasks, backend: Backend = in_turn, progress: Progress = silent) -> list[Any]:
    """``work(*task)`` for every task, in the order of the tasks; nothing is kept.

    >>> run_tasks(pow, [(2, 3), (3, 2)])
    [8, 9]
    """
    found = dict(progress(backend(work, tasks), 0, len(tasks)))
    return [found[place] for place in range(len(tasks))]


@dataclass(frozen=True)
class Runner:
    """Where replications run, where finished ones are kept, and how progress is shown.

    >>> Runner().run("powers/1", pow, [(2, 3), (3, 2)])
    [8, 9]
    """

    backend: Backend = in_turn
    store: Store | None = None
    progress: Progress = silent

    def run(self, name: str, work: Work, tasks: Tasks) -> list[Any]:
        """``work(*task)`` for every task, in the order of the tasks; arrays come back as lists.

        ``name`` is the experiment's name and the version of its code: with the task it identifies a result in the
        store. So a task holds all that the result depends on, as JSON.
        """
        keys = [record_key(experiment=name, task=task) for task in tasks]
        known = {} if self.store is None else self.store.select(keys)
        waiting = [i for i, key in enumerate(keys) if key not in known]
        arriving = self.backend(work, [tasks[i] for i in waiting]) if waiting else iter(())
        for place, result in self.progress(arriving, len(keys) - len(waiting), len(keys)):
            key = keys[waiting[place]]
            known[key] = {"result": _as_stored(result)}
            if self.store is not None:
                self.store.put(key, known[key])
        return [known[key]["result"] for key in keys]


def _numbered(place: int, work: Work, task: tuple[Any, ...]) -> tuple[int, Any]:
    return place, _alone(work, task)


def _alone(work: Work, task: tuple[Any, ...]) -> Any:
    """The work in one thread: with more, sums are taken in another order."""
    with _thread_pools().limit(limits=1):
        return work(*task)


def _as_stored(result: Any) -> Any:
    """The result as it would come back from the store."""
    return json.loads(json.dumps(result, default=_plain))


def _plain(array: Any) -> Any:
    return array.tolist()


@cache
def _thread_pools() -> ThreadpoolController:
    """Of the libraries in this process; to look for them takes longer than the shortest replications."""
    return ThreadpoolController()
