"""Work for threads, cut into pieces that do not depend on the number of threads; hence neither do the results."""

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from itertools import pairwise
from typing import TypeVar

R = TypeVar("R")

PIECE = 600_000  # pairs of candidate and observation that make a piece worth a call
MOST_PIECES = 16
TAPER = 1.5  # after piece p of P a fraction (1 - p / P)^TAPER of the units is left


def cut(n_units: int, n_pairs: int) -> list[tuple[int, int]]:
    """Ranges of units: about one per PIECE pairs of candidate and observation, at most MOST_PIECES.

    The last ranges are the shortest, so that at the end no thread waits long for another.
    """
    n_pieces = max(1, min(MOST_PIECES, n_units, n_pairs // PIECE))
    left = [(1.0 - piece / n_pieces) ** TAPER for piece in range(n_pieces + 1)]
    edges = sorted({n_units - round(n_units * fraction) for fraction in left})
    return list(pairwise(edges))


def run(task: Callable[[int, int, int], R], pieces: list[tuple[int, int]], n_threads: int) -> list[R]:
    """The results of task(piece, start, stop) for all pieces, in order, computed on n_threads threads.

    Threads gain time only if the task runs without the interpreter's lock. Every thread, the caller's among them,
    takes the next piece when it has finished one. After an error or an interrupt no further piece is begun.
    """
    results: dict[int, R] = {}
    todo = deque(range(len(pieces)))

    def work() -> None:
        try:
            while (piece := _next(todo)) is not None:
                results[piece] = task(piece, *pieces[piece])
        finally:
            todo.clear()

    helpers = [_pool(n_threads).submit(work) for _ in range(min(n_threads, len(pieces)) - 1)]
    try:
        work()
    finally:
        begun = [helper for helper in helpers if not helper.cancel()]  # one that found no free thread is not needed
        wait(begun)
    for helper in begun:
        helper.result()
    return [results[piece] for piece in range(len(pieces))]


def _next(todo: deque[int]) -> int | None:
    """Take the next piece, if there is one."""
    try:
        return todo.popleft()
    except IndexError:
        return None


@cache
def _pool(n_threads: int) -> ThreadPoolExecutor:
    """Threads that stay between calls, because a call of a few milliseconds must not wait for new ones."""
    return ThreadPoolExecutor(n_threads)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not survive a fork
