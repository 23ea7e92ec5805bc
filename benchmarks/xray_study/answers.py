"""Every question of the X-ray, asked of one model: a dictionary of figures."""

import json
import time
from typing import Any

import numpy as np
import torch

from benchmarks.xray_study.corpus import FILE, TOKENIZER
from gatewise import nn
from gatewise.nn.xray.token_kinds import token_kinds

ALPHA, DRAWS, BUDGETS = 0.05, 99, {8: 6, 64: 48}


def vocabulary() -> list[str]:
    """The text of every token."""
    from tokenizers import Tokenizer  # noqa: PLC0415

    tokenizer = Tokenizer.from_file(str(TOKENIZER))
    return [tokenizer.decode([place]) for place in range(tokenizer.get_vocab_size())]


def answers(model: torch.nn.Module, initial: torch.nn.Module, page: str | None = None) -> dict[str, Any]:
    """The answers for a model and its initial checkpoint on the documents that training has not seen."""
    corpus, start = np.load(FILE), time.monotonic()
    ids, kinds = corpus["seen"].astype(np.int64), corpus["kinds"]
    with nn.xray(initial) as first:
        before = first.run(ids, batch_size=32)
    with nn.xray(model) as x:
        trace = x.run(ids, batch_size=32)
        words = vocabulary()
        token_class = np.array(token_kinds(words))[trace.ids]
        document_kind = kinds[trace.documents]
        asked: dict[str, Any] = {
            "loss": float(np.nanmean(trace.loss)),
            "initial_loss": float(np.nanmean(before.loss)),
        }
        asked["load_entropy"] = [layer.load for layer in trace.entropy()]
        asked["largest_load"] = [max(layer.experts, key=lambda one: one.value) for layer in trace.load()]
        for name, classes in (("token class", token_class), ("kind of document", document_kind)):
            for null in ("chance", "router"):
                found = trace.usage(classes, null, n_draws=DRAWS, initial=before)
                asked[f"{name}, {null}"] = [_usage(layer) for layer in found.layers]
        asked["pairs"] = [_pairs(layer) for layer in trace.coactivation(token_class)]
        asked["ablation"] = _ablation(x)
        asked["redundant"] = _redundant(x)
        asked["gate regret"] = [
            {"gain": one.gain, "oracle": one.oracle, "changed": one.changed, "p": one.adjusted}
            for one in x.gate_regret()
        ]
        asked["alignment"] = [one._asdict() for one in x.alignment()]
        asked["specialists"] = [len(one.special) for one in x.specialization()]
        n_experts = trace.layers[0].n_experts
        pruning = x.prune(BUDGETS[n_experts])
        asked["pruning"] = {one.rule: {"rise": one.rise, "bound": one.bound} for one in pruning.rules}
        asked["pruning"]["taken"] = pruning.best.rule
        asked["verdicts"] = _verdicts(trace)
        if page:
            trace.report(page, words)
    asked["seconds"] = time.monotonic() - start
    return json.loads(json.dumps(asked, default=float))


def _usage(layer: Any) -> dict[str, Any]:
    return {
        "bits": layer.total,
        "null": layer.total_null,
        "excess": layer.total_excess,
        "p": layer.total_p,
        "experts": int((layer.p_values <= ALPHA).sum()),
        "tested": int(layer.tested.sum()),
        "beyond_initial": layer.initial.layer,
        "experts_beyond_initial": int((layer.initial.p_values <= ALPHA).sum()),
    }


def _pairs(layer: Any) -> dict[str, Any]:
    """How many pairs of experts are active together more, or less, often than their loads make them."""
    upper = np.triu(np.ones_like(layer.tested), 1)
    sure = upper & (layer.p_values <= ALPHA)
    strongest = int(np.argmax(np.where(upper & layer.tested, np.abs(layer.beyond[0]), -1.0)))
    return {
        "tested": int((upper & layer.tested).sum()),
        "more": int((sure & (layer.beyond[0] > 0)).sum()),
        "less": int((sure & (layer.beyond[0] < 0)).sum()),
        "strongest": layer.beyond.reshape(3, -1)[:, strongest].tolist(),
        "expected": float(layer.expected.ravel()[strongest]),
    }


def _ablation(x: Any) -> list[dict[str, Any]]:
    found = x.ablate()
    table = []
    for layer in range(len(x.layers)):
        rises = [one for one in found if one.layer == layer]
        table.append(
            {
                "mean": float(np.mean([one.rise.value for one in rises])),
                "largest": max(one.rise.value for one in rises),
                "needed": sum(one.adjusted <= ALPHA for one in rises),
            }
        )
    return table


def _redundant(x: Any) -> list[dict[str, int]]:
    found = x.redundancy()
    return [
        {
            "redundant": sum(one.redundant for one in found if one.layer == layer),
            "tested": sum(one.tested for one in found if one.layer == layer),
        }
        for layer in range(len(x.layers))
    ]


def _verdicts(trace: Any) -> dict[str, int]:
    from gatewise.nn.xray.verdicts import verdicts  # noqa: PLC0415

    said = [one.verdict for one in verdicts(trace)]
    return {word: said.count(word) for word in dict.fromkeys(said)}
