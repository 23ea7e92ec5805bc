"""Does the bound of pruning hold? 200 samples of 80 documents from a pool, each pruned and certified anew."""

from typing import Any

import numpy as np
import torch

from benchmarks.xray_study.corpus import FILE
from gatewise.geometry.grouped_rows import halves
from gatewise.nn.xray.ablation import ablated_losses
from gatewise.nn.xray.probed_model import probe
from gatewise.nn.xray.pruning import certified, kept_by_score, pruned_losses, weighted_norms
from gatewise.nn.xray.token_batches import as_tokens
from gatewise.nn.xray.tracing import traced

REPEATS, DOCUMENTS = 200, 80


def coverage(model: torch.nn.Module, budget: int, seed: int = 0) -> dict[str, Any]:
    """In how many repeats the bound is above the rise over the whole pool, of the model that the repeat chose."""
    probed = probe(model)
    trace = traced(probed, as_tokens(np.load(FILE)["pool"].astype(np.int64), batch_size=64))
    rows, size = trace.scored, trace.n_documents
    documents = trace.documents[rows]
    ablated = [
        [
            ablated_losses(probed, trace.tokens, call, m, "next")[rows] - trace.loss[rows]
            for m in range(call.n_experts)
        ]
        for call in probed.calls
    ]
    known: dict[Any, Any] = {}
    rng, held, bounds, rises = np.random.default_rng(seed), 0, [], []
    for _ in range(REPEATS):
        sample = rng.choice(size, DOCUMENTS, replace=False)
        inside = np.flatnonzero(np.isin(documents, sample))
        units = np.unique(documents[inside], return_inverse=True)[1]
        first, second = (inside[part] for part in halves(units, rng))
        scores = {
            "ablation": [np.array([rise[first].mean() for rise in layer]) for layer in ablated],
            "load": [layer.chosen[rows[first]].mean(axis=0) for layer in trace.layers],
            "norm": [
                weighted_norms(call, layer, rows[first], probed.device)
                for call, layer in zip(probed.calls, trace.layers, strict=True)
            ],
        }
        kept = {rule: tuple(kept_by_score(one, budget) for one in values) for rule, values in scores.items()}
        for one in kept.values():
            if one not in known:
                known[one] = pruned_losses(probed, trace.tokens, one)[rows] - trace.loss[rows]
        best = min(kept.values(), key=lambda one: known[one][first].mean())
        truth, bound = known[best].mean(), certified(known[best][second], documents[second])[1]
        held += bool(truth <= bound)
        bounds.append(bound)
        rises.append(truth)
    return {
        "repeats": REPEATS,
        "documents": DOCUMENTS,
        "pool": size,
        "budget": budget,
        "held": held,
        "mean_rise": float(np.mean(rises)),
        "mean_bound": float(np.mean(bounds)),
        "models": len(known),
    }
