"""``gatewise fit | predict | report``: from a file to a model, predictions and a page."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from gatewise.app.terminal import console, Jobs, Json, write_json

app = typer.Typer()
messages = Console(stderr=True, highlight=False)

Data = Annotated[Path, typer.Argument(help="A CSV file, or Parquet by its ending.", show_default=False)]
Model = Annotated[Path, typer.Argument(help="A file that `gatewise fit` has written.", show_default=False)]


@app.command(
    epilog="Examples:\n\n"
    "gatewise fit houses.csv --target price --out price.skops\n\n"
    "gatewise fit sales.parquet --target units --pool pool.toml --drop id --jobs 2"
)
def fit(
    data: Data,
    target: Annotated[str, typer.Option(help="The column to predict.", show_default=False)],
    out: Annotated[Path, typer.Option(help="Where the model goes; its facts go beside it, as JSON.")] = Path(
        "model.skops"
    ),
    pool: Annotated[Path | None, typer.Option(help="A TOML file that names the experts.")] = None,
    drop: Annotated[list[str] | None, typer.Option(help="A column to leave out; may be repeated.")] = None,
    test: Annotated[float, typer.Option(min=0.0, max=0.9, help="The share of rows held back for the score.")] = 0.2,
    seed: Annotated[int, typer.Option(min=0, help="Fixes what is held back, and the fit.")] = 0,
    jobs: Jobs = 1,
    json_file: Json = None,
) -> None:
    """Fit a pool of experts and the gate between them to a table; score it; save it."""
    from gatewise.app import tables  # noqa: PLC0415 - `gatewise --help` need not wait for it

    table = tables.training_table(tables.read_frame(data), target, drop or ())
    write_json(json_file, fit_and_save(table, pool, out, test, seed, jobs).facts)


def fit_and_save(table: Any, pool: Path | None, out: Path, test: float = 0.2, seed: int = 0, jobs: int = 1) -> Any:
    """Score on rows held back, fit to all, save model and facts, and say what came out; the saved model."""
    from threadpoolctl import threadpool_limits  # noqa: PLC0415

    from gatewise.app import fitting, model_file  # noqa: PLC0415
    from gatewise.app.fit_summary import score_table  # noqa: PLC0415

    model = fitting.build(table, pool, seed, jobs)
    for note in table.notes:
        messages.print(note, markup=False, soft_wrap=True)
    with threadpool_limits(1, user_api="blas"):  # the matrices are small: threads would only wait for each other
        with messages.status(f"scoring on {test:.0%} of {len(table.y)} rows"):
            trial = fitting.run_trial(model, table, test, seed)
        with messages.status(f"fitting to all {len(table.y)} rows"):
            saved = fitting.fit_table(model, table, trial)
    if trial is not None:
        console.print(score_table(trial, table.target))
    _say(str(saved.model.verdict_))
    _say(f"model: {model_file.save_model(saved, out)}")
    facts = out.with_suffix(".json")
    facts.write_text(json.dumps(saved.facts, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    _say(f"facts: {facts}")
    return saved


@app.command(
    epilog="Examples:\n\n"
    "gatewise predict price.skops new-houses.csv --out prices.csv\n\n"
    "gatewise predict price.skops new-houses.csv --out prices.parquet --weights --std"
)
def predict(
    model: Model,
    data: Data,
    out: Annotated[Path, typer.Option(help="CSV, or Parquet by its ending: one row for each row of the data.")],
    weights: Annotated[bool, typer.Option("--weights", help="Add the weight of every expert.")] = False,
    std: Annotated[bool, typer.Option("--std", help="Add the standard deviation of the error.")] = False,
    json_file: Json = None,
) -> None:
    """Predict the rows of a table by a fitted model."""
    from gatewise.app import model_file, predicting, tables  # noqa: PLC0415

    saved = model_file.load_model(model)
    answer = predicting.predict_frame(saved, tables.read_frame(data), weights=weights, std=std)
    write_json(json_file, answer.to_dict(orient="records"))
    _say(f"{len(answer)} predictions: {tables.write_frame(answer, out)}")


@app.command(epilog="Example: gatewise report price.skops houses.csv --out price.html")
def report(
    model: Model,
    data: Data,
    out: Annotated[Path, typer.Option(help="Where the page goes.")] = Path("report.html"),
    json_file: Json = None,
) -> None:
    """Explain a fitted model on a table that has the target: one page, which needs no network."""
    from gatewise.app import model_file, tables  # noqa: PLC0415

    found = show_page(model_file.load_model(model), tables.read_frame(data), out, model.name, data.name)
    write_json(json_file, found.record())


def show_page(saved: Any, frame: Any, out: Path, model: str, data: str) -> Any:
    """Write the page of a saved model and say where it is; what the page says."""
    from gatewise.app import findings  # noqa: PLC0415
    from gatewise.app.page import write_page  # noqa: PLC0415

    with messages.status("asking the model"):
        found = findings.find(saved, frame)
    _say(f"page: {write_page(found, out, model, data)}")
    return found


def demo_page(out: Path) -> None:
    """Fit, predict and explain on the demonstration's table; everything it makes lies in the folder ``out``."""
    from gatewise.app import demo_table, predicting, tables  # noqa: PLC0415

    data, pool = demo_table.write_files(out)
    frame = tables.read_frame(data)
    saved = fit_and_save(tables.training_table(frame, demo_table.TARGET), pool, out / "demo.skops")
    answer = predicting.predict_frame(saved, frame, weights=True, std=True)
    console.print(
        f"predictions: {tables.write_frame(answer, out / 'demo-predictions.csv')}", markup=False, soft_wrap=True
    )
    show_page(saved, frame, out / "demo.html", "demo.skops", data.name)


def _say(text: str) -> None:
    """A line as it is: names and paths hold no markup and are not broken."""
    console.print(text, markup=False, soft_wrap=True)
