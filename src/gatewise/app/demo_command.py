"""``gatewise demo``: routers on one of the paper's designs, then fit, predict and report on a small table."""

import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Annotated, Any

import typer

from gatewise.app import end_quickly, list_no_estimators
from gatewise.app.files import claim, claim_json, has_mark, header_with, is_model, Output, write_json
from gatewise.app.model_commands import PREDICTIONS, show_fit, show_page
from gatewise.app.terminal import console, Force, Json, messages, say, show_path

app = typer.Typer()
ROUTERS = ("method", "rmse", "evaluations_per_row")  # keys of its JSON
TABLE = ("sea_km", "altitude_m", "wind", "temperature")  # columns of its table, among others


@app.command(epilog="Example: gatewise demo --out out")
def demo(
    out: Annotated[Path, typer.Option(help="Folder for all that it makes.")] = Path("out"),
    json_file: Json = None,
    force: Force = False,
) -> None:
    """Learn routers on one of the paper's designs; then fit, predict and report on a small table."""
    places = claim_files(out, force)
    facts = claim_json(json_file, ROUTERS, force=force)
    with beside(make_model, places) as model:  # both halves compile: each has a core for itself
        with console.status("learning two routers from 400 rows"):
            result = show_routers(places["figure"])
        write_json(facts, [asdict(row) for row in result.rows])
        with messages.status("fitting a pool of experts"):
            told = model.result()
    console.file.write(told)


def show_routers(place: Output) -> Any:
    """Learn the two routers, print how far they are from the truth, and draw them."""
    from gatewise.app.figures.demo_figure import demo_figure, demo_table  # noqa: PLC0415 - see `model_commands`
    from gatewise.paper.demo import run_demo  # noqa: PLC0415

    compile_trees()
    result = run_demo()
    console.print(demo_table(result))
    show_path(demo_figure(result, place))
    return result


def compile_trees() -> None:
    """Compile the growing of trees for the other process, which needs it last and has more to compile."""
    import numpy as np  # noqa: PLC0415

    from gatewise.kernels.trees import boost, Boosting, BoostingProblem, BoostingSample, forests  # noqa: PLC0415

    column, sample = np.arange(20.0)[:, None], BoostingSample(np.ones(1), np.ones(20), 1.0, np.arange(20))
    boost(BoostingProblem(column, column, column[:, 0]), [sample], "shared", Boosting(1, 0.5, (1,)), seed=0)
    forests(column, [column[:, 0]], [sample], 5, seed=0)


@contextmanager
def beside(work: Callable[..., Any], *args: Any) -> Iterator[Future[Any]]:
    """A call that runs in a process of its own and ends with the block. Ctrl-C reaches both; this one says so."""
    with ProcessPoolExecutor(1, get_context("spawn"), end_quietly) as pool:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # the new process is not to hear it at first
        try:
            call = pool.submit(work, *args)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        try:
            yield call
        except BaseException:
            for process in active_children():
                process.terminate()
            raise


def end_quietly() -> None:
    """Let the system end this process at Ctrl-C, without a word."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def claim_files(out: Path, force: bool) -> dict[str, Output]:
    """The places of all files of the demonstration in the folder ``out``."""
    found = {
        "figure": claim(out / "demo.png", [".png"], force=force, ours=has_mark),
        "model": claim(out / "demo.skops", [".skops"], force=force, ours=is_model),
        "page": claim(out / "demo.html", [".html"], force=force, ours=has_mark),
    }
    tables = {"demo.csv": TABLE, "demo-predictions.csv": PREDICTIONS}
    found |= {name: claim(out / name, [".csv"], force=force, ours=header_with(tables[name])) for name in tables}
    return found | {"demo-pool.toml": claim(out / "demo-pool.toml", [".toml"], force=force, ours=is_pool)}


def is_pool(path: Path) -> bool:
    """Whether a file is the demonstration's pool of experts."""
    from gatewise.app.models.demo_data import POOL  # noqa: PLC0415 - see `model_commands`

    return path.read_bytes() == POOL.encode()


def make_model(places: dict[str, Output]) -> str:
    """Fit a pool to a small table, save, predict and explain; returns what there is to print."""
    end_quickly()
    list_no_estimators()
    from gatewise.app.models import demo_data, fitting, predicting, table_files, tables  # noqa: PLC0415

    messages.quiet = True  # the other process has the terminal
    data, pool = demo_data.write_files(places["demo.csv"], places["demo-pool.toml"])
    frame = table_files.read_frame(data)
    with console.capture() as told:
        saved, trial = fitting.fit_and_score(tables.training_table(frame, demo_data.TARGET), pool)
        show_fit(saved, trial, places["model"])
        answer = predicting.predict_frame(saved, frame, weights=True, std=True)
        say(f"predictions: {table_files.write_frame(answer, places['demo-predictions.csv'])}")
        show_page(saved, frame, places["page"], "demo.skops", data.name)
    return told.get()
