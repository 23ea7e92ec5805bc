"""The page: what every layer and every expert does, with intervals, verdicts, and what cannot be told from this."""

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from gatewise.nn.xray.layer_trace import LayerTrace
from gatewise.nn.xray.random_routers import expert_load
from gatewise.nn.xray.trace import Trace
from gatewise.nn.xray.verdicts import verdicts

STYLE = """
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:72rem;padding:0 1rem;color:#1c2430}
h1{font-size:1.6rem}h2{font-size:1.2rem;margin-top:2rem}table{border-collapse:collapse;width:100%}
th,td{text-align:left;padding:.25rem .6rem;border-bottom:1px solid #dde3ea;vertical-align:top}
th{font-weight:600}td.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.strip{display:flex;gap:1.5rem;flex-wrap:wrap}.strip figure{margin:0}figcaption{font-size:.85rem;color:#51606f}
code{background:#eef2f6;padding:0 .25rem;border-radius:3px}.learned{color:#0a6b3d}.redundant{color:#a34a00}
.random{color:#8a1f3c}.told{color:#51606f}details{margin:.5rem 0}
@media(prefers-color-scheme:dark){body{background:#12161c;color:#dfe6ee}th,td{border-color:#2c3540}
code{background:#222a34}.learned{color:#5fce98}.redundant{color:#f0a35e}.random{color:#ee7f9c}}
"""
LIMITS = (
    "Counterfactuals change one token's routing with all tokens before it as they were; they do not say how the "
    "model would have developed with another router in training.",
    "Only the classes that were given are asked about: an expert may know something that none of them names.",
    "Random routers share the hidden states of the trained model. Training shapes these states for the router that "
    "is there: a router that never learned can carry more than random ones, too. 'Learned' is said of both together.",
    "All figures are of the documents that were given, and hold for documents of their kind.",
)
CLASSES = {"learned": "learned", "redundant": "redundant", "no more than a random router": "random"}


