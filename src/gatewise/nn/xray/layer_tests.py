"""The tests of `gatewise.geometry` on the exact losses of layers, with documents as units and all layers together."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gatewise.arrays import Floats, Indices
from gatewise.geometry import Alignment, alignment, Specialization, specialization
from gatewise.nn.xray.layer_trace import LayerTrace
from gatewise.stats import adjusted_p_values

ALPHA = 0.05


def tested_specializations(
    layers: Sequence[LayerTrace], losses: Sequence[Floats], documents: Indices, seed: int
) -> tuple[Specialization, ...]:
    """`geometry.specialization` of layers from losses (n, M) each; p-values are adjusted for all of their experts."""
    total = sum(layer.n_experts for layer in layers)
    draws = max(1999, int(2 * total * (1 / np.arange(1, total + 1)).sum() / ALPHA) + 1)
    found = [
        specialization(loss, layer.chosen, groups=documents, alpha=ALPHA, n_permutations=draws, seed=seed)
        for layer, loss in zip(layers, losses, strict=True)
    ]
    reports = [report for one in found for report in one.experts]
    tested = [place for place, report in enumerate(reports) if report.tested]
    adjusted = np.ones(len(reports))
    if tested:
        adjusted[tested] = adjusted_p_values([max(reports[i].p_value, reports[i].p_positive) for i in tested])
    judged = iter(
        replace(report, adjusted=float(p), special=bool(p <= ALPHA))
        for report, p in zip(reports, adjusted, strict=True)
    )
    return tuple(replace(one, experts=tuple(next(judged) for _ in one.experts)) for one in found)


def tested_alignments(
    layers: Sequence[LayerTrace], losses: Sequence[Floats], documents: Indices, seed: int
) -> tuple[Alignment, ...]:
    """`geometry.alignment` of layers with the experts of least loss; p-values are adjusted for all of the layers."""
    found = []
    for layer, loss in zip(layers, losses, strict=True):
        weights = layer.chosen / np.maximum(layer.chosen.sum(axis=1, keepdims=True), 1)
        found.append(alignment(weights, loss.argmin(axis=1), layer.n_experts, groups=documents, seed=seed))
    p_values = adjusted_p_values([one.p_value for one in found])
    return tuple(one._replace(p_value=float(p)) for one, p in zip(found, p_values, strict=True))
