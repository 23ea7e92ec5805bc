"""The page: what every layer and every expert does, with intervals, verdicts, and what cannot be told from this."""

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from gatewise.nn.xray.expert_rows import expert_tables, interval, NOT_ASKED, p_value
from gatewise.nn.xray.random_routers import expert_load
from gatewise.nn.xray.trace import Trace
from gatewise.nn.xray.verdicts import verdicts

STYLE = """
:root{--ink:#1c2430;--paper:#fff;--line:#dde3ea;--soft:#51606f;--chip:#eef2f6;--bar:#3f7fb5;
--learned:#0a6b3d;--redundant:#a34a00;--random:#8a1f3c}
@media(prefers-color-scheme:dark){:root{--ink:#dfe6ee;--paper:#12161c;--line:#2c3540;--soft:#9fb0c0;--chip:#222a34;
--bar:#5b9bd1;--learned:#5fce98;--redundant:#f0a35e;--random:#ee7f9c}}
body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:80rem;padding:0 1rem;color:var(--ink);
background:var(--paper)}
h1{font-size:1.6rem}h2{font-size:1.2rem;margin-top:2.2rem}p{max-width:60rem}
table{border-collapse:collapse;width:100%;font-size:.92rem}.wide{overflow-x:auto}
th,td{text-align:left;padding:.3rem .7rem;border-bottom:1px solid var(--line);vertical-align:top}
th{font-weight:600;vertical-align:bottom}th.n,td.n{text-align:right}td.n{font-variant-numeric:tabular-nums}
small{color:var(--soft);font-size:.8rem}td small{white-space:nowrap}
td.n small,td b+small{display:block}td b+small{white-space:normal;min-width:11rem}
.line{display:block;white-space:nowrap}
.strip{display:grid;margin-bottom:1.5rem;gap:1.2rem;grid-template-columns:repeat(auto-fill,minmax(15rem,1fr))}
.strip figure{margin:0}.strip svg{width:100%;height:64px;display:block}rect{fill:var(--bar)}
figcaption{font-size:.85rem;color:var(--soft);margin-top:.3rem}
summary{cursor:pointer;font-weight:600;margin:.8rem 0 .3rem}
code{background:var(--chip);padding:0 .25rem;border-radius:3px}.tokens{line-height:1.7}
.learned{color:var(--learned)}.redundant{color:var(--redundant)}.random{color:var(--random)}.told{color:var(--soft)}
"""
READING = (
    "Small numbers beside an estimate are the ends of its 95 % interval, with documents as units. Losses are in nats "
    "a token. p-values are adjusted for all layers, or all experts of all layers, that were asked about together. "
    "Random routers are linear routers with random weights on the same hidden states and with the same loads: bits "
    "beyond them are those beyond their mean, and p says how many single ones tell as much."
)
EXPERTS = (
    "An expert is <b class=learned>learned</b> where it tells more about the class of a token than random routers do"
    "{initial} (p at most 0.05), <b class=redundant>redundant</b> where another expert serves its tokens to within "
    "the margin, and <b class=random>no more than a random router</b> where its interval ends below what 5 % of "
    "random routers tell. Otherwise it <b class=told>cannot be told</b> from these documents. Classes are those "
    "of which it has more than random routers give it, in percent of the tokens of the class."
)
LIMITS = (
    "Counterfactuals change one token's routing with all tokens before it as they were; they do not say how the "
    "model would have developed with another router in training.",
    "Only the classes that were given are asked about: an expert may know something that none of them names.",
    "Random routers share the hidden states of the trained model. Training shapes these states for the router that "
    "is there: a router that never learned can carry more than random ones, too. 'Learned' is said of both together.",
    "Random routers are plain linear ones of the same loads: where a model's router chooses among groups of experts, "
    "part of what exceeds them may come from the groups.",
    "An expert is taken away alone, and a substitute takes one expert's place: two experts that are each redundant "
    "may not both be.",
    "All figures are of the documents that were given, and hold for documents of their kind.",
)


def page(
    trace: Trace, words: Sequence[str] | None = None, title: str = "Gatewise X-ray of a mixture of experts"
) -> str:
    """The page as HTML; ``words`` has the text of every token id, for the examples."""
    usage: Any = trace.findings.get("usage router")
    first = usage is not None and usage.layers[0].initial is not None
    parts = [
        f"<h1>{escape(title)}</h1>",
        _summary(trace),
        f"<p><small>{READING}</small></p>",
        "<h2>Layers</h2>",
        f"<div class=strip>{''.join(_strip(trace, number) for number in range(len(trace.layers)))}</div>",
        _layer_table(trace),
        "<h2>Experts</h2>",
        f"<p><small>{EXPERTS.format(initial=', and than it told at first' if first else '')}</small></p>",
        expert_tables(trace, words),
        _pruning(trace),
        "<h2>What this cannot tell</h2>",
        "<ul>" + "".join(f"<li>{escape(limit)}</li>" for limit in LIMITS) + "</ul>",
    ]
    head = f"<meta charset=utf-8><meta name=viewport content='width=device-width'><title>{escape(title)}</title>"
    body = "".join(parts)
    return f"<!doctype html><html lang=en><head>{head}<style>{STYLE}</style></head><body>{body}</body></html>\n"


