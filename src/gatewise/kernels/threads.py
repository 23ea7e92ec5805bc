"""Work cut into pieces that do not depend on the number of threads, so neither do the results."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import TypeVar

R = TypeVar("R")

PIECE = 1_000_000  # pairs of candidate and observation worth a call
MOST_PIECES = 32


def cut(n_units: int, n_pairs: int) -> list[tuple[int, int]]:
    """Ranges of units: about one per PIECE pairs of candidate and observation, at most MOST_PIECES."""
    n_pieces = max(1, min(MOST_PIECES, n_units, n_pairs // PIECE))
    edges = [n_units * piece // n_pieces for piece in range(n_pieces + 1)]
    return list(pairwise(edges))


def run(task: Callable[[int, int, int], R], pieces: list[tuple[int, int]], n_threads: int) -> list[R]:
    """[task(piece, start, stop)] in order, on n_threads threads; a task gains if it frees the interpreter's lock."""
    if n_threads == 1 or len(pieces) == 1:
        return [task(i, start, stop) for i, (start, stop) in enumerate(pieces)]
    jobs = [_pool(n_threads).submit(task, i, start, stop) for i, (start, stop) in enumerate(pieces)]
    return [job.result() for job in jobs]


@cache
def _pool(n_threads: int) -> ThreadPoolExecutor:
    """Threads that stay: a call of a few milliseconds must not wait for new ones."""
    return ThreadPoolExecutor(n_threads)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not survive a fork
