"""What all commands share: the consoles, common options, progress and figures' paths."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from gatewise.progress import reported

console = Console(highlight=False)
messages = Console(stderr=True, highlight=False)  # what is no result: notes and progress

Reps = Annotated[int, typer.Option(min=2, help="Samples drawn at every size.")]
Seed = Annotated[int, typer.Option(min=0, help="Fixes every sample.")]


def _checked_jobs(jobs: int) -> int:
    if jobs < 1 and jobs != -1:
        raise ValueError(f"--jobs must be a whole number of 1 or more, or -1, not {jobs}")
    return jobs


Jobs = Annotated[
    int,
    typer.Option(help="Processes, -1 for one per core; the results do not depend on it.", callback=_checked_jobs),
]
Force = Annotated[bool, typer.Option("--force", help="Replace files that Gatewise did not write.")]
Json = Annotated[Path | None, typer.Option("--json", help="Write the figures as JSON, too.")]


def show_progress(
    items: Iterable[Any],
    done: int,
    total: int,
    work: str = "reproduce",
    stage: str = "replications",
    size: Callable[[Any], int] = lambda _: 1,
) -> Iterator[Any]:
    """Pass items on and show a bar with the time left; ``done`` of ``total`` were in the store before.

    An item counts as many as ``size`` says.
    """
    note = f"{stage} ({done:,} from the store)" if done else stage
    with reported(work, verbose=1) as progress:
        if progress is not None:
            progress.stage(note, total, done)
        for item in items:
            yield item
            if progress is not None:
                progress.step(count=size(item))


def plain(text: str) -> str:
    """A text without characters that a terminal would obey; a name may hold any.

    >>> plain("a\\x1b[31mred")
    'a\ufffd[31mred'
    """
    return "".join(
        letter if letter.isprintable() or letter == "\n" else "\N{REPLACEMENT CHARACTER}" for letter in text
    )


def say(text: str) -> None:
    """Print a line as it is: names and paths hold no markup and are not broken."""
    console.print(plain(text), markup=False, soft_wrap=True)


def show_path(path: Path) -> None:
    """Say where a figure lies."""
    say(f"figure: {path}")