def page(
    trace: Trace, words: Sequence[str] | None = None, title: str = "Gatewise X-ray of a mixture of experts"
) -> str:
    """The page as HTML; ``words`` has the text of every token id, for the examples."""
    parts = [
        f"<h1>{escape(title)}</h1>",
        _summary(trace),
        "<h2>Layers</h2>",
        f"<div class=strip>{''.join(_strip(trace, number) for number in range(len(trace.layers)))}</div>",
        _layer_table(trace),
        "<h2>Experts</h2>",
        *(_experts(trace, number, words) for number in range(len(trace.layers))),
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
    loss = float(np.nanmean(trace.loss))
    return (
        f"<p>{len(trace.ids):,} tokens in {trace.n_documents} documents; the loss is {loss:.3f} nats a token. "
        f"{len(trace.layers)} layers with experts. Of all experts: {counts}.</p>"
    )


def _strip(trace: Trace, number: int) -> str:
    """The load of a layer as bars, the largest first."""
    load = np.sort(expert_load(trace.layers[number]))[::-1]
    width, height = 180, 60
    step, top = width / len(load), max(float(load.max()), 1e-12)
    bars = "".join(
        f"<rect x={place * step:.2f} y={height * (1 - value / top):.2f} width={max(step - 0.6, 0.4):.2f} "
        f"height={height * value / top:.2f} fill='#3f7fb5'/>"
        for place, value in enumerate(load)
    )
    even = height * (1 - 1 / len(load) / top)
    line = f"<line x1=0 x2={width} y1={even:.2f} y2={even:.2f} stroke='#888' stroke-dasharray='3 3'/>"
    entropy = trace.findings.get("entropy")
    bits = "" if entropy is None else f", entropy {_number(entropy[number].load)} of {np.log2(len(load)):.2f} bits"
    return (
        f"<figure><svg width={width} height={height} role=img aria-label='load of layer {number}'>{bars}{line}</svg>"
        f"<figcaption>layer {number}: load, largest first{bits}</figcaption></figure>"
    )


def _layer_table(trace: Trace) -> str:
    """Information beyond the nulls and gate regret, layer by layer."""
    rows = []
    regrets = {one.layer: one for one in trace.findings.get("gate regret", ())}
    for number, layer in enumerate(trace.layers):
        cells = [f"<td>{number} <code>{escape(layer.name)}</code></td>"]
        for null in ("chance", "router"):
            used: Any = trace.findings.get(f"usage {null}")
            one = None if used is None else used.layers[number]
            said = "not asked" if one is None else f"{_number(one.total_excess)}, p = {one.total_p:.3f}"
            cells.append(f"<td class=n>{said}</td>")
        regret = regrets.get(number)
        cells.append(f"<td class=n>{'not asked' if regret is None else _number(regret.gain, 4)}</td>")
        rows.append(f"<tr>{''.join(cells)}</tr>")
    head = (
        "<tr><th>layer</th><th>bits about the class beyond chance</th><th>beyond random routers</th>"
        "<th>gate regret, nats</th></tr>"
    )
    return f"<table>{head}{''.join(rows)}</table>"


def _experts(trace: Trace, number: int, words: Sequence[str] | None) -> str:
    layer = trace.layers[number]
    ablated = {one.expert: one for one in trace.findings.get("ablation", ()) if one.layer == number}
    substitutes = {one.expert: one for one in trace.findings.get("redundancy", ()) if one.layer == number}
    said = {one.expert: one for one in verdicts(trace) if one.layer == number}
    load = expert_load(layer)
    rows = []
    for m in np.argsort(-load, kind="stable").tolist():
        verdict, ablation, substitute = said[m], ablated.get(m), substitutes.get(m)
        rows.append(
            f"<tr><td class=n>{m}</td><td class=n>{100 * load[m]:.1f} %</td><td>{_usage(trace, number, m)}</td>"
            f"<td class=n>{'not asked' if ablation is None else _number(ablation.rise, 4)}</td>"
            f"<td class=n>{_substitute(substitute)}</td>"
            f"<td>{_examples(layer, trace.ids, m, words)}</td>"
            f"<td class={CLASSES.get(verdict.verdict, 'told')} title='{escape(verdict.reason)}'>"
            f"{escape(verdict.verdict)}</td></tr>"
        )
    head = (
        "<tr><th>expert</th><th>load</th><th>classes beyond random routers</th><th>loss without it, nats</th>"
        "<th>nearest substitute</th><th>tokens</th><th>verdict</th></tr>"
    )
    opened = " open" if layer.n_experts <= 16 else ""
    return f"<details{opened}><summary>Layer {number}</summary><table>{head}{''.join(rows)}</table></details>"


def _usage(trace: Trace, number: int, m: int) -> str:
    """The classes that an expert has more of than random routers give it, the largest difference first."""
    usage: Any = trace.findings.get("usage router")
    if usage is None:
        return "not asked"
    layer = usage.layers[number]
    more = layer.table[:, m] - layer.expected[:, m]
    largest = [c for c in np.argsort(-more)[:2] if more[c] > 0]
    said = ", ".join(f"{escape(str(usage.classes[c]))} +{100 * more[c]:.1f}" for c in largest)
    return f"{said or '-'} <small>(p = {layer.p_values[m]:.3f})</small>"


def _substitute(one: Any) -> str:
    if one is None:
        return "not asked"
    return f"{one.substitute}: {_number(one.rise, 4)}" if one.tested else f"{one.substitute}: too few documents"


def _examples(layer: LayerTrace, ids: Any, m: int, words: Sequence[str] | None, count: int = 6) -> str:
    """Tokens that an expert has more often than others do."""
    own = ids[(layer.indices == m).any(axis=1)]
    if not len(own):
        return "-"
    size = int(ids.max()) + 1
    here, all_ = np.bincount(own, minlength=size), np.bincount(ids, minlength=size)
    odds = (here + 0.5) / (all_ * len(own) / len(ids) + 5.0)
    best = [place for place in np.argsort(-odds, kind="stable")[:count] if here[place]]
    shown = (str(place) if words is None else words[place] for place in best)
    return " ".join(f"<code>{escape(repr(text)[1:-1])}</code>" for text in shown)


def _pruning(trace: Trace) -> str:
    found: Any = trace.findings.get("pruning")
    if found is None:
        return ""
    rows = "".join(
        f"<tr><td>{escape(one.rule)}{' (taken)' if one is found.best else ''}</td>"
        f"<td class=n>{_number(one.rise, 4)}</td><td class=n>{one.bound:.4f}</td></tr>"
        for one in found.rules
    )
    head = "<tr><th>rule</th><th>rise of the loss, nats</th><th>95 % upper bound</th></tr>"
    return f"<h2>Fewer experts: {len(found.kept[0])} in every layer</h2><table>{head}{rows}</table>"


def _number(interval: Any, digits: int = 3) -> str:
    return f"{interval.value:.{digits}f} [{interval.low:.{digits}f}, {interval.high:.{digits}f}]"