def _summary(trace: Trace) -> str:
    said = [one.verdict for one in verdicts(trace)]
    counts = ", ".join(f"{said.count(word)} {escape(word)}" for word in dict.fromkeys(said))
    loss, usage = float(np.nanmean(trace.loss)), trace.findings.get("usage router")
    names = "" if usage is None else f" The classes are {escape(', '.join(map(str, usage.classes)))}."
    return (
        f"<p>{len(trace.ids):,} tokens in {trace.n_documents} documents; the loss is {loss:.3f} nats a token. "
        f"{len(trace.layers)} layers with experts. Of all {len(said)} experts: {counts}.{names}</p>"
    )


def _strip(trace: Trace, number: int) -> str:
    """The load of a layer as bars, the largest first, and its entropy."""
    load = np.sort(expert_load(trace.layers[number]))[::-1]
    width, height = 240, 64
    step, top = width / len(load), max(float(load.max()), 1e-12)
    bars = "".join(
        f"<rect x={place * step:.2f} y={height * (1 - value / top):.2f} width={max(step - 0.6, 0.4):.2f} "
        f"height={height * value / top:.2f} />"
        for place, value in enumerate(load)
    )
    even = height * (1 - 1 / len(load) / top)
    line = f"<line x1=0 x2={width} y1={even:.2f} y2={even:.2f} stroke=#888 stroke-dasharray='3 3' />"
    entropy = trace.findings.get("entropy")
    most = np.log2(len(load))
    bits = "" if entropy is None else f"<br>entropy {interval(entropy[number].load, 2)} of {most:.2f} bits"
    return (
        f"<figure><svg viewBox='0 0 {width} {height}' preserveAspectRatio=none role=img "
        f"aria-label='load of layer {number}'>{bars}{line}</svg>"
        f"<figcaption>layer {number}: load from {100 * load[0]:.1f} down to {100 * load[-1]:.1f} %{bits}"
        "</figcaption></figure>"
    )


def _layer_table(trace: Trace) -> str:
    """The answers about whole layers."""
    columns = (
        ("bits about the class, beyond chance", _told("chance", trace)),
        ("beyond random routers", _told("router", trace)),
        ("beyond the initial checkpoint", _initial(trace)),
        ("best expert chosen, beyond chance", _aligned(trace)),
        ("specialists", _specialists(trace)),
        ("pairs more / less often than by loads", _pairs(trace)),
        ("gain of a better router", _regret(trace)),
    )
    shown = [(name, cells) for name, cells in columns if cells]
    head = "".join(f"<th class=n>{name}" for name, _ in shown)
    rows = "".join(
        f"<tr><td>{number} <code>{escape(layer.name)}</code>"
        + "".join(f"<td class=n>{cells.get(number, NOT_ASKED)}" for _, cells in shown)
        + "</tr>"
        for number, layer in enumerate(trace.layers)
    )
    return f"<div class=wide><table><tr><th>layer{head}</tr>{rows}</table></div>"


def _told(null: str, trace: Trace) -> dict[int, str]:
    usage: Any = trace.findings.get(f"usage {null}")
    layers = () if usage is None else usage.layers
    return {place: f"{interval(one.total_excess, 3)}{p_value(one.total_p)}" for place, one in enumerate(layers)}


def _initial(trace: Trace) -> dict[int, str]:
    usage: Any = trace.findings.get("usage router")
    layers = () if usage is None or usage.layers[0].initial is None else usage.layers
    return {place: interval(one.initial.layer, 3) for place, one in enumerate(layers)}


def _aligned(trace: Trace) -> dict[int, str]:
    found = trace.findings.get("alignment", {})
    return {place: f"{interval(one.excess, 3)}{p_value(one.p_value)}" for place, one in found.items()}


def _specialists(trace: Trace) -> dict[int, str]:
    found = trace.findings.get("specialization", {})
    return {place: f"{len(one.special)} of {len(one.experts)}" for place, one in found.items()}


def _pairs(trace: Trace) -> dict[int, str]:
    cells = {}
    for place, one in enumerate(trace.findings.get("coactivation", ())):
        sure, tested = np.triu(one.p_values <= 0.05, 1), int(np.triu(one.tested, 1).sum())
        more, less = ((sure & (sign * one.beyond[0] > 0)).sum() for sign in (1, -1))
        cells[place] = f"{more} / {less} <small>of {tested}</small>" if tested else "<small>too rare</small>"
    return cells


def _regret(trace: Trace) -> dict[int, str]:
    found = trace.findings.get("gate regret", ())
    return {one.layer: f"{interval(one.gain, 4)}{p_value(one.adjusted)}" for one in found}


def _pruning(trace: Trace) -> str:
    found: Any = trace.findings.get("pruning")
    if found is None:
        return ""
    names = {"ablation": "loss without the expert", "load": "load", "norm": "weighted norm of its output"}
    rows = "".join(
        f"<tr><td>{names[one.rule]}{' <b>(taken)</b>' if one is found.best else ''}"
        f"<td class=n>{interval(one.rise, 4)}<td class=n>{one.bound:.4f}</tr>"
        for one in found.rules
    )
    head = "<tr><th>experts kept by<th class=n>rise of the loss<th class=n>95 % upper bound</tr>"
    said = "Chosen on half of the documents, judged on the others, which no choice has seen."
    title = f"Fewer experts: {len(found.kept[0])} in every layer"
    return f"<h2>{title}</h2><p><small>{said}</small></p><div class=wide><table>{head}{rows}</table></div>"
