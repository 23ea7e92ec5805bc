"""HTML from Python. All text is escaped, except for markup that these functions made themselves."""

from html import escape
from typing import Any

VOID = {"img", "meta", "link", "br"}


class Html(str):
    """Text that is markup already. Only `element`, `join` and `raw` make it."""

    __slots__ = ()


def raw(markup: str) -> Html:
    """Our own markup, taken as it is: never for anything that came from a user."""
    return Html(markup)


def join(*children: Any) -> Html:
    """Children one after the other; what is not markup is escaped, None is left out.

    >>> join("a < b", element("b", "<i>"))
    'a &lt; b<b>&lt;i&gt;</b>'
    """
    return Html("".join(child if isinstance(child, Html) else escape(str(child)) for child in _flat(children)))


def element(name: str, /, *children: Any, **attributes: Any) -> Html:
    """An element with its children and attributes, all escaped.

    In the name of an attribute a trailing underscore is dropped and any other becomes a hyphen.

    >>> element("td", 3, class_="number", data_value='"<')
    '<td class="number" data-value="&quot;&lt;">3</td>'
    """
    pairs = [
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    ]
    start = f"<{name}{''.join(pairs)}>"
    return Html(start if name in VOID else f"{start}{join(*children)}</{name}>")


def _flat(children: Any) -> list[Any]:
    flat: list[Any] = []
    for child in children:
        if isinstance(child, list | tuple):
            flat += _flat(child)
        elif child is not None:
            flat.append(child)
    return flat
