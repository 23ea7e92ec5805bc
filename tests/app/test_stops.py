"""Processes that joblib started end with the command, also where it did not come to end them itself."""

import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest

from gatewise.app import stops


def test_the_processes_of_a_stopped_command_end(monkeypatch):
    """Joblib's processes have no method `kill`, and one may have ended before."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    monkeypatch.setattr(stops, "active_children", lambda: [SimpleNamespace(pid=one.pid) for one in (ended, child)])
    stops.end_workers()
    assert child.wait(timeout=60) == -signal.SIGKILL


@pytest.mark.parametrize("usual", [True, False])
def test_a_signal_that_the_caller_answers_is_left_alone(usual):
    found = [signal.getsignal(number) for number in stops.USUAL]
    own = [signal.default_int_handler, signal.SIG_DFL] if usual else [signal.SIG_IGN, lambda *_: None]
    try:
        for number, handler in zip(stops.USUAL, own, strict=True):
            signal.signal(number, handler)
        heard = []
        before = stops.answer_stops(lambda number, _: heard.append(number))
        assert before == (stops.USUAL if usual else {})
        if usual:
            for number in stops.USUAL:
                os.kill(os.getpid(), number)
            assert heard == [signal.SIGINT, signal.SIGTERM]
        else:
            assert [signal.getsignal(number) for number in stops.USUAL] == own
    finally:
        for number, handler in zip(stops.USUAL, found, strict=True):
            signal.signal(number, handler)
