"""``gatewise demo``: routers on one of the paper's designs, then fit, predict and report on a small table."""

from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any

import typer

from gatewise.app.files import claim, has_mark, is_model, JSON, Output, write_json
from gatewise.app.model_commands import show_fit, show_page
from gatewise.app.terminal import console, Force, Json, messages, say, show_path

app = typer.Typer()


@app.command(epilog="Example: gatewise demo --out out")
def demo(
    out: Annotated[Path, typer.Option(help="Folder for all that it makes.")] = Path("out"),
    json_file: Json = None,
    force: Force = False,
) -> None:
    """Learn routers on one of the paper's designs; then fit, predict and report on a small table."""
    from gatewise.app.figures.demo_figure import demo_figure, demo_table  # noqa: PLC0415
    from gatewise.app.models.demo_data import write_files  # noqa: PLC0415
    from gatewise.paper.demo import run_demo  # noqa: PLC0415 - `gatewise --help` need not wait for it

    places = claim_files(out, force)
    facts = None if json_file is None else claim(json_file, JSON, force=force)
    data, pool = write_files(places["demo.csv"], places["demo-pool.toml"])
    with ProcessPoolExecutor(1, get_context("spawn")) as second:  # both halves compile: each has a core for itself
        fit = second.submit(fit_demo, data, pool)
        with console.status("learning two routers from 400 rows"):
            result = run_demo()
        console.print(demo_table(result))
        write_json(facts, [asdict(row) for row in result.rows])
        show_path(demo_figure(result, places["figure"]))
        with messages.status("fitting a pool of experts"):
            saved, trial = fit.result()
    show_model(saved, trial, data, places)


def claim_files(out: Path, force: bool) -> dict[str, Output]:
    """The places of all files of the demonstration in the folder ``out``."""
    found = {
        "figure": claim(out / "demo.png", [".png"], force=force, ours=has_mark),
        "model": claim(out / "demo.skops", [".skops"], force=force, ours=is_model),
        "page": claim(out / "demo.html", [".html"], force=force, ours=has_mark),
    }
    names = ("demo.csv", "demo-pool.toml", "demo-predictions.csv")
    return found | {name: claim(out / name, [".csv", ".toml"], force=force) for name in names}


def fit_demo(data: Path, pool: Path) -> tuple[Any, Any]:
    """The model of the demonstration's table and the score of its trial."""
    from gatewise.app.models import demo_data, fitting, table_files, tables  # noqa: PLC0415

    table = tables.training_table(table_files.read_frame(data), demo_data.TARGET)
    return fitting.fit_and_score(table, pool)


def show_model(saved: Any, trial: Any, data: Path, places: dict[str, Output]) -> None:
    """Save the fitted model, predict and explain on the demonstration's table."""
    from gatewise.app.models import predicting, table_files  # noqa: PLC0415

    frame = table_files.read_frame(data)
    show_fit(saved, trial, places["model"])
    answer = predicting.predict_frame(saved, frame, weights=True, std=True)
    say(f"predictions: {table_files.write_frame(answer, places['demo-predictions.csv'])}")
    show_page(saved, frame, places["page"], "demo.skops", data.name)
