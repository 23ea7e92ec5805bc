"""The door of the command line: ``gatewise`` and ``python -m gatewise``.

It imports nothing of weight, so that Ctrl-C is answered in one line from the first moment on, also while the command
line is being imported.
"""

import os
import signal
import sys
from types import FrameType

from gatewise.app import end_quickly, INTERRUPTED, list_no_estimators, STOPPED


def leave_at_once(_number: int, _frame: FrameType | None) -> None:
    """End the process; while modules are imported an exception could be swallowed by one of them."""
    os.write(2, f"gatewise: {STOPPED}\n".encode())
    os._exit(INTERRUPTED)


def main() -> None:
    """Import the command line and run it."""
    end_quickly()
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:  # not where the caller ignores the signal
        signal.signal(signal.SIGINT, leave_at_once)
    from gatewise import cli  # noqa: PLC0415

    if len(sys.argv) > 1 and not {"-h", "--help", "--version", "demo"} & set(sys.argv):  # the demo does so later
        list_no_estimators()
    signal.signal(signal.SIGINT, before)
    cli.main()


if __name__ == "__main__":
    main()
