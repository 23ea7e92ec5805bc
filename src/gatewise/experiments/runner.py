"""Run many independent tasks, in one process or several, and tell how far it is."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from joblib import delayed, Parallel

T = TypeVar("T")
Progress = Callable[[Iterable[Any], int], Iterable[Any]]


def silent(items: Iterable[Any], _total: int) -> Iterable[Any]:
    """No progress shown."""
    return items


def run_tasks(
    work: Callable[..., T], tasks: Sequence[tuple[Any, ...]], jobs: int = 1, progress: Progress = silent
) -> list[T]:
    """``work(*task)`` for every task, in order; the number of processes does not change the results.

    >>> run_tasks(pow, [(2, 3), (3, 2)])
    [8, 9]
    """
    if jobs == 1:
        return list(progress((work(*task) for task in tasks), len(tasks)))
    results = Parallel(n_jobs=jobs, return_as="generator")(delayed(work)(*task) for task in tasks)
    return list(progress(results, len(tasks)))
