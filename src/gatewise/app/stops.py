"""Signals that stop a command: Ctrl-C, and SIGTERM, by which a system asks a program to end."""

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import active_children
from types import FrameType
from typing import Any

INTERRUPTED = 128 + signal.SIGINT  # the exit code after Ctrl-C
STOPPED = "interrupted; every file is as it was before, or complete"
USUAL = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}


def stopped_by(number: int) -> int:
    """The exit code after a signal, as shells have it.

    >>> stopped_by(signal.SIGTERM)
    143
    """
    return 128 + number


def end_workers() -> None:
    """End the processes that joblib has started for this one, wherever in its work it was stopped."""
    for process in active_children():
        if process.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)  # joblib's own processes have no method for it


def answer_stops(handler: Callable[[int, FrameType | None], None]) -> dict[int, Any]:
    """Let a function answer the signals that stop a command; what answered each of them before.

    A signal that the caller ignores, or has a handler of its own for, is left alone.
    """
    before: dict[int, Any] = {number: usual for number, usual in USUAL.items() if signal.getsignal(number) is usual}
    for number in before:
        signal.signal(number, handler)
    return before
