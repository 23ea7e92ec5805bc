"""Pieces of work on threads: every piece once, in order, and nothing begun after an error."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatewise.kernels.simd.threads import cut, MOST_PIECES, PIECE, run

PIECES = [(10 * i, 10 * i + 10) for i in range(40)]


@given(st.integers(1, 10**9), st.integers(1, 10**12))
def test_pieces_cover_the_units(n_units, n_pairs):
    pieces = cut(n_units, n_pairs)
    assert pieces[0][0] == 0
    assert pieces[-1][1] == n_units
    assert all(a[1] == b[0] for a, b in pairwise(pieces))
    assert all(start < stop for start, stop in pieces)
    assert len(pieces) <= min(MOST_PIECES, max(1, n_pairs // PIECE))


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_every_piece_once_and_in_order(n_threads):
    def task(piece, start, stop):
        return piece, start, stop

    assert run(task, PIECES, n_threads) == [(i, *PIECES[i]) for i in range(len(PIECES))]


@pytest.mark.parametrize("n_threads", [1, 2])
def test_an_error_ends_the_work(n_threads):
    begun, failed = [], threading.Event()

    def task(piece, _start, _stop):
        begun.append(piece)
        if piece == 0:
            failed.set()
            raise IndexError("of the task's own")
        failed.wait(5.0)
        time.sleep(0.01)

    with pytest.raises(IndexError, match="of the task's own"):
        run(task, PIECES, n_threads)
    assert len(begun) < len(PIECES)


def test_an_interrupt_of_the_caller_ends_the_work_of_the_others():
    caller, begun, gate = threading.current_thread(), [], threading.Event()

    def task(piece, _start, _stop):
        begun.append(piece)
        if threading.current_thread() is caller:
            gate.set()
            raise KeyboardInterrupt
        gate.wait(5.0)
        time.sleep(0.01)

    with pytest.raises(KeyboardInterrupt):
        run(task, PIECES, 2)
    assert len(begun) < len(PIECES)


def test_a_task_may_run_others():
    def inner(piece, _start, _stop):
        return piece

    def outer(_piece, _start, _stop):
        return run(inner, PIECES[:4], 2)

    with ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(run, outer, PIECES[:8], 2) for _ in range(4)]
        assert all(job.result(timeout=60) == [[0, 1, 2, 3]] * 8 for job in jobs)
