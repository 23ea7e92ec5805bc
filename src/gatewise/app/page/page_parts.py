"""Tables, figures and numbers as the page shows them."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from gatewise.app import numbers
from gatewise.app.models.tables import ColumnKind, TRUTH
from gatewise.app.page.markup import element, Html, join
from gatewise.app.page.page_plots import colour
from gatewise.geometry import Interval
from gatewise.router.verdict import RegionTable

NUMBER = r"-?\d[\d.]*(?:e[+-]?\d+)?"
DASH, NBSP = "\N{EN DASH}", "\N{NO-BREAK SPACE}"
WORDS = {
    "expert": "One of the models, or a column that already is a forecast.",
    "gate": "What gives every row its own weights over the experts, by looking at the row's columns.",
    "convex stack": "The best weights over the experts that are the same for all rows, none negative, with sum one.",
    "candidate": "One way to combine the experts: a single one, fixed weights, or a gate.",
    "aggregate": "The mean of all candidates, each with its share: what a prediction is.",
    "share": "How much a candidate counts in the aggregate. All shares have sum one.",
    "spread": "How far a gate's weights may move away from the convex stack: 0.3 is little, 10 is very much.",
    "correction": "An addition, the same rule for all rows, that mends what all experts get wrong in common.",
    "RMSE": "Root mean squared error: the typical size of an error, in units of the target.",
    "squared error saved": "By how much the mean squared error falls, as a part of the other method's.",
    "95 % interval": "A range that would hold the true value in 95 of 100 such studies.",
    "held out": "Of rows that the fit behind a number had not seen.",
    "importance": "How much weight moves between experts when the values of a column are shuffled.",
    "specialist": "An expert that is better where the gate chooses it than it is elsewhere, by more than luck.",
    "border": "Where the two largest weights are nearly equal.",
}
ANSWERS = {
    "gating pays": "Yes: gating pays.",
    "a gate is used": "Not shown. A gate is used, but what it adds to fixed weights may be luck.",
    "no gate": "No: no gate.",
}
LONG = 24  # letters: a longer name may be broken


def table(
    heads: Sequence[str],
    rows: Sequence[Sequence[Any]],
    *,
    note: str,
    words: set[int] | None = None,
    bold: Sequence[bool] | None = None,
) -> Html:
    """A table with a note below. The first column and those of ``words`` hold text, the others numbers."""
    prose = {0} | (words or set())
    body = []
    for place, row in enumerate(rows):
        cells = [
            element("td", _value(cell), class_=None if j in prose else "number", data_label=heads[j])
            for j, cell in enumerate(row)
        ]
        body.append(element("tr", cells, class_="best" if bold is not None and bold[place] else None))
    head = [element("th", text, scope="col", class_=None if j in prose else "number") for j, text in enumerate(heads)]
    content = join(element("thead", element("tr", head)), element("tbody", body))
    # A caption proper would scroll away with a wide table.
    return element(
        "div",
        element("div", element("table", content, class_="cards"), class_="scroll"),
        element("p", note, class_="soft"),
    )


def term(word: str, shown: str | None = None) -> Html:
    """A word of `WORDS` whose explanation comes up when it is touched, pointed at or reached by the keyboard."""
    tip = element("span", WORDS[word], class_="tip", role="note")
    return element("span", shown or word, tip, class_="term", tabindex="0")


def words_list() -> Html:
    """All words that the page explains."""
    entries = [join(element("dt", word), element("dd", meaning)) for word, meaning in WORDS.items()]
    return element("aside", element("h2", "Words"), element("dl", entries), id="words", aria_label="Words")


def _value(cell: Any) -> Any:
    """What a cell shows as one element, beside which a phone puts the heading; nothing if it is empty."""
    return "" if cell == "" else element("div", cell)


def figures(*pairs: tuple[str, str]) -> Html:
    """Images with their captions, from pairs (address of the image, caption)."""
    drawn = [
        element("figure", element("img", src=source, alt=text), element("figcaption", text)) for source, text in pairs
    ]
    return element("div", drawn, class_="figures")


def beside(table_part: Html, figure_part: Html) -> Html:
    """A table and its figure side by side where there is room."""
    return element("div", table_part, figure_part, class_="beside")


def swatch(m: int) -> Html:
    """A patch in the colour of expert m, followed by a non-breaking space."""
    patch = element("span", class_="swatch", style=f"background:{colour(m)}", aria_hidden="true")
    return join(patch, NBSP)


def expert(names: Sequence[str], name: str) -> Html:
    """The expert's name beside its colour."""
    label = join(swatch(list(names).index(name)), name)
    return element("span", label, class_="name") if len(name) <= LONG else label


