"""The page of a classifier: scores, whether its probabilities can be trusted, and where each expert wins."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from gatewise.app.figures.geometry_figures import LINES
from gatewise.app.files import has_mark, Output, write_text
from gatewise.app.page import page_plots as plots
from gatewise.app.page.class_findings import ClassFindings, TOP
from gatewise.app.page.importance import LEAST_MOVED, SHOWN
from gatewise.app.page.markup import element, Html, join
from gatewise.app.page.page_file import document, ENDINGS
from gatewise.app.page.page_parts import (
    ANSWERS,
    DASH,
    expert,
    figures,
    interval,
    leading_words,
    losing_leaders,
    NBSP,
    number,
    p_words,
    region_words,
    saved_words,
    table,
)
from gatewise.router.class_scores import ReliabilityBin
from gatewise.router.verdict import RegionTable

MOST_ROWS = 300  # in the table of rows
MOST_CLASSES = 12  # columns of probabilities in it


def write_class_page(findings: ClassFindings, place: Path | Output, model: str = "", data: str = "") -> Path:
    """Write the page; ``model`` and ``data`` are the names of the files that it is about."""
    return write_text(place, render_classes(findings, model, data), ENDINGS, has_mark)


def render_classes(findings: ClassFindings, model: str = "", data: str = "") -> Html:
    """The page as one text."""
    questions = [
        ("pays", "Does gating pay here, and by how much?", _pays(findings)),
        ("trust", "Can the probabilities be trusted?", _trust(findings)),
        ("where", "Where does each expert win?", _where(findings)),
        ("classes", "Which expert for which class?", _by_class(findings)),
        ("rows", "What would each prediction have used?", _rows(findings)),
    ]
    parts = [
        element("section", element("h2", f"{place}. {question}"), answer, id=key)
        for place, (key, question, answer) in enumerate(questions, start=1)
    ]
    contents = [(key, question) for key, question, _ in questions]
    return document(f"Which class: {findings.target}", _provenance(findings, model, data), contents, parts)


def _provenance(findings: ClassFindings, model: str, data: str) -> str:
    rows = findings.rows
    n, seen = len(rows.y), int(rows.seen.sum())
    named = " and ".join(text for text in (f"model {model}" * bool(model), f"data {data}" * bool(data)) if text)
    thinned = f" (a random {n:,} of {rows.n_file:,})" if n < rows.n_file else ""
    source = f"{seen:,} were in the fit and are judged by fits that held them out, {n - seen:,} by the fitted model."
    start = f"{named[:1].upper()}{named[1:]}{': ' * bool(named)}{n:,} rows{thinned}, {len(rows.classes)} classes."
    left_out = "".join(f" {note[:1].upper()}{note[1:]}." for note in rows.left_out)
    return f"{start} Of the rows, {source}{left_out}"


def _pays(findings: ClassFindings) -> Html:
    verdict = findings.verdict
    saved = saved_words(verdict.gain, "log loss on held-out rows of the fit", verdict.baseline)
    test = (
        "Gating is said to pay only if gates help beyond all answers with fixed weights, by a test at 5"
        f"{NBSP}% on rows that nothing behind them has seen ({p_words(verdict.p_value)}). "
        f"Nearest to: {verdict.candidate}."
    )
    best = min(one.scores.log_loss for one in findings.scores)
    rows = [
        [
            one.method + (" (best single)" if one.method == f"{findings.best_single} alone" else ""),
            f"{one.scores.log_loss:.4f}",
            f"{one.scores.brier:.4f}",
            f"{one.scores.accuracy:.1%}",
            f"{one.scores.auc:.3f}" if np.isfinite(one.scores.auc) else DASH,
            f"{one.scores.calibration_error:.3f}",
            "" if one.gain is None else interval(one.gain, "{:.4f}".format),
        ]
        for one in findings.scores
    ]
    heads = ["method", "log loss", "Brier", "accuracy", "AUC", "calibration error", "nats saved a row (95 %)"]
    note = (
        "Log loss: the mean of minus the log of the probability that the class of a row had. Brier: the mean squared "
        "distance of the probabilities from what happened. AUC of more than two classes: the mean over classes "
        "against the rest. Calibration error: expected, of the most probable class, 15 bins of equal mass. Intervals "
        "are as wide as that of the verdict, as rows share their fits."
    )
    scores = table(heads, rows, bold=[one.scores.log_loss == best for one in findings.scores], note=note)
    answer = element("p", join(f"{ANSWERS[verdict.headline]} ", saved), class_="answer")
    constant = [element("p", f"Predictions are {words}.") for words in findings.beside_constant]
    return join(answer, *constant, element("p", test), scores)


def _trust(findings: ClassFindings) -> Html:
    ours = findings.scores[0].scores
    bins = findings.diagrams[TOP]
    off = [one for one in bins if not one.fraction.low <= one.probability <= one.fraction.high]
    words = (
        f"Of the most probable class, probability and frequency differ by {100 * ours.calibration_error:.1f}{NBSP}"
        f"points in the mean. In {len(bins) - len(off)} of {len(bins)} groups of rows the probability lies within "
        f"the 95{NBSP}% interval of the frequency."
    )
    drawn = [
        (reliability_plot(found), f"How often {name} came, against its probability; bars are 95 % intervals.")
        for name, found in findings.diagrams.items()
    ]
    floors = ", ".join(f"{name} {100 * floor:.2g}{NBSP}%" for name, floor in findings.floors.items())
    text = f"So that no probability is 0, class frequencies are mixed into every expert's: {floors}."
    return join(element("p", words, class_="answer"), figures(*drawn), element("p", text, class_="soft"))


def reliability_plot(bins: Sequence[ReliabilityBin]) -> str:
    """Frequencies with intervals against mean probabilities, beside the diagonal where both are equal."""

    def draw(panel: Axes) -> None:
        panel.plot([0.0, 1.0], [0.0, 1.0], color="#333333", linewidth=0.8, linestyle="--")
        for one in bins:
            panel.plot([one.probability] * 2, [one.fraction.low, one.fraction.high], color="#333333", linewidth=1.4)
        x, y = [one.probability for one in bins], [one.fraction.value for one in bins]
        panel.plot(x, y, "o-", color=LINES[0], markersize=5)
        panel.set(xlabel="probability", ylabel="frequency", xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))

    return plots.image(draw, 3.6)


def _where(findings: ClassFindings) -> Html:
    names = findings.rows.names
    moved = [one for one in findings.importance if one.weight_moved >= LEAST_MOVED][:8]
    columns = ", ".join(f"{one.column.name} ({one.weight_moved:.0%})" for one in moved)
    text = f"Columns by how much weight moves when they are shuffled: {columns}." if moved else ""
    drawn = []
    if findings.map is not None:
        caption = (
            f"Who leads over {findings.map.x.name} and {findings.map.y.name} by the fitted gate: paler where the "
            "lead is small, white line where it is 0.1. Dots are rows, in the colour of the leader of the fit that "
            "held them out."
        )
        drawn.append((plots.map_plot(findings.map, findings.rows), caption))
    for one in findings.profiles[:SHOWN]:
        drawn.append((plots.profile_plot(one, names), f"Mean weights along {one.axis.name}."))
    return join(
        leading_words(findings.regions, findings.leaders),
        losing_leaders(findings.regions),
        element("p", text or "No column by itself moves the weights by more than 1 %."),
        figures(*drawn) if drawn else None,
        _regions(findings, findings.regions, "log loss there", "In log loss, on held-out rows of the fit."),
        _regions(findings, findings.error_regions, "errors there", "In wrong labels: the fraction of rows."),
    )


def _regions(findings: ClassFindings, found: RegionTable, measure: str, note: str) -> Html:
    names, columns = findings.rows.names, [one.column for one in findings.importance]
    rows = [
        [
            expert(names, row.expert),
            f"{row.share:.0%}",
            f"{row.mean_weight:.2f}",
            number(row.loss.value),
            join(expert(names, row.runner_up), f" {number(row.runner_up_loss.value)}") if row.share > 0 else DASH,
            row.wins if row.share > 0 else DASH,
            element("div", region_words(row.description, columns), class_="words"),
        ]
        for row in found
    ]
    heads = ["expert", "leads", "mean weight", measure, "runner-up", "wins there", "region in words"]
    return table(heads, rows, words={4, 5, 6}, note=note)


def _by_class(findings: ClassFindings) -> Html:
    names, shown = findings.rows.names, [row for row in findings.by_class if row.shown]
    words = f"In {len(shown)} of {len(findings.by_class)} classes one expert is better than all others beyond chance."
    rows = [
        [
            row.label,
            f"{row.count:,}",
            f"{row.recall:.0%}",
            interval(row.model_loss),
            expert(names, row.expert),
            interval(row.loss),
            join(expert(names, row.runner_up), f" {interval(row.advantage)}"),
            "yes" if row.shown else "not shown",
        ]
        for row in findings.by_class
    ]
    heads = ["class", "rows", "found", "log loss", "best expert", "its log loss", "the next one loses", "shown"]
    note = (
        "On the rows of each class; found: how many of them get this label. 95 % intervals. Shown: the next one is "
        "worse by a test at 5 %, adjusted for the number of classes."
    )
    return join(element("p", words, class_="answer"), table(heads, rows, words={4, 6, 7}, note=note))


def _rows(findings: ClassFindings) -> Html:
    rows = findings.rows
    n, shown = len(rows.y), rows.classes[:MOST_CLASSES]
    some = np.arange(n)
    if n > MOST_ROWS:
        some = np.sort(np.random.default_rng(0).choice(n, MOST_ROWS, replace=False))
    heads: list[Any] = ["row", findings.target, "most probable", *(f"probability {label}" for label in shown)]
    heads += ["leading expert", *(f"weight {name}" for name in rows.names)]
    body = []
    for i in some.tolist():
        p, weights = rows.probabilities[i], rows.weights[i]
        leader = expert(rows.names, rows.names[int(weights.argmax())])
        cells = [element("td", int(rows.place[i]) + 1, class_="number", data_value=int(rows.place[i]))]
        cells += [element("td", rows.classes[int(c)]) for c in (rows.y[i], p.argmax())]
        cells += [_number(float(value)) for value in p[:MOST_CLASSES]]
        cells += [element("td", leader), *(_number(float(weight)) for weight in weights)]
        body.append(element("tr", cells))
    thead = [element("th", element("button", head, type="button"), scope="col") for head in heads]
    whole = element("table", element("thead", element("tr", thead)), element("tbody", body))
    text = f"{len(some):,} of {n:,} rows. A click on a heading sorts; another turns the order round."
    return join(element("p", text, class_="screen-only"), element("div", whole, class_="tall"))


def _number(value: float) -> Html:
    return element("td", f"{value:.2f}", class_="number", data_value=f"{value:.9g}")
