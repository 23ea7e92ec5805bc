"""Where independent pieces of work run: in this process, in several processes, or on a dask cluster.

A backend is one function: it takes the work and the tasks, and yields (position, result) as results come in. Every
task runs in one thread, so neither backend nor order changes a bit of a result.
"""

import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
SMALL = 2**19  # forecasts: fits to a table of fewer take longer to start on a GPU than to do on a CPU
LARGE = 1000  # bytes: a value of more is sent to the workers of a cluster once, and not with every task
AHEAD = 2  # blocks for each thread of a cluster that are on their way, so that no thread waits for the next one
ANSWERED = 2**16  # rows of a block that a model is asked for together
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
    if device is not None and _neural("gatewise.nn.devices").as_device(device).type not in ("cpu", "cuda"):
        raise ValueError(f"device must be None, 'cpu', 'cuda' or 'cuda:0', not {device!r}: others lack 64 bits")
    token = DEVICE.set(device)
    try:
        yield
    finally:
        DEVICE.reset(token)


def device_paths(requests: Any, F: Any, loss: Any, samples: Any, device: str) -> Any:
    """Paths of gates, as `gatewise.solvers.softmax_path.sample_paths` gives them, fitted on a device.

    None where the table F (n, M) is so small that compiled code is faster than a GPU.
    """
    if device.startswith("cuda") and F.size < SMALL:
        return None
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

    Tasks then refer to them. When a worker is lost others may still have them; else joblib raises a CancelledError.
    """
    sizeof = import_module("dask.sizeof").sizeof
    large = {id(value): value for value in values if sizeof(value) > LARGE}
    return parallel_config("dask", client=client, scatter=list(large.values()))


@contextmanager
def on_scheduler(address: str) -> Iterator[None]:
    """Within it the fits of experts run on the workers of a dask cluster, and so does what dask computes."""
    with _client(address, set_as_default=True) as client, parallel_config("dask", client=client):
        yield


def asked_of_workers(address: str, work: Work, model: Any, blocks: Iterable[Any]) -> Iterator[Any]:
    """work(model, block) of every block, in their order, by the workers of a dask cluster.

    The model travels once; scattered, it would be lost with its worker. Few blocks are on their way at a time: a new
    one is taken when the answer to the oldest is there. What a lost worker had is sent again.
    """
    with _client(address, set_as_default=False) as client:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sending large graph")  # that is the model, and meant
            there, waiting = client.submit(_given, model, pure=False), deque[Any]()
        for block in blocks:
            if len(waiting) >= AHEAD * max(1, sum(client.nthreads().values())):
                yield waiting.popleft().result()
            waiting.append(client.submit(_answered, work, there, block, pure=False))
        while waiting:
            yield waiting.popleft().result()


def _given(value: Any) -> Any:
    return value


def _answered(work: Work, model: Any, block: Any) -> Any:
    return _alone(work, (model, block))


def _client(address: str, set_as_default: bool) -> Any:
    try:
        kit = import_module("dask.distributed")
    except ModuleNotFoundError as error:
        raise ValueError("the dask backend needs: pip install 'gatewise[dask]'") from error
    try:
        return kit.Client(address, timeout=SECONDS_TO_ANSWER, set_as_default=set_as_default)
    except (OSError, ValueError) as error:
        raise ValueError(f"no dask scheduler answers at {address!r}; start one, or name its address") from error


def gather(X: Any, others: Mapping[str, Any], draw: Callable[[int, int], Callable[[int, int], Any]]) -> list[Any]:
    """Some rows of a dask array or data frame X, and of ``others`` at the same rows, in memory, block by block.

    ``draw(n, d)`` gives, for n rows of d columns, the function (start, stop) -> places within the rows start to stop
    of those that are wanted. The others, by name, are dask collections divided as X is, or in memory, or None. Rows
    belong together by their place, as in memory, and not by an index.
    """
    kit, lazy = import_module("dask"), {k: v for k, v in others.items() if hasattr(v, "__dask_graph__")}
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions, not {X.ndim}")
    width, named = len(X.columns) if hasattr(X, "columns") else X.shape[1], hasattr(X, "columns")
    for name, values in lazy.items():
        if _n_blocks(values) != _n_blocks(X):
            advice = "repartition" if hasattr(values, "divisions") else "rechunk"
            raise ValueError(f"{name} must be divided into {_n_blocks(X)} blocks, as X is; {advice} it")
    if named:
        blocks = _joined_blocks(X, lazy)
    else:
        blocks = [list(block) for block in zip(*map(_whole_blocks, [X, *lazy.values()]), strict=True)]
    lengths = _known_lengths([X, *lazy.values()]) or kit.compute(*(kit.delayed(_length)(block) for block in blocks))
    starts = np.concatenate([[0], np.cumsum(lengths)]).tolist()
    chosen = draw(starts[-1], width)
    taken = kit.compute(
        *(kit.delayed(_taken)(*one, chosen) for one in zip(blocks, starts[:-1], starts[1:], strict=True))
    )
    return _together(taken, others, list(lazy), chosen, starts[-1])


def _n_blocks(values: Any) -> int:
    """How many blocks of rows a dask collection has."""
    return int(values.npartitions if hasattr(values, "divisions") else values.numblocks[0])


def _whole_blocks(values: Any) -> list[Any]:
    """The blocks of rows as they are counted: dask joins no partitions of a graph that it does not optimise."""
    return list(values.to_delayed(optimize_graph=False)) if hasattr(values, "divisions") else _row_blocks(values)


def _joined_blocks(X: Any, lazy: Mapping[str, Any]) -> list[Any]:
    """The partitions of a dask data frame with the others as more columns, as delayed objects.

    Where few columns are read dask would join partitions, and not those of all collections alike.
    """
    frames = import_module("dask.dataframe")
    columns = [one if hasattr(one, "divisions") else frames.from_dask_array(one) for one in lazy.values()]
    if not columns:
        return list(X.to_delayed())
    joined = X.map_partitions(
        _with_columns, *columns, names=tuple(lazy), align_dataframes=False, enforce_metadata=False
    )
    return _whole_blocks(joined)


def _with_columns(block: Any, *others: Any, names: Sequence[str]) -> Any:
    """A block of a data frame with the others, one column each, as more columns, row by row."""
    for name, values in zip(names, others, strict=True):
        column = np.asarray(values)
        if column.ndim == 2 and column.shape[1] == 1:
            column = column[:, 0]
        if column.ndim != 1:
            raise ValueError(f"{name} must be one column, not of shape {column.shape}")
        if len(column) != len(block):
            raise ValueError(f"a block of X has {len(block)} rows, and of {name} {len(column)}; divide them alike")
        block = block.assign(**{f"gatewise {name}": column})
    return block


def _together(
    taken: Sequence[Any],
    others: Mapping[str, Any],
    lazy: list[str],
    chosen: Callable[[int, int], Any],
    n: int,
) -> list[Any]:
    """The taken blocks in one piece: the rows of X, then those of the others in their order."""
    if isinstance(taken[0], list):
        first, *rest = (np.concatenate(parts) for parts in zip(*taken, strict=True))
    else:
        first = import_module("pandas").concat(taken)
        rest = [first.pop(f"gatewise {name}").to_numpy() for name in lazy]
    found: dict[str, Any] = dict(zip(lazy, rest, strict=True))
    for name, values in others.items():
        if name not in found:
            if values is not None and len(values) != n:
                raise ValueError(f"{name} has {len(values)} rows, but X has {n}")
            found[name] = None if values is None else np.asarray(values)[chosen(0, n)]
    return [first, *(found[name] for name in others)]


def by_blocks(model: Any, method: str, X: Any, columns: int, kind: Any, options: Mapping[str, Any]) -> Any:
    """``model.method(X, **options)`` as a dask array with the blocks of X, which is a dask array or data frame.

    The answers are of type ``kind`` and have shape (n,), or (n, columns) where columns is not 0. A block without rows
    stays one. The model travels to each worker once.
    """
    kit, arrays = import_module("dask"), import_module("dask.array")
    blocks, unknown = _row_blocks(X), float("nan")
    known = X.chunks[0] if hasattr(X, "chunks") else (unknown,) * len(blocks)
    there, wide = kit.delayed(model, pure=False, traverse=False), (columns,) if columns else ()
    answers = [kit.delayed(_asked)(there, method, block, wide, kind, dict(options)) for block in blocks]
    # Dask leaves arrays out that it knows to be empty: lengths are told to it afterwards.
    joined = arrays.concatenate([arrays.from_delayed(one, (unknown, *wide), kind) for one in answers])
    return arrays.Array(joined.dask, joined.name, (known, *joined.chunks[1:]), joined.dtype)


def _asked(model: Any, method: str, X: Any, wide: tuple[int, ...], kind: Any, options: Mapping[str, Any]) -> Any:
    """The answers to one block, (rows, *wide) of type ``kind``.

    They come from ANSWERED rows at a time, as what a model holds meanwhile is several times its rows.
    """
    if not len(X):  # no estimator takes a table without rows
        return np.empty((0, *wide), dtype=kind)
    rows, parts = X.iloc if hasattr(X, "iloc") else X, []
    for start in range(0, len(X), ANSWERED):
        answer = getattr(model, method)(rows[start : start + ANSWERED], **options)
        parts.append(np.stack(answer, axis=1) if isinstance(answer, tuple) else answer)
    return np.concatenate(parts)


def _known_lengths(collections: Sequence[Any]) -> Sequence[int]:
    """The numbers of rows of the blocks, where dask knows them of every collection and they agree; else none."""
    chunks: list[Any] = [getattr(values, "chunks", ((np.nan,),))[0] for values in collections]
    return () if np.isnan(chunks[0]).any() or any(own != chunks[0] for own in chunks) else list(chunks[0])


def _length(block: Any) -> int:
    sizes = {len(part) for part in block} if isinstance(block, list) else {len(block)}
    if len(sizes) > 1:
        raise ValueError(f"blocks of X and of the other columns have {sorted(sizes)} rows; divide them alike")
    return sizes.pop()


def _taken(block: Any, start: int, stop: int, chosen: Callable[[int, int], Any]) -> Any:
    rows = chosen(start, stop)
    return [np.asarray(part)[rows] for part in block] if isinstance(block, list) else block.iloc[rows]


def _row_blocks(values: Any) -> list[Any]:
    """The blocks of rows of a dask collection, as delayed objects.

    Of a frame whose expression is simplified only the columns that are used are read; the next step of dask's
    optimisation would join partitions where these are few.
    """
    if hasattr(values, "divisions"):
        return list(values.simplify().to_delayed(optimize_graph=False))
    return list(np.ravel((values.rechunk({1: -1}) if values.ndim == 2 else values).to_delayed()))


def _numbered(place: int, work: Work, task: tuple[Any, ...]) -> tuple[int, Any]:
    return place, _alone(work, task)


def _alone(work: Work, task: tuple[Any, ...]) -> Any:
    """The work in one thread: with more, sums are taken in another order."""
    with thread_pools().limit(limits=1):
        return work(*task)


@cache
def thread_pools() -> ThreadpoolController:
    """Of the libraries in this process; to look for them takes longer than small fits."""
    return ThreadpoolController()
