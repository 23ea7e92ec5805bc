"""Where independent pieces of work run: in this process, in several processes, or on a dask cluster.

A backend is one function: it takes the work and the tasks, and yields (position, result) as results come in. Every
task runs in one thread, so neither backend nor order changes a bit of a result.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, TypeAlias

from joblib import delayed, Parallel, parallel_config
from threadpoolctl import ThreadpoolController

from gatewise.arrays import as_count

Work: TypeAlias = Callable[..., Any]
Tasks: TypeAlias = Sequence[tuple[Any, ...]]
Backend: TypeAlias = Callable[[Work, Tasks], Iterator[tuple[int, Any]]]
SECONDS_TO_ANSWER = 10


def in_turn(work: Work, tasks: Tasks) -> Iterator[tuple[int, Any]]:
    """One after the other, in this process."""
    for i, task in enumerate(tasks):
        yield i, _alone(work, task)


def processes(jobs: int) -> Backend:
    """``jobs`` processes of this machine, each with one thread; -1 takes one for each core."""
    if jobs != -1:
        as_count(jobs, "jobs")

    def in_processes(work: Work, tasks: Tasks) -> Iterator[tuple[int, Any]]:
        with parallel_config("loky", n_jobs=jobs, inner_max_num_threads=1):
            pool = Parallel(return_as="generator_unordered")
            yield from pool(delayed(_numbered)(i, work, task) for i, task in enumerate(tasks))

    return in_turn if jobs == 1 else in_processes


def dask_cluster(address: str) -> Backend:
    """The workers of a running dask cluster; they need Gatewise installed, at the same version."""

    def on_cluster(work: Work, tasks: Tasks) -> Iterator[tuple[int, Any]]:
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

    return on_cluster


def _numbered(place: int, work: Work, task: tuple[Any, ...]) -> tuple[int, Any]:
    return place, _alone(work, task)


def _alone(work: Work, task: tuple[Any, ...]) -> Any:
    """The work in one thread: with more, sums are taken in another order."""
    with _thread_pools().limit(limits=1):
        return work(*task)


@cache
def _thread_pools() -> ThreadpoolController:
    """Of the libraries in this process; to look for them takes longer than the shortest replications."""
    return ThreadpoolController()
