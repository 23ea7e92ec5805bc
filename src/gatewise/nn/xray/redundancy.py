"""Is an expert served by another one? A test of equivalence on documents that did not choose the substitute."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gatewise.arrays import Floats, Indices
from gatewise.geometry.grouped_rows import FEWEST_TESTED, group_sums, positive_ratio_p_value, ratio_and_error
from gatewise.nn.xray.expert_calls import ExpertCall, Rewrite
from gatewise.nn.xray.layer_trace import LayerTrace
from gatewise.nn.xray.probed_model import expert_outputs
from gatewise.stats import adjusted_p_values, Interval, student_interval

CANDIDATES = 3
OUTPUTS = 64  # tokens of an expert on which outputs are compared


@dataclass(frozen=True)
class Substitute:
    """For one expert the best substitute, and the rise of the loss of a token that gets it instead.

    ``rise`` is over the places that the expert had in the test documents; ``adjusted`` is the p-value of the null
    that it is ``margin`` nats or more, adjusted for all experts that were tested; ``redundant`` says that it is at
    most 0.05. With too few documents ``tested`` is False.
    """

    layer: int
    expert: int
    substitute: int
    rise: Interval
    adjusted: float
    tested: bool
    redundant: bool


def nearest_experts(call: ExpertCall, layer: LayerTrace, rows: Indices, device: torch.device) -> Indices:
    """For every expert the others by the distance of their outputs on its own tokens, nearest first, (M, M - 1).

    Distances are mean squares over at most 64 of the tokens ``rows`` that chose the expert.
    """
    dtype = next(call.experts.parameters()).dtype
    order = np.tile(np.arange(layer.n_experts), (layer.n_experts, 1))
    owners = [rows[(layer.indices[rows] == m).any(axis=1)][:OUTPUTS] for m in range(layer.n_experts)]
    hidden = torch.from_numpy(layer.hidden[np.concatenate(owners)]).to(device, dtype)
    if not len(hidden):
        return order[:, 1:]
    alike = [torch.full((len(hidden),), m, device=device) for m in range(layer.n_experts)]
    outputs = torch.stack([expert_outputs(call, hidden, one) for one in alike])  # (M, N, d)
    ends, start = np.cumsum([len(own) for own in owners]), 0
    for m, end in enumerate(ends):
        part = outputs[:, start:end]
        distance = (part - part[m]).square().mean(dim=(1, 2)) if end > start else torch.zeros(layer.n_experts)
        distance[m] = -1.0
        order[m], start = torch.argsort(distance, stable=True).cpu().numpy(), end
    return order[:, 1:]


def replaced(table: Tensor, slot: int) -> Rewrite:
    """The change after which the chosen expert of rank ``slot`` gives its place to its entry of table (M,)."""

    def rewrite(_hidden: Tensor, indices: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        place = weights.argsort(dim=1, descending=True, stable=True)[:, slot : slot + 1]
        new = table.to(indices.device)[indices.gather(1, place)].to(indices.dtype)
        return indices.scatter(1, place, new), weights

    return rewrite


def chosen_substitutes(layer: LayerTrace, rises: Floats, near: Indices, first: Indices) -> tuple[Indices, Floats]:
    """The candidate of least mean rise for every expert, (M,), on rows ``first``; and the rises of that one, (n, K).

    ``rises`` (n, K, C) are those of every place of every token under every candidate; ``near`` (M, C) names them.
    """
    n_experts = layer.n_experts
    sums = np.zeros((n_experts + 1, rises.shape[2]))
    np.add.at(sums, layer.places[first], rises[first])  # one mean a candidate: the counts are the same for all
    best = sums[:n_experts].argmin(axis=1)
    own = np.append(best, 0)[layer.places]  # (n, K)
    return near[np.arange(n_experts), best], np.take_along_axis(rises, own[..., None], axis=2)[..., 0]


def tested_substitutes(
    number: int, layer: LayerTrace, substitutes: Indices, rise: Floats, documents: Indices, margin: float
) -> list[tuple[Substitute, float]]:
    """Every expert's substitute and its p-value, not yet adjusted, from the rises (n, K) on the test rows."""
    n_documents = int(documents.max()) + 1
    found = []
    for m, substitute in enumerate(substitutes):
        own = layer.places == m
        columns = np.column_stack([(rise * own).sum(axis=1), own.sum(axis=1)])
        totals, counts = group_sums(columns, documents, n_documents).T
        value, error, freedom = ratio_and_error(totals, counts)
        tested = freedom + 1 >= FEWEST_TESTED
        p = positive_ratio_p_value(margin * counts - totals, counts) if tested else 1.0
        interval = student_interval(value, error, freedom)
        found.append((Substitute(number, m, int(substitute), interval, 1.0, tested, False), p))
    return found


def adjusted_substitutes(found: list[tuple[Substitute, float]], alpha: float = 0.05) -> tuple[Substitute, ...]:
    """All substitutes of all layers with p-values that are adjusted together."""
    tested = [place for place, (one, _) in enumerate(found) if one.tested]
    adjusted = np.ones(len(found))
    if tested:
        adjusted[tested] = adjusted_p_values([found[place][1] for place in tested])
    return tuple(
        Substitute(one.layer, one.expert, one.substitute, one.rise, float(p), one.tested, bool(p <= alpha))
        for (one, _), p in zip(found, adjusted, strict=True)
    )
