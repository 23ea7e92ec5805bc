"""``gatewise look | fit | predict | report``: from a file to a model, predictions and a page.

The commands parse and print; `gatewise.app.models` and `gatewise.app.page` do the work. Every command imports what it
needs when it runs, as pandas, skops and matplotlib would make ``gatewise --help`` wait. A command claims the files
that it will write before it does anything else.
"""

from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from gatewise.app.files import claim, claim_json, has_mark, header_with, is_model, Output, write_json
from gatewise.app.terminal import console, Force, Jobs, Json, messages, plain, say, show_progress
from gatewise.progress import shown

app = typer.Typer()

# Keys of the JSON that a command writes, and columns of its table: a file without them is not replaced unasked.
VIEW = ("n_rows", "columns", "notes")
FACTS = ("versions", "rows", "columns", "target")
PREDICTIONS = ("prediction",)
FINDINGS = ("target", "n_rows", "verdict", "scores")

Data = Annotated[
    Path,
    typer.Argument(
        help="A CSV file; Parquet or Excel by its ending; a folder or pattern of Parquet files.", show_default=False
    ),
]
Scheduler = Annotated[
    str | None, typer.Option(help="Address of a dask scheduler whose workers do the work, as tcp://host:8786.")
]
Model = Annotated[Path, typer.Argument(help="A file that `gatewise fit` has written.", show_default=False)]
NAMED = "linear, quadratic, kernel, forecast, tree"  # of `gate_names`, without the import of it; a test compares
Gates = Annotated[
    list[str] | None,
    typer.Option(help=f"Gates to learn: {NAMED}, or one that a package adds; may be repeated. Without any: auto."),
]
Sep = Annotated[str | None, typer.Option(help="What stands between values, as ';' or tab; guessed if not given.")]
Encoding = Annotated[str | None, typer.Option(help="How letters are stored, as cp1252; guessed if not given.")]
Decimal = Annotated[str | None, typer.Option(help="The decimal mark, '.' or ','; guessed if not given.")]
TaskName = Annotated[
    str | None, typer.Option("--task", help="regression or classification; seen from the target if not given.")
]
Key = Annotated[str | None, typer.Option(help="The column that names a row; it goes into the predictions.")]
Boosters = Annotated[
    bool, typer.Option("--boosters", help="The file is trusted: load trees of lightgbm, xgboost or catboost, too.")
]
Drop = Annotated[list[str] | None, typer.Option(help="A column to leave out; may be repeated.")]
Keep = Annotated[list[str] | None, typer.Option(help="A column to use though it looks like an identifier.")]


@app.command(epilog="Examples:\n\ngatewise look houses.csv --target price\n\ngatewise look verkauf.csv --sep ';'")
def look(
    data: Data,
    target: Annotated[str | None, typer.Option(help="The column to predict, if it is to be checked, too.")] = None,
    key: Key = None,
    drop: Drop = None,
    keep: Keep = None,
    sep: Sep = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    json_file: Json = None,
    force: Force = False,
) -> None:
    """Say what would be read from a table, column by column, before any fit."""
    from gatewise.app.figures.look_table import look_table  # noqa: PLC0415
    from gatewise.app.models import looking  # noqa: PLC0415

    facts = claim_json(json_file, VIEW, [data], force)
    table = _read(data, sep, encoding, decimal)
    found = looking.look_at(table, target, drop or (), key, keep or ())
    console.print(look_table(found, data.name))
    write_json(facts, found.record())


@app.command(
    epilog="Examples:\n\n"
    "gatewise fit houses.csv --target price --out price.skops\n\n"
    "gatewise fit sales.parquet --target units --pool pool.toml --key id --jobs 2\n\n"
    "gatewise fit houses.csv --target price --gates linear --gates kernel\n\n"
    "gatewise fit 'data/*.parquet' --target units --scheduler tcp://host:8786"
)
def fit(
    data: Data,
    target: Annotated[str, typer.Option(help="The column to predict.", show_default=False)],
    out: Annotated[Path, typer.Option(help="Where the model goes, with the facts of its fit.")] = Path("model.skops"),
    pool: Annotated[Path | None, typer.Option(help="A TOML file that names the experts.")] = None,
    gates: Gates = None,
    task: TaskName = None,
    key: Key = None,
    drop: Drop = None,
    keep: Keep = None,
    test: Annotated[float, typer.Option(min=0.0, max=0.9, help="The share of rows held back for the score.")] = 0.2,
    seed: Annotated[int, typer.Option(min=0, help="Fixes what is held back, and the fit.")] = 0,
    jobs: Jobs = 1,
    scheduler: Scheduler = None,
    sep: Sep = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    json_file: Json = None,
    force: Force = False,
) -> None:
    """Fit a pool of experts and the gate between them to a table; score it; save it."""
    from gatewise.app.models import fitting, model_file, tables, tasks  # noqa: PLC0415
    from gatewise.backends import on_scheduler  # noqa: PLC0415

    place = claim(out, model_file.ENDINGS, [data, pool], force, is_model)
    facts = claim_json(json_file, FACTS, [data, pool], force)
    frame = _read(data, sep, encoding, decimal).frame
    kind, note = tasks.find_task(frame, target) if task is None else (tasks.checked_task(task), "")
    table = tables.training_table(frame, target, drop or (), key, keep or (), classes=kind == "classification")
    del frame  # what it takes may be much of the memory
    tell([*table.notes, *([note] if note else [])])
    with shown(), nullcontext() if scheduler is None else on_scheduler(scheduler):
        saved, trial = fitting.fit_and_score(table, pool, gates, test, seed, jobs if scheduler is None else None)
    show_fit(saved, trial, place)
    write_json(facts, saved.facts)


