"""Where independent pieces of work run: in this process, in several processes, or on a dask cluster.

A backend is one function: it takes the work and the tasks, and yields (position, result) as results come in. Every
task runs in one thread, so neither backend nor order changes a bit of a result.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib import import_module
from typing import Any, TypeAlias

import numpy as np
from joblib import delayed, Parallel, parallel_config
from threadpoolctl import ThreadpoolController

from gatewise.arrays import as_count

Work: TypeAlias = Callable[..., Any]
Tasks: TypeAlias = Sequence[tuple[Any, ...]]
Backend: TypeAlias = Callable[[Work, Tasks], Iterator[tuple[int, Any]]]
SECONDS_TO_ANSWER = 10
LARGE = 1000  # bytes: a value of more is sent to the workers of a cluster once, and not with every task
DEVICE: ContextVar[str | None] = ContextVar("device", default=None)  # where gates are fitted; see `on_device`


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
        with _client(address, set_as_default=False) as client:
            futures = client.map(_numbered, range(len(tasks)), [work] * len(tasks), tasks, pure=False)
            completed = import_module("distributed").as_completed
            for _, numbered in completed(futures, loop=client.loop, with_results=True):
                yield numbered

    return on_cluster


@contextmanager
def on_device(device: str | None) -> Iterator[None]:
    """Within it, gates are fitted on a device that PyTorch knows; None: by compiled code."""
    if device is not None:
        _neural("gatewise.nn.devices").as_device(device)
    token = DEVICE.set(device)
    try:
        yield
    finally:
        DEVICE.reset(token)


def device_paths(requests: Any, F: Any, loss: Any, samples: Any, device: str) -> Any:
    """Paths of gates, as `gatewise.solvers.softmax_path.sample_paths` gives them, fitted on a device."""
    return _neural("gatewise.nn.device_paths").device_paths(requests, F, loss, samples, device)


def device_net(candidates: Any, device: str) -> Any:
    """The candidates of a product net on a device that PyTorch knows (`gatewise.nn.exact`)."""
    return _neural("gatewise.nn.exact.device_net").DeviceNet(candidates, device)


def _neural(module: str) -> Any:
    """A module of the neural room, which is above all that may be asked to run on a device."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise ValueError("device needs PyTorch: pip install 'gatewise[nn]', or leave device=None") from error


def sent_once(client: Any, values: Sequence[Any]) -> Any:
    """Context for joblib on a dask cluster: the large ones of the values are sent once, to every worker.

    Tasks then refer to them, and when a worker is lost the others still have them.
    """
    sizeof = import_module("dask.sizeof").sizeof
    large = {id(value): value for value in values if sizeof(value) > LARGE}
    return parallel_config("dask", client=client, scatter=list(large.values()))


@contextmanager
def on_scheduler(address: str) -> Iterator[None]:
    """Within it the fits of experts run on the workers of a dask cluster, and so does what dask computes."""
    with _client(address, set_as_default=True) as client, parallel_config("dask", client=client):
        yield


def _client(address: str, set_as_default: bool) -> Any:
    try:
        kit = import_module("dask.distributed")
    except ModuleNotFoundError as error:
        raise ValueError("the dask backend needs: pip install 'gatewise[dask]'") from error
    try:
        return kit.Client(address, timeout=SECONDS_TO_ANSWER, set_as_default=set_as_default)
    except (OSError, ValueError) as error:
        raise ValueError(f"no dask scheduler answers at {address!r}; start one, or name its address") from error


def lazy_shape(X: Any) -> tuple[list[int], int]:
    """The numbers of rows of the blocks of a dask array or data frame, and its number of columns."""
    if hasattr(X, "npartitions") and hasattr(X, "map_partitions") and hasattr(X, "columns"):
        kit = import_module("dask")
        return list(kit.compute(*(kit.delayed(len)(block) for block in X.to_delayed()))), len(X.columns)
    if getattr(X, "ndim", 0) != 2:
        raise ValueError("X must be a dask data frame or a dask array of two dimensions")
    return [int(length) for length in _known(X).chunks[0]], int(X.shape[1])


def gather(values: Any, lengths: Sequence[int], chosen: Callable[[int, int], Any], name: str) -> Any:
    """The chosen rows of a dask collection, or of an array or a data frame, as one in memory, block by block.

    ``chosen(start, stop)`` gives the places within the rows start to stop of those that are wanted. The blocks must
    have the given lengths; ``name`` is what an error calls the values.
    """
    starts = [sum(lengths[:i]) for i in range(len(lengths) + 1)]
    if not hasattr(values, "__dask_graph__"):
        if len(values) != starts[-1]:
            raise ValueError(f"{name} has {len(values)} rows, but X has {starts[-1]}")
        return _taken(values, 0, starts[-1], chosen)
    kit, blocks = import_module("dask"), _row_blocks(values)
    if len(blocks) != len(lengths):
        raise ValueError(f"{name} must be divided into {len(lengths)} blocks, as X is, not {len(blocks)}; rechunk it")
    parts = kit.compute(
        *(kit.delayed(_taken)(*one, chosen) for one in zip(blocks, starts[:-1], starts[1:], strict=True))
    )
    if hasattr(parts[0], "iloc"):
        return import_module("pandas").concat(parts)
    return np.concatenate(parts)


def by_blocks(model: Any, method: str, X: Any, columns: int, kind: Any, options: Mapping[str, Any]) -> Any:
    """``model.method(X, **options)`` as a dask array with the blocks of X, which is a dask array or data frame.

    The answers are of type ``kind`` and have shape (n,), or (n, columns) where columns is not 0. The model travels to
    each worker once.
    """
    kit, arrays = import_module("dask"), import_module("dask.array")
    known = list(X.chunks[0]) if hasattr(X, "chunks") else [float("nan")] * X.npartitions
    there = kit.delayed(model, pure=False, traverse=False)
    parts = [
        arrays.from_delayed(
            kit.delayed(_asked)(there, method, block, dict(options)),
            (length, columns) if columns else (length,),
            kind,
        )
        for block, length in zip(_row_blocks(X), known, strict=True)
    ]
    return arrays.concatenate(parts)


def _asked(model: Any, method: str, X: Any, options: Mapping[str, Any]) -> Any:
    answer = getattr(model, method)(X, **options)
    return np.stack(answer, axis=1) if isinstance(answer, tuple) else answer


def _taken(block: Any, start: int, stop: int, chosen: Callable[[int, int], Any]) -> Any:
    if len(block) != stop - start:
        raise ValueError(f"a block has {len(block)} rows where X has {stop - start}; divide them alike")
    rows = chosen(start, stop)
    return block.iloc[rows] if hasattr(block, "iloc") else np.asarray(block)[rows]


def _row_blocks(values: Any) -> list[Any]:
    """The blocks of rows of a dask collection, as delayed objects."""
    whole = values.rechunk({1: -1}) if getattr(values, "ndim", 1) == 2 and hasattr(values, "rechunk") else values
    return list(np.ravel(whole.to_delayed()))


def _known(X: Any) -> Any:
    return X.compute_chunk_sizes() if any(length != length for length in X.chunks[0]) else X  # noqa: PLR0124 - NaN


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
