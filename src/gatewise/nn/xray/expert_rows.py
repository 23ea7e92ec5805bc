"""The part of the page on single experts: load, classes, ablation, substitute, example tokens and verdict."""

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from gatewise.arrays import Indices
from gatewise.nn.xray.layer_trace import LayerTrace
from gatewise.nn.xray.random_routers import expert_load
from gatewise.nn.xray.trace import Trace
from gatewise.nn.xray.verdicts import ExpertVerdict, LEARNED, RANDOM, REDUNDANT, verdicts
from gatewise.stats import Interval

NOT_ASKED = "<span class=told>not asked</span>"
COLOURS = {LEARNED: "learned", REDUNDANT: "redundant", RANDOM: "random"}
HEAD = (
    "<tr><th class=n>expert<th class=n>load<th>classes it has more of<th class=n>bits beyond random routers"
    "<th class=n>loss without it<th>nearest substitute<th>{tokens}<th>verdict</tr>"
)


def expert_tables(trace: Trace, words: Sequence[str] | None) -> str:
    """A table a layer, largest load first; tables of layers with many experts are closed at first."""
    said = {(one.layer, one.expert): one for one in verdicts(trace)}
    parts = []
    for number, layer in enumerate(trace.layers):
        order = np.argsort(-expert_load(layer), kind="stable").tolist()
        rows = "".join(_row(trace, number, m, said[number, m], words) for m in order)
        head = HEAD.format(tokens="token ids" if words is None else "tokens it has more of")
        opened = " open" if layer.n_experts <= 16 else ""
        parts.append(
            f"<details{opened}><summary>Layer {number}: {layer.n_experts} experts</summary>"
            f"<div class=wide><table>{head}{rows}</table></div></details>"
        )
    return "".join(parts)


def _row(trace: Trace, number: int, m: int, verdict: ExpertVerdict, words: Sequence[str] | None) -> str:
    layer = trace.layers[number]
    ablated = {(one.layer, one.expert): one for one in trace.findings.get("ablation", ())}.get((number, m))
    usage: Any = trace.findings.get("usage router")
    cells = (
        f"<td class=n>{m}",
        f"<td class=n>{_load(trace, number, m)}",
        f"<td>{_classes(usage, number, m)}",
        f"<td class=n>{_excess(usage, number, m)}",
        f"<td class=n>{NOT_ASKED if ablated is None else interval(ablated.rise, 4)}",
        f"<td>{_substitute(trace, number, m)}",
        f"<td class=tokens>{_examples(layer, trace.ids, m, words)}",
        f"<td><b class={COLOURS.get(verdict.verdict, 'told')}>{escape(verdict.verdict)}</b>"
        f"<small>{escape(verdict.reason)}</small>",
    )
    return f"<tr>{''.join(cells)}</tr>"


def interval(one: Interval, digits: int) -> str:
    """An estimate, and its interval in small letters."""
    return f"{rounded(one.value, digits)} <small>{rounded(one.low, digits)} to {rounded(one.high, digits)}</small>"


def rounded(value: float, digits: int) -> str:
    """A number with that many digits, zero without a sign."""
    text = f"{value:.{digits}f}"
    return text.lstrip("-") if float(text) == 0 else text


def _load(trace: Trace, number: int, m: int) -> str:
    asked = trace.findings.get("load")
    if asked is None:
        return f"{100 * expert_load(trace.layers[number])[m]:.1f} %"
    value, low, high = (100 * end for end in asked[number].experts[m])
    return f"{value:.1f} % <small>{low:.1f} to {high:.1f}</small>"


def _classes(usage: Any, layer: int, m: int) -> str:
    """The two classes of which an expert has most beyond random routers, in points of their tokens."""
    if usage is None:
        return NOT_ASKED
    value, low, high = 100 * usage.layers[layer].beyond[:, :, m]
    most = [c for c in np.argsort(-value)[:2] if low[c] > 0]
    lines = (
        f"<span class=line>{escape(str(usage.classes[c]))} +{value[c]:.0f} % "
        f"<small>{low[c]:.0f} to {high[c]:.0f}</small></span>"
        for c in most
    )
    return "".join(lines) or "<span class=told>none surely</span>"


def _excess(usage: Any, layer: int, m: int) -> str:
    if usage is None:
        return NOT_ASKED
    one = usage.layers[layer]
    return f"{interval(one.excess[m], 3)}{p_value(one.p_values[m])}" if one.tested[m] else "<small>too few</small>"


def p_value(value: float) -> str:
    """A p-value in small letters."""
    return f"<small>p = {value:.3f}</small>" if value >= 0.001 else "<small>p &lt; 0.001</small>"


def _substitute(trace: Trace, layer: int, m: int) -> str:
    found = {(one.layer, one.expert): one for one in trace.findings.get("redundancy", ())}.get((layer, m))
    if found is None:
        return NOT_ASKED
    said = interval(found.rise, 3) if found.tested else "<small>too few documents</small>"
    return f"expert {found.substitute}: {said}"


def _examples(layer: LayerTrace, ids: Indices, m: int, words: Sequence[str] | None, count: int = 6) -> str:
    """Tokens that an expert has more often than its load gives it; parts of letters are left out."""
    own = ids[(layer.indices == m).any(axis=1)]
    size = int(ids.max()) + 1
    here, everywhere = np.bincount(own, minlength=size), np.bincount(ids, minlength=size)
    odds = (here + 0.5) / (everywhere * len(own) / len(ids) + 5.0)
    texts = (
        str(place) if words is None else words[place] for place in np.argsort(-odds, kind="stable") if here[place]
    )
    shown = [text for _, text in zip(range(count), (t for t in texts if "\ufffd" not in t), strict=False)]
    return " ".join(f"<code>{escape(visible(text))}</code>" for text in shown) or "-"


def visible(text: str) -> str:
    """The text of a token with its spaces and line ends made visible.

    >>> visible(" of\\n")
    '␣of↵'
    """
    shown = text.replace(" ", "␣").replace("\n", "↵").replace("\t", "⇥")
    return "".join(letter if letter.isprintable() else f"\\x{ord(letter):02x}" for letter in shown)
