"""``gatewise demo``: routers on one of the paper's designs, then fit, predict and report on a small table."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from gatewise.app.model_commands import show_fit, show_page
from gatewise.app.terminal import console, Json, messages, say, show_path, write_json

app = typer.Typer()


@app.command(epilog="Example: gatewise demo --out out")
def demo(
    out: Annotated[Path, typer.Option(help="Folder for all that it makes.")] = Path("out"),
    json_file: Json = None,
) -> None:
    """Learn routers on one of the paper's designs; then fit, predict and report on a small table."""
    from gatewise.app.figures.demo_figure import demo_figure, demo_table  # noqa: PLC0415
    from gatewise.paper.demo import run_demo  # noqa: PLC0415 - `gatewise --help` need not wait for it

    with console.status("learning two routers from 400 rows"):
        result = run_demo()
    console.print(demo_table(result))
    write_json(json_file, [asdict(row) for row in result.rows])
    show_path(demo_figure(result, out / "demo.png"))
    show_model(out)


def show_model(out: Path) -> None:
    """Fit, predict and explain on the demonstration's table; everything it makes lies in the folder ``out``."""
    from gatewise.app.models import demo_data, fitting, predicting, tables  # noqa: PLC0415

    data, pool = demo_data.write_files(out)
    frame = tables.read_frame(data)
    with messages.status(f"fitting to {len(frame)} rows"):
        saved, trial = fitting.fit_and_score(tables.training_table(frame, demo_data.TARGET), pool)
    show_fit(saved, trial, out / "demo.skops")
    answer = predicting.predict_frame(saved, frame, weights=True, std=True)
    say(f"predictions: {tables.write_frame(answer, out / 'demo-predictions.csv')}")
    show_page(saved, frame, out / "demo.html", "demo.skops", data.name)
