"""``gatewise fit | predict | report``: from a file to a model, predictions and a page.

The commands parse and print; `gatewise.app.models` and `gatewise.app.page` do the work. Every command imports what it
needs when it runs, as pandas, skops and matplotlib would make ``gatewise --help`` wait.
"""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from gatewise.app.models.gate_names import AUTO, gate_names
from gatewise.app.terminal import console, Jobs, Json, messages, say, write_json

app = typer.Typer()

Data = Annotated[Path, typer.Argument(help="A CSV file, or Parquet by its ending.", show_default=False)]
Model = Annotated[Path, typer.Argument(help="A file that `gatewise fit` has written.", show_default=False)]
Gates = Annotated[
    list[str] | None,
    typer.Option(help=f"Gates to learn: {', '.join(gate_names())}; may be repeated. Without any: {AUTO}."),
]


@app.command(
    epilog="Examples:\n\n"
    "gatewise fit houses.csv --target price --out price.skops\n\n"
    "gatewise fit sales.parquet --target units --pool pool.toml --drop id --jobs 2\n\n"
    "gatewise fit houses.csv --target price --gates linear --gates kernel"
)
def fit(
    data: Data,
    target: Annotated[str, typer.Option(help="The column to predict.", show_default=False)],
    out: Annotated[Path, typer.Option(help="Where the model goes; its facts go beside it, as JSON.")] = Path(
        "model.skops"
    ),
    pool: Annotated[Path | None, typer.Option(help="A TOML file that names the experts.")] = None,
    gates: Gates = None,
    drop: Annotated[list[str] | None, typer.Option(help="A column to leave out; may be repeated.")] = None,
    test: Annotated[float, typer.Option(min=0.0, max=0.9, help="The share of rows held back for the score.")] = 0.2,
    seed: Annotated[int, typer.Option(min=0, help="Fixes what is held back, and the fit.")] = 0,
    jobs: Jobs = 1,
    json_file: Json = None,
) -> None:
    """Fit a pool of experts and the gate between them to a table; score it; save it."""
    from gatewise.app.models import fitting, tables  # noqa: PLC0415

    table = tables.training_table(tables.read_frame(data), target, drop or ())
    for note in table.notes:
        messages.print(note, markup=False, soft_wrap=True)
    with messages.status(f"fitting to {len(table.y)} rows"):
        saved, trial = fitting.fit_and_score(table, pool, gates, test, seed, jobs)
    show_fit(saved, trial, out)
    write_json(json_file, saved.facts)


def show_fit(saved: Any, trial: Any, out: Path) -> None:
    """Print the score and the verdict of a fit, and write the model with its facts as JSON beside it."""
    from gatewise.app.figures.fit_summary import score_table  # noqa: PLC0415
    from gatewise.app.models import model_file  # noqa: PLC0415

    if trial is not None:
        console.print(score_table(trial, saved.target))
    say(str(saved.model.verdict_))
    say(f"model: {model_file.save_model(saved, out)}")
    facts = out.with_suffix(".json")
    facts.write_text(json.dumps(saved.facts, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    say(f"facts: {facts}")


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
    explain: Annotated[
        bool, typer.Option("--explain", help="Add the parts that a prediction is the sum of.")
    ] = False,
    json_file: Json = None,
) -> None:
    """Predict the rows of a table by a fitted model."""
    from gatewise.app.models import model_file, predicting, tables  # noqa: PLC0415

    saved = model_file.load_model(model)
    answer = predicting.predict_frame(saved, tables.read_frame(data), weights=weights, std=std, explain=explain)
    write_json(json_file, answer.to_dict(orient="records"))
    say(f"{len(answer)} predictions: {tables.write_frame(answer, out)}")


@app.command(epilog="Example: gatewise report price.skops houses.csv --out price.html")
def report(
    model: Model,
    data: Data,
    out: Annotated[Path, typer.Option(help="Where the page goes.")] = Path("report.html"),
    json_file: Json = None,
) -> None:
    """Explain a fitted model on a table that has the target: one page, which needs no network."""
    from gatewise.app.models import model_file, tables  # noqa: PLC0415

    found = show_page(model_file.load_model(model), tables.read_frame(data), out, model.name, data.name)
    write_json(json_file, found.record())


def show_page(saved: Any, frame: Any, out: Path, model: str, data: str) -> Any:
    """Write the page of a saved model about a data frame and say where it is; the findings that the page shows."""
    from gatewise.app.page import findings, page_file  # noqa: PLC0415

    with messages.status("asking the model"):
        found = findings.find(saved, frame)
    say(f"page: {page_file.write_page(found, out, model, data)}")
    return found
