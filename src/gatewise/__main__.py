"""The door of the command line: ``gatewise`` and ``python -m gatewise``.

It imports nothing of weight, so that Ctrl-C and SIGTERM are answered in one line from the first moment on, also while
the command line is being imported.
"""

import os
import signal
import sys
from types import FrameType

from gatewise.app import end_quickly, list_no_estimators
from gatewise.app.stops import answer_stops, STOPPED, stopped_by


def leave_at_once(number: int, _frame: FrameType | None) -> None:
    """End the process; while modules are imported an exception could be swallowed by one of them."""
    os.write(2, f"gatewise: {STOPPED}\n".encode())
    os._exit(stopped_by(number))


def main() -> None:
    """Import the command line and run it."""
    end_quickly()
    before = answer_stops(leave_at_once)
    from gatewise import cli  # noqa: PLC0415

    if len(sys.argv) > 1 and not {"-h", "--help", "--version", "demo"} & set(sys.argv):  # the demo does so later
        list_no_estimators()
    for number, handler in before.items():
        signal.signal(number, handler)
    cli.main()


if __name__ == "__main__":
    main()
