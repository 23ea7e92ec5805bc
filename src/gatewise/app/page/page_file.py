"""One page that explains a fitted model: a single file, no network, every name escaped."""

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

import gatewise
from gatewise.app.files import has_mark, Output, write_text
from gatewise.app.models.tables import ColumnKind
from gatewise.app.page import page_sections as sections
from gatewise.app.page.findings import Findings
from gatewise.app.page.markup import element, Html, join, raw
from gatewise.app.page.page_parts import expert, number, swatch, table, words_list

ENDINGS = (".html", ".htm")
MOST_ROWS = 1000
PRINTED_ROWS = 40  # as page.css has it

QUESTIONS = (
    ("pays", "Does gating pay here, and by how much?", sections.pays),
    ("where", "Where does each expert win?", sections.where),
    ("real", "Is the specialization real?", sections.real),
    ("how-many", "How many experts to activate?", sections.how_many),
    ("how-sure", "How sure is the router?", sections.how_sure),
)
ROWS_QUESTION = "What would each prediction have used?"


def write_page(findings: Findings, place: Path | Output, model: str = "", data: str = "") -> Path:
    """Write the page; ``model`` and ``data`` are the names of the files that it is about."""
    return write_text(place, render(findings, model, data), ENDINGS, has_mark)


def render(findings: Findings, model: str = "", data: str = "") -> Html:
    """The page as one text: the questions with their answers, a table of rows, style and script."""
    parts = [
        element("section", element("h2", f"{place}. {question}"), answer(findings), id=name)
        for place, (name, question, answer) in enumerate(QUESTIONS, start=1)
    ]
    rows = join(explained_rows(findings), rows_table(findings))
    last = element("section", element("h2", f"6. {ROWS_QUESTION}"), rows, id="rows")
    contents = [*((name, question) for name, question, _ in QUESTIONS), ("rows", ROWS_QUESTION)]
    provenance = _provenance(findings, model, data)
    return document(
        f"Where each model is right: {findings.target}", provenance, contents, [*parts, last, words_list()]
    )


def document(title: str, provenance: str, contents: Sequence[tuple[str, str]], parts: Sequence[Html]) -> Html:
    """A page of sections with style and script: ``contents`` holds the id and the heading of every section."""
    style, script = (
        files("gatewise.app.page").joinpath("assets", name).read_text() for name in ("page.css", "page.js")
    )
    links = [element("li", element("a", question, href=f"#{name}")) for name, question in contents]
    body = join(
        element(
            "main",
            element("h1", title),
            element("p", provenance),
            element("nav", element("ol", links), aria_label="Contents"),
            list(parts),
        ),
        element("p", f"Gatewise {gatewise.__version__}", class_="soft"),
        element("script", raw(script)),
    )
    head = join(
        element("meta", charset="utf-8"),
        element("meta", name="generator", content=f"Gatewise {gatewise.__version__}"),
        element("meta", http_equiv="Content-Security-Policy", content=_policy(script)),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", title),
        element("style", raw(style)),
    )
    page = element("html", element("head", head), element("body", body), lang="en")
    return join(raw("<!doctype html>\n"), page, "\n")


def _policy(script: str) -> str:
    """The content security policy: the browser may show the page's images and run its one script, and load nothing.

    Colour patches carry a style attribute, so styles are allowed in the page; no other script is, whatever the data.
    """
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    return f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"


def _provenance(findings: Findings, model: str, data: str) -> str:
    rows = findings.rows
    n, seen = len(rows.y), int(rows.seen.sum())
    files_text = " and ".join(text for text in (f"model {model}" * bool(model), f"data {data}" * bool(data)) if text)
    thinned = f" (a random {n:,} of {rows.n_file:,})" if n < rows.n_file else ""
    if seen == n:
        source = (
            "The model was fitted to all of these rows, so each is judged by fits that held it out (out of fold)."
        )
    elif seen == 0:
        source = "None of these rows was in the fit: all are judged by the fitted model."
    else:
        source = (
            f"{seen:,} of these rows were in the fit and are judged by fits that held them out (out of fold); "
            f"the other {n - seen:,} are new and judged by the fitted model."
        )
    return f"{files_text[:1].upper()}{files_text[1:]}{': ' * bool(files_text)}{n:,} rows{thinned}. {source}"


def explained_rows(findings: Findings) -> Html | None:
    """Some predictions as sums of their parts."""
    found = findings.explained
    if not found:
        return None
    names = list(found[0].parts)
    rows: list[list[Any]] = [[name, *(number(one.parts[name]) for one in found)] for name in names]
    rows.append(["prediction, the sum", *(number(one.prediction) for one in found)])
    return join(
        element("h3", "Some predictions as sums"),
        table(
            ["part", *(f"row {one.row}" for one in found)],
            rows,
            bold=[*(False for _ in names), True],
            note="Each expert's part is its weight times its forecast. By the model that was fitted to all rows.",
        ),
        element("h3", "All rows"),
    )


def rows_table(findings: Findings) -> Html:
    """Rows of the data with their predictions and weights, sortable."""
    rows = findings.rows
    n = len(rows.y)
    some = np.arange(n)
    if n > MOST_ROWS:
        some = np.sort(np.random.default_rng(0).choice(n, MOST_ROWS, replace=False))
    inputs = [one.column for one in findings.importance[:2]]
    heads: list[Any] = ["row", findings.target, "prediction", "error", "leading expert"]
    heads += [join(swatch(m), f"weight {name}") for m, name in enumerate(rows.names)]
    heads += [column.name for column in inputs]
    thead = [element("th", element("button", head, type="button"), scope="col") for head in heads]
    body = [element("tr", _cells(findings, int(i), inputs)) for i in some]
    text = f"{len(some):,} rows" if n <= MOST_ROWS else f"A random {len(some):,} of {n:,} rows"
    all_rows = element("table", element("thead", element("tr", thead)), element("tbody", body))
    how = "A click on a heading sorts; another turns the order round. The two most important columns come last."
    paper = f"{text}, of which paper shows the first {min(PRINTED_ROWS, len(some))}."
    return join(
        element("p", f"{text}. {how}", class_="screen-only"),
        element("p", paper, class_="paper-only"),
        element("div", all_rows, class_="tall"),
    )


def _cells(findings: Findings, i: int, inputs: Sequence[ColumnKind]) -> list[Html]:
    rows = findings.rows
    y, forecast = float(rows.y[i]), float(rows.forecast[i])
    cells = [_number(int(rows.place[i]) + 1, "d")]
    cells += [_number(value) for value in (y, forecast, forecast - y)]
    leader = int(rows.weights[i].argmax())
    cells.append(element("td", expert(rows.names, rows.names[leader])))
    cells += [_number(float(weight), ".2f") for weight in rows.weights[i]]
    return cells + [_input(rows.X[column.name].iloc[i], column.kind) for column in inputs]


def _input(value: Any, kind: str) -> Html:
    """The cell of an input value; numbers and dates carry the number that they are sorted by."""
    if isinstance(value, str):
        return element("td", value)
    if not np.isfinite(value):
        return element("td", "missing", data_value="-1e308") if kind != "text" else element("td", "missing")
    if kind == "date":
        day = np.datetime64("1970-01-01") + np.timedelta64(int(np.floor(value)), "D")
        return element("td", day, class_="number", data_value=f"{value:.9g}")
    return _number(float(value))


def _number(value: float, form: str | None = None) -> Html:
    """The cell of a number as a person writes it, with the number that it is sorted by."""
    text = number(value) if form is None else format(value, form)
    return element("td", text, class_="number", data_value=format(value, "d" if form == "d" else ".9g"))