def show_fit(saved: Any, trial: Any, place: Path | Output) -> None:
    """Print the score and the verdict of a fit, and write the model."""
    from gatewise.app.figures.class_summary import class_score_table  # noqa: PLC0415
    from gatewise.app.figures.fit_summary import score_table  # noqa: PLC0415
    from gatewise.app.models import model_file  # noqa: PLC0415
    from gatewise.router.facts import verdict_notes  # noqa: PLC0415

    if trial is not None:
        table = class_score_table if hasattr(saved.model, "classes_") else score_table
        console.print(table(trial, saved.target))
        tell([trial.left_out] if trial.left_out else [])
    for line in (str(saved.model.verdict_), *verdict_notes(saved.model)):
        say(line)
    say(f"model: {model_file.save_model(saved, place)}")


@app.command(
    epilog="Examples:\n\n"
    "gatewise predict price.skops new-houses.csv --out prices.csv\n\n"
    "gatewise predict price.skops new-houses.csv --out prices.parquet --key id --weights --std\n\n"
    "gatewise predict units.skops 'new/*.parquet' --out units.parquet --scheduler tcp://host:8786"
)
def predict(
    model: Model,
    data: Data,
    out: Annotated[Path, typer.Option(help="CSV, or Parquet by its ending: one row for each row of the data.")],
    key: Key = None,
    weights: Annotated[bool, typer.Option("--weights", help="Add the weight of every expert.")] = False,
    std: Annotated[bool, typer.Option("--std", help="Add the standard deviation of the error.")] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Add the parts that a prediction is the sum of.")
    ] = False,
    scheduler: Scheduler = None,
    sep: Sep = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    boosters: Boosters = False,
    json_file: Json = None,
    force: Force = False,
) -> None:
    """Predict the rows of a table by a fitted model."""
    from gatewise.app.models import model_file, parquet_folder, predicting, table_files  # noqa: PLC0415
    from gatewise.backends import asked_of_workers  # noqa: PLC0415

    place = claim(out, table_files.WRITTEN, [model, data], force, header_with(PREDICTIONS))
    facts = claim_json(json_file, PREDICTIONS, [model, data], force)
    files = parquet_folder.parquet_files(data)
    if scheduler is not None and not files:
        raise ValueError("scheduler: takes a folder or a pattern of Parquet files, block by block")
    saved = model_file.load_model(model, boosters)
    asked = partial(predicting.predict_frame, weights=weights, std=std, explain=explain, key=key)
    if files:
        if facts is not None:
            raise ValueError("json: predictions of a folder are written block by block; leave out --json")
        blocks = parquet_folder.blocks_of_rows(files)
        answers: Iterator[Any] = map(partial(asked, saved), blocks)
        if scheduler is not None:
            answers = asked_of_workers(scheduler, asked, saved, blocks)
        told = show_progress(answers, 0, parquet_folder.count_rows(files), "predict", "rows", len)
        where, n = table_files.write_frames(told, place)
    else:
        answer = asked(saved, _read(data, sep, encoding, decimal).frame)
        where, n = table_files.write_answer(answer, place, facts), len(answer)
    say(f"{n} predictions: {where}")


@app.command(epilog="Example: gatewise report price.skops houses.csv --out price.html")
def report(
    model: Model,
    data: Data,
    out: Annotated[Path, typer.Option(help="Where the page goes.")] = Path("report.html"),
    sep: Sep = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    boosters: Boosters = False,
    json_file: Json = None,
    force: Force = False,
) -> None:
    """Explain a fitted model on a table that has the target: one page, which needs no network."""
    from gatewise.app.models import model_file  # noqa: PLC0415
    from gatewise.app.page import page_file  # noqa: PLC0415

    place = claim(out, page_file.ENDINGS, [model, data], force, has_mark)
    facts = claim_json(json_file, FINDINGS, [model, data], force)
    saved, frame = model_file.load_model(model, boosters), _read(data, sep, encoding, decimal).frame
    found = show_page(saved, frame, place, model.name, data.name)
    write_json(facts, found.record())


def show_page(saved: Any, frame: Any, place: Path | Output, model: str, data: str) -> Any:
    """Write the page of a saved model about a data frame and say where it is; the findings that the page shows."""
    from gatewise.app.page import class_findings, class_page, findings, page_file  # noqa: PLC0415

    if hasattr(saved.model, "classes_"):
        with messages.status("asking the model"):
            of_classes = class_findings.find_classes(saved, frame)
        tell(of_classes.rows.left_out)
        say(f"page: {class_page.write_class_page(of_classes, place, model, data)}")
        return of_classes
    with messages.status("asking the model"):
        found = findings.find(saved, frame)
    say(f"page: {page_file.write_page(found, place, model, data)}")
    return found


def tell(notes: Any) -> None:
    """Print notes on how a table was read, beside the results."""
    for note in notes:
        messages.print(plain(note), markup=False, soft_wrap=True)


def _read(data: Path, sep: str | None, encoding: str | None, decimal: str | None) -> Any:
    """The table of a file; what was guessed is said."""
    from gatewise.app.models import table_files  # noqa: PLC0415

    table = table_files.read_table(data, table_files.TextFormat(sep, encoding, decimal))
    tell(table.notes)
    return table