def number(value: float) -> str:
    """A number with four digits, or a dash if it is not finite."""
    return numbers.short_number(value) if np.isfinite(value) else DASH


def root(value: float) -> str:
    """The root of a mean squared error as text, or a dash if it is not finite."""
    return number(float(np.sqrt(value))) if np.isfinite(value) else DASH


def percent(share: Interval) -> str:
    """A fraction and its interval as percentages, on one line."""
    return numbers.percent(share, NBSP)


def saved_words(gain: Interval, what: str, baseline: str | Html) -> Html:
    """The gain over a baseline as a sentence: which error is smaller, by how much, with the interval."""

    def side(fraction: float) -> str:
        return f"{100 * abs(fraction):.1f}{NBSP}% {'larger' if fraction < 0 else 'smaller'}"

    ends = f" (95{NBSP}% interval: {side(gain.low)} to {side(gain.high)})" if np.isfinite(gain.low) else ""
    return join(f"Gatewise's {what} is {side(gain.value)} than that of ", baseline, f"{ends}.")


def interval(found: Interval, written: Callable[[float], str] = number) -> str:
    """An estimate and its interval as text, or a dash if there is no estimate; numbers as ``written`` has them."""
    if not np.isfinite(found.value):
        return DASH
    ends = f" ({written(found.low)}{NBSP}to{NBSP}{written(found.high)})" if np.isfinite(found.low) else ""
    return written(found.value) + ends


def leading_words(regions: RegionTable, fitted: Mapping[str, float]) -> Html:
    """Who has the largest weight: by gates that held the rows out, and by the ``fitted`` gate, fractions by name."""
    held_out = {row.expert: row.share for row in regions}
    told = [
        ", ".join(
            f"{name} on {part:.0%}" for name, part in sorted(parts.items(), key=lambda one: -one[1]) if part > 0
        )
        for parts in (held_out, fitted)
    ]
    return join(
        element("p", f"The largest weight goes to {told[0]} of the rows.", class_="answer"),
        element(
            "p",
            "That is told, here and in the table, of gates that had not seen the row, as only they can be judged on "
            f"it. The gate that predicts new rows was fitted to all of them; on these rows it leads with {told[1]}.",
        ),
    )


def losing_leaders(regions: RegionTable) -> Html | None:
    """A warning for every expert that leads where another one is better beyond chance; None if there is none."""
    losing = [row for row in regions if row.share > 0 and row.wins == "no"]
    words = "; ".join(f"{row.expert} leads on {row.share:.0%} of the rows, but {row.runner_up}" for row in losing)
    return element("p", f"A leader that loses: {words} errs less there.", class_="soft") if losing else None


def region_words(description: str, columns: Iterable[ColumnKind]) -> str:
    """The words of a region with dates as dates, in place of days since 1970, and yes or no in place of 1 and 0.

    >>> columns = ColumnKind("day", "date"), ColumnKind("open", "number", TRUTH)
    >>> region_words("3 < day <= 18656.5 and open > 0.5", columns)
    '1970-01-04 < day <= 2021-01-29 and open = yes'
    """
    for column in columns:
        name = rf"(?<!\w){re.escape(column.name)}"
        if column.kind == "date":
            description = re.sub(rf"({name} (?:<=|>) )({NUMBER})", lambda m: m[1] + _day(m[2]), description)
            description = re.sub(rf"({NUMBER})( < {name})", lambda m: _day(m[1]) + m[2], description)
        elif column.form == TRUTH:
            description = re.sub(rf"({name}) > 0\.5", r"\1 = yes", description)
            description = re.sub(rf"({name}) <= 0\.5", r"\1 = no", description)
    return description


def _day(number: str) -> str:
    """The last whole day that is not after a number of days since 1970."""
    return str(np.datetime64(int(np.floor(float(number))), "D"))


def p_text(p_value: float) -> str:
    """A p-value with three decimals.

    >>> p_text(0.00001), p_text(0.034)
    ('< 0.001', '0.034')
    """
    return "< 0.001" if p_value < 0.001 else f"{p_value:.3f}"


def p_words(p_value: float) -> str:
    """The same within a sentence: p = 0.034 or p < 0.001."""
    return f"p {p_text(p_value)}" if p_value < 0.001 else f"p = {p_text(p_value)}"
