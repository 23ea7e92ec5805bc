"""``gatewise demo``: routers on one of the paper's designs, then fit, predict and report on a small table."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

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
    from gatewise.paper.demo import run_demo  # noqa: PLC0415 - `gatewise --help` need not wait for it

    places = claim_files(out, force)
    facts = None if json_file is None else claim(json_file, JSON, force=force)
    with console.status("learning two routers from 400 rows"):
        result = run_demo()
    console.print(demo_table(result))
    write_json(facts, [asdict(row) for row in result.rows])
    show_path(demo_figure(result, places["figure"]))
    show_model(places)


def claim_files(out: Path, force: bool) -> dict[str, Output]:
    """The places of all files of the demonstration in the folder ``out``."""
    found = {
        "figure": claim(out / "demo.png", [".png"], force=force, ours=has_mark),
        "model": claim(out / "demo.skops", [".skops"], force=force, ours=is_model),
        "page": claim(out / "demo.html", [".html"], force=force, ours=has_mark),
    }
    names = ("demo.csv", "demo-pool.toml", "demo-predictions.csv")
    return found | {name: claim(out / name, [".csv", ".toml"], force=force) for name in names}


def show_model(places: dict[str, Output]) -> None:
    """Fit, predict and explain on the demonstration's table."""
    from gatewise.app.models import demo_data, fitting, predicting, table_files, tables  # noqa: PLC0415

    data, pool = demo_data.write_files(places["demo.csv"], places["demo-pool.toml"])
    frame = table_files.read_frame(data)
    with messages.status(f"fitting to {len(frame)} rows"):
        saved, trial = fitting.fit_and_score(tables.training_table(frame, demo_data.TARGET), pool)
    show_fit(saved, trial, places["model"])
    answer = predicting.predict_frame(saved, frame, weights=True, std=True)
    say(f"predictions: {table_files.write_frame(answer, places['demo-predictions.csv'])}")
    show_page(saved, frame, places["page"], "demo.skops", data.name)
