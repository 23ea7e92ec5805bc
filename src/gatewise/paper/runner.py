"""Run many independent replications and remember those that are done: an interrupted run goes on where it stopped.

Each replication has a seed of its own, so neither the backend, nor the order, nor an interruption changes a bit.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from gatewise.backends import Backend, in_turn, Tasks, Work
from gatewise.paper.store import record_key, Store

Progress: TypeAlias = Callable[[Iterable[Any], int, int], Iterable[Any]]  # results, done before, total


def silent(items: Iterable[Any], _done: int, _total: int) -> Iterable[Any]:
    """No progress shown."""
    return items


def run_tasks(work: Work, tasks: Tasks, backend: Backend = in_turn, progress: Progress = silent) -> list[Any]:
    """The results ``work(*task)`` of all tasks, in the order of the tasks; unlike `Runner.run`, none goes to a store.

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


def _as_stored(result: Any) -> Any:
    """The result as it would come back from the store."""
    return json.loads(json.dumps(result, default=_plain))


def _plain(array: Any) -> Any:
    return array.tolist()
