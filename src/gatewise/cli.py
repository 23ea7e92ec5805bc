"""The command line: ``gatewise COMMAND``. It gathers the commands of `gatewise.app` and tells errors in one line."""

import signal
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Annotated, NoReturn

try:
    import typer
except ModuleNotFoundError as error:  # pragma: no cover - seen only where the extra is not installed
    sys.exit(f"gatewise: {error.name} is not installed; the command line needs: pip install 'gatewise[cli]'")

import gatewise
from gatewise.app import (
    demo_command,
    model_commands,
    reproduce_commands,
    route_commands,
    verify_command,
    xray_command,
)
from gatewise.app.stops import answer_stops, end_workers, INTERRUPTED, STOPPED, stopped_by
from gatewise.app.terminal import plain, say

app = typer.Typer(
    help="Learns where each model is right.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(demo_command.app)
app.add_typer(model_commands.app)
app.add_typer(verify_command.app)
app.add_typer(xray_command.app)
app.add_typer(reproduce_commands.app, name="reproduce")
app.add_typer(route_commands.app, name="route")


def _print_version(wanted: bool) -> None:
    if wanted:
        say(f"gatewise {gatewise.__version__}")
        raise typer.Exit


@app.callback(
    epilog="Examples:\n\n"
    "gatewise demo\n\n"
    "gatewise fit houses.csv --target price --out price.skops\n\n"
    "gatewise predict price.skops new-houses.csv --out prices.csv\n\n"
    "gatewise report price.skops houses.csv --out price.html"
)
def root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and leave.", callback=_print_version, is_eager=True)
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error came from.")] = False,
) -> None:
    """Learns where each model is right."""


@app.command(hidden=True, context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def bench() -> None:
    """Say where the benchmarks are now."""
    raise ValueError(
        "the benchmarks are no longer part of the package: in the project's source folder, `make bench` runs them "
        "all, `make bench-real` those on real data, and `python -m benchmarks.NAME` one of them (real, locality, "
        "regret, figures, ...)"
    )


def main() -> None:
    """Run the command line; an error is one line. ``--debug`` may stand anywhere and shows where it came from.

    The exit code is 2 for bad input, 70 for what should not have happened, 130 after an interruption and 143 after a
    request to end.
    """
    given = sys.argv[1:]
    with _noted_interrupts() as noted:
        try:
            app(args=[word for word in given if word != "--debug"])
        except SystemExit as left:
            if left.code == INTERRUPTED or noted:
                _stop(stopped_by(noted[0]) if noted else INTERRUPTED)
            raise
        except Exception as error:
            if noted:
                _stop(stopped_by(noted[0]))
            if "--debug" in given:
                raise
            if _is_about_the_input(error):
                _leave(one_line(error), 2)
            found = f"{type(error).__name__}: {one_line(error)}"
            _leave(f"{found}; this should not happen: --debug shows where it came from", 70)


@contextmanager
def _noted_interrupts() -> Iterator[list[int]]:
    """The signals so far that stop a command: Ctrl-C and SIGTERM, at which joblib's processes are to end, too.

    Each raises KeyboardInterrupt, which a library, while it is imported, may replace.
    """
    noted: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        noted.append(number)
        signal.default_int_handler(number, frame)

    before = answer_stops(note)
    try:
        yield noted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stop(code: int) -> NoReturn:
    end_workers()
    _leave(STOPPED, code)


def _leave(message: str, code: int) -> NoReturn:
    print(f"gatewise: {plain(message)}", file=sys.stderr)  # noqa: T201 - the one line that a user sees
    sys.exit(code)


def _is_about_the_input(error: Exception) -> bool:
    """Whether an error speaks of what the user gave: a bad value or file, or an expert that its notes name."""
    told = (ValueError, OSError, RuntimeError, MemoryError, OverflowError, sqlite3.Error)
    return isinstance(error, told) or bool(getattr(error, "__notes__", ()))


def one_line(error: Exception) -> str:
    """The message of an error and its notes, such as the name of the expert that raised it, on one line.

    >>> error = ValueError("no\\nneighbours")
    >>> error.add_note("raised by the expert 'knn'")
    >>> one_line(error)
    "no neighbours (raised by the expert 'knn')"
    """
    message = " ".join(str(error).split()) or type(error).__name__
    notes = [" ".join(note.split()) for note in getattr(error, "__notes__", ())]
    return f"{message} ({'; '.join(notes)})" if notes else message
