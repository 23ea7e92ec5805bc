"""Progress of a long call: its stages, counts and the time left, told to whoever listens.

Code that takes long asks ``RUNNING.get()`` for the progress of the call that it is part of; None, the usual case,
costs nothing. ``verbose=1`` of an estimator shows a bar, by rich where it is installed and a terminal is there, and
plain lines otherwise; `listen` hands every step to a function, for notebooks and logs.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from time import perf_counter
from typing import Any, NamedTuple, TextIO, TypeAlias


class Step(NamedTuple):
    """What is told: ``done`` of ``total`` pieces of a stage of the work are finished.

    ``seconds`` have passed since the stage began, and ``left`` seconds remain of it if the others take as long, or as
    much longer as pieces of their kind usually do; None before enough is done to tell. ``note`` says which piece it
    was.
    """

    work: str
    stage: str
    done: int
    total: int
    seconds: float
    left: float | None
    note: str = ""


Listener: TypeAlias = Callable[[Step], object]


class Progress:
    """The progress of one call: stages, each with a number of pieces."""

    def __init__(self, listener: Listener, work: str) -> None:
        self.listener, self.work = listener, work
        self.name, self.done, self.total, self._before, self._start = "", 0, 0, 0, perf_counter()
        self._costs: Sequence[float] = ()
        self._parts, self._ended, self._note, self._told = 0, 0, "", self._start

    def stage(self, name: str, total: int = 1, done: int = 0, costs: Sequence[float] = ()) -> None:
        """Begin a stage of ``total`` pieces, ``done`` of which were finished before; the stage before it ends.

        ``costs`` are the relative times that the pieces usually take, where they differ.

        >>> steps = []
        >>> progress = Progress(steps.append, "fit")
        >>> progress.stage("experts", total=2)
        >>> progress.step("ridge")
        >>> [(step.stage, step.done, step.total, step.note) for step in steps]
        [('experts', 0, 2, ''), ('experts', 1, 2, 'ridge')]
        """
        self.finish()
        self.name, self.done, self.total, self._before, self._start = name, done, total, done, perf_counter()
        self._costs, self._parts = costs, 0
        self._tell("")

    def each(self, pieces: Iterable[Any], total: int) -> Iterator[Any]:
        """Pieces that the stage turns out to have, one after the other: each is finished when the next is taken.

        Those that are finished already stay counted.
        """
        self.total, self._before, self._start = self.done + total, self.done, perf_counter()
        for piece in pieces:
            yield piece
            self.step()

    def step(self, note: str = "", count: int = 1) -> None:
        """So many more pieces of the stage are finished."""
        self.done, self._parts = min(self.done + count, self.total), 0
        self._tell(note)

    def piece(self, parts: int, note: str = "") -> None:
        """The piece that comes next has so many parts, which `part` counts."""
        self._parts, self._ended, self._note = parts, 0, note

    def part(self, count: int = 1) -> None:
        """So many more parts of the present piece are finished; of a piece whose parts are not known nothing is said.

        The step that tells it has the same counts of pieces as the one before. One comes every SOON seconds at most.
        """
        self._ended = min(self._ended + count, self._parts)
        if self._parts and perf_counter() - self._told >= SOON:
            self._tell(self._note)

    def finish(self) -> None:
        """The stage has ended, whatever was counted."""
        if self.name and self.done < self.total:
            self.done, self._parts = self.total, 0
            self._tell("")

    def _tell(self, note: str) -> None:
        self._told, least = perf_counter(), 0.0
        seconds, inside = self._told - self._start, self._ended / self._parts if self._parts else 0.0
        fresh, rest = self.done - self._before + inside, self.total - self.done - inside
        if self._costs:
            inside *= sum(self._costs[self.done : self.done + 1])
            fresh, rest = sum(self._costs[: self.done]) + inside, sum(self._costs[self.done :]) - inside
        if self._costs or self._parts:
            least = ENOUGH * rest
        left = seconds / fresh * rest if fresh > least else None
        self.listener(Step(self.work, self.name, self.done, self.total, seconds, left, note))


ENOUGH = 0.1  # of what is left: before as much of unlike pieces, or of parts, is done the time left is not told
SOON = 1.0  # seconds between two steps that tell parts of a piece, at least
APART = 10.0  # seconds between two lines of one stage
RUNNING: ContextVar[Progress | None] = ContextVar("gatewise_running", default=None)
LISTENER: ContextVar[Listener | None] = ContextVar("gatewise_listener", default=None)


def each(pieces: Iterable[Any], total: int) -> Iterable[Any]:
    """The pieces, so many in all, counted as those of the present stage where a call tells its progress."""
    now = RUNNING.get()
    return pieces if now is None else now.each(pieces, total)


@contextmanager
def listen(listener: Listener) -> Iterator[None]:
    """Hand every `Step` of the fits inside to a function.

    >>> import gatewise as gw
    >>> stages = []
    >>> with listen(lambda step: stages.append(step.stage)):
    ...     X = [[0, 1], [1, 0], [2, 2], [1, 2], [3, 1]]
    ...     model = gw.GateSelector([lambda X: X[:, 0], lambda X: X[:, 1]]).fit(X, [0, 1, 2, 2, 3])
    >>> list(dict.fromkeys(stages))
    ['candidates', 'weights']
    """
    token = LISTENER.set(listener)
    try:
        yield
    finally:
        LISTENER.reset(token)


@contextmanager
def shown(verbose: int = 1, stream: TextIO | None = None) -> Iterator[None]:
    """Show the progress of all fits inside, as ``verbose`` of each would."""
    view = display(verbose, stream or sys.stderr)
    try:
        with listen(view):
            yield
    finally:
        view.close()


@contextmanager
def reported(work: str, verbose: int = 0, stream: TextIO | None = None) -> Iterator[Progress | None]:
    """The progress of a call, told to the listener, or shown if ``verbose`` is 1 (bars) or 2 (every piece, too).

    A call within another one that is reported is quiet: its stages are not those of the outer one.
    """
    heard = LISTENER.get()
    if RUNNING.get() is not None or not (heard or verbose):
        tokens = RUNNING.set(None), LISTENER.set(None)
        try:
            yield None
        finally:
            RUNNING.reset(tokens[0])
            LISTENER.reset(tokens[1])
        return
    shown = display(verbose, stream or sys.stderr) if verbose else None
    listeners = [one for one in (heard, shown) if one is not None]
    progress = Progress(lambda step: [tell(step) for tell in listeners], work)
    token = RUNNING.set(progress)
    try:
        yield progress
        progress.finish()
    finally:
        RUNNING.reset(token)
        if shown is not None:
            shown.close()


class Lines:
    """Plain lines, for files and pipes: one when a stage ends, and with ``verbose=2`` one for every piece.

    A stage that takes long tells the time left every APART seconds.
    """

    def __init__(self, verbose: int, stream: TextIO) -> None:
        self.verbose, self.stream = verbose, stream
        self._next = APART

    def __call__(self, step: Step) -> None:
        if step.done == step.total:
            self._next = APART
            self._write(step, f"in {_duration(step.seconds)}")
        elif self.verbose > 1 or step.seconds >= self._next:
            self._next = step.seconds + APART
            self._write(step, "" if step.left is None else f"{_duration(step.left)} left")

    def close(self) -> None:
        """Nothing is left to clear."""

    def _write(self, step: Step, time: str) -> None:
        note = step.note if self.verbose > 1 else ""
        words = [f"{step.work}: {step.stage} {step.done}/{step.total}", note, time]
        line = ", ".join(word for word in words if word)
        shown = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in line)
        print(shown, file=self.stream, flush=True)


class Bar:
    """A bar of rich: one line for every stage, with counts and the time left; ``verbose=2`` also names the pieces."""

    def __init__(self, verbose: int, console: Any) -> None:
        kit: Any = import_module("rich.progress")
        name, left = (kit.TextColumn(text, markup=False) for text in ("{task.description}", "{task.fields[left]}"))
        columns = (name, kit.BarColumn(), kit.MofNCompleteColumn(), left)
        self.verbose, self.bars = verbose, kit.Progress(*columns, console=console, transient=verbose < 2)
        self.place: tuple[str, Any] | None = None
        self.bars.start()

    def __call__(self, step: Step) -> None:
        named = f"{step.work}: {step.stage}"
        if self.place is None or self.place[0] != named or step.done == 0:
            self.place = named, self.bars.add_task(named, total=step.total, left="")
        left = f"in {_duration(step.seconds)}" if step.done == step.total else ""
        if step.left and not left:
            left = f"{_duration(step.left)} left"
        note = f" ({step.note})" if step.note and self.verbose > 1 else ""
        self.bars.update(self.place[1], completed=step.done, left=left, description=named + note, refresh=True)

    def close(self) -> None:
        """Leave the terminal as it was; with ``verbose=2`` the finished bars stay."""
        self.bars.stop()


def display(verbose: int, stream: TextIO) -> Bar | Lines:
    """The bar of rich on a terminal or in a notebook, where rich is installed; else lines."""
    try:
        console = import_module("rich.console").Console(file=stream)
    except ModuleNotFoundError:
        return Lines(verbose, stream)
    return Bar(verbose, console) if console.is_terminal or console.is_jupyter else Lines(verbose, stream)


def _duration(seconds: float) -> str:
    """Seconds in words.

    >>> [_duration(seconds) for seconds in (0.04, 7.31, 130.0, 7500.0)]
    ['0.0 s', '7.3 s', '2 min 10 s', '2 h 5 min']
    """
    if seconds < 60.0:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
