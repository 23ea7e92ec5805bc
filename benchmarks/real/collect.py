"""``python -m benchmarks.real.collect``: what every expert forecasts on every split, kept for rivals and routers."""

from pathlib import Path
from typing import Annotated

import typer

from benchmarks.command import start
from benchmarks.real.datasets import DataSet
from benchmarks.real.forecasts import make_forecasts
from benchmarks.real.run import tasks_of
from benchmarks.real.suites import select
from gatewise.app.terminal import console, Jobs, show_progress
from gatewise.backends import processes
from gatewise.paper.runner import run_tasks


def forecast(data: DataSet, split: int, pool: str, folder: Path) -> int:
    """Make and keep the forecasts of a split; the number of its training rows."""
    return len(make_forecasts(data, split, pool, folder).y_train)


def main(
    suite: Annotated[str, typer.Option(help="all, or one half: first or second.")] = "all",
    only: Annotated[str | None, typer.Option(help="One data set of the suite.")] = None,
    splits: Annotated[int | None, typer.Option(min=1, help="At most so many splits of every data set.")] = None,
    pool: Annotated[str, typer.Option(help="default or strong.")] = "default",
    jobs: Jobs = 1,
    out: Annotated[Path, typer.Option(help="Folder for the forecasts.")] = Path("out/bench"),
) -> None:
    """The experts' forecasts, out of fold and on the test rows. Goes on where it stopped."""
    tasks = [(data, split, pool, out) for data, split in tasks_of(select(suite, only), splits)]
    rows = run_tasks(forecast, tasks, processes(jobs), show_progress)
    console.print(f"{len(rows)} splits, {sum(rows)} training rows, in {out}")


if __name__ == "__main__":
    start(main)
