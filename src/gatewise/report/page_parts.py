"""Tables, figures and numbers as the page shows them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gatewise.geometry import Interval
from gatewise.report.html import element, Html, join
from gatewise.report.page_plots import colour

DASH = "\N{EN DASH}"


def table(
    heads: Sequence[str],
    rows: Sequence[Sequence[Any]],
    *,
    caption: str,
    words: set[int] | None = None,
    bold: Sequence[bool] | None = None,
) -> Html:
    """A table whose columns after the first hold numbers, but for those with ``words``."""
    prose = {0} | (words or set())
    body = []
    for place, row in enumerate(rows):
        cells = [
            element("td", cell, class_=("words" if j else None) if j in prose else "number")
            for j, cell in enumerate(row)
        ]
        body.append(element("tr", cells, class_="best" if bold is not None and bold[place] else None))
    head = [element("th", text, scope="col", class_=None if j in prose else "number") for j, text in enumerate(heads)]
    content = join(element("caption", caption), element("thead", element("tr", head)), element("tbody", body))
    return element("div", element("table", content), class_="scroll")


def figures(*pairs: tuple[str, str]) -> Html:
    """Images with what they show."""
    drawn = [
        element("figure", element("img", src=source, alt=text), element("figcaption", text)) for source, text in pairs
    ]
    return element("div", drawn, class_="figures")


def swatch(m: int) -> Html:
    """A patch in the colour of expert m."""
    return element("span", class_="swatch", style=f"background:{colour(m)}", aria_hidden="true")


def number(value: float) -> str:
    """Four digits, or a dash for what there is not."""
    return f"{value:.4g}" if np.isfinite(value) else DASH


def root(value: float) -> str:
    """The root of a mean squared error."""
    return number(float(np.sqrt(value))) if np.isfinite(value) else DASH


def percent(gain: Interval) -> str:
    """A share and its interval in percent."""
    value, low, high = (f"{100 * end:+.1f}" if np.isfinite(end) else "?" for end in gain)
    return f"{value} % ({low} to {high})"


def interval(found: Interval) -> str:
    """An estimate and its interval."""
    if not np.isfinite(found.value):
        return DASH
    return f"{found.value:.3g}" + (f" ({found.low:.3g} to {found.high:.3g})" if np.isfinite(found.low) else "")


def p_text(p_value: float) -> str:
    """A p-value as one reads it.

    >>> p_text(0.00001), p_text(0.034)
    ('< 0.001', '0.034')
    """
    return "< 0.001" if p_value < 0.001 else f"{p_value:.3f}"
