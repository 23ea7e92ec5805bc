"""Fewer experts, with a certificate: chosen on half of the documents, the rise of the loss bounded on the others."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn, Tensor

from gatewise.arrays import Floats, Indices
from gatewise.geometry.grouped_rows import group_sums, ratio_and_error, ratio_interval
from gatewise.nn.xray.expert_calls import ExpertCall
from gatewise.nn.xray.layer_trace import LayerTrace
from gatewise.nn.xray.probed_model import expert_outputs, ProbedModel
from gatewise.nn.xray.removal import without
from gatewise.nn.xray.token_batches import Tokens
from gatewise.stats import Interval, upper_mean_bound

COUNTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")


@dataclass(frozen=True)
class PruningRule:
    """What came of one rule: which experts stay in every layer, the loss on the documents that chose, and the rise.

    ``rise`` is the mean rise of the loss on the other documents, in nats a token, and ``bound`` its 95 % upper bound.
    """

    rule: str
    kept: tuple[tuple[int, ...], ...]
    chosen_loss: float
    rise: Interval
    bound: float


@dataclass(frozen=True, eq=False)
class Pruning:
    """A model with fewer experts: the rule of least loss on the first half of the documents, and its certificate.

    ``rise`` and ``bound`` are those of the second half, which no choice has seen. ``rules`` has all rules that were
    compared. `save` writes the smaller model.
    """

    rules: tuple[PruningRule, ...]
    probed: ProbedModel = field(repr=False)

    @property
    def best(self) -> PruningRule:
        """The rule of least loss on the first half."""
        return min(self.rules, key=lambda rule: rule.chosen_loss)

    @property
    def kept(self) -> tuple[tuple[int, ...], ...]:
        """The experts that stay, layer by layer."""
        return self.best.kept

    @property
    def rise(self) -> Interval:
        """The mean rise of the loss on the second half."""
        return self.best.rise

    @property
    def bound(self) -> float:
        """The 95 % upper bound of the rise."""
        return self.best.bound

    def model(self) -> nn.Module:
        """The smaller model, with copies of the parameters that stay."""
        return smaller_model(self.probed, self.kept)

    def save(self, folder: str | Path) -> None:
        """Write the smaller model as a folder that ``from_pretrained`` of transformers loads."""
        small: Any = self.model()
        small.save_pretrained(folder)


def kept_by_score(scores: Floats, budget: int, n_groups: int = 1) -> tuple[int, ...]:
    """The ``budget`` experts of largest score (M,), in order of their numbers; ties go to the smaller number.

    With groups of experts, each of M / n_groups neighbours, as many stay in every group.

    >>> kept_by_score(np.array([0.1, 0.5, 0.3, 0.4]), 2), kept_by_score(np.array([0.1, 0.2, 0.3, 0.4]), 2, n_groups=2)
    ((1, 3), (1, 3))
    """
    order = np.argsort(-scores.reshape(n_groups, -1), axis=1, kind="stable")[:, : budget // n_groups]
    starts = np.arange(n_groups)[:, None] * (len(scores) // n_groups)
    return tuple(sorted((starts + order).ravel().tolist()))


def expert_groups(model: nn.Module) -> tuple[int, int, int]:
    """The groups among which a model's routers choose first: their number, how many are taken, and least size.

    Routers rank a group by the sum of its two best scores, so that it needs two experts; DeepSeek-V2 by the best one.
    """
    config = getattr(model, "config", None)
    method = getattr(config, "topk_method", None)
    groups = getattr(config, "n_group", None) or 1
    if groups == 1 or method == "greedy":
        return 1, 1, 1
    return groups, getattr(config, "topk_group", None) or groups, 1 if method == "group_limited_greedy" else 2


def pruned_losses(probed: ProbedModel, tokens: Tokens, kept: tuple[tuple[int, ...], ...]) -> Floats:
    """The losses of all tokens, (n,), when the routers know the kept experts only."""
    with without(_gone(probed, kept)):
        return probed.losses(tokens)


def _gone(probed: ProbedModel, kept: tuple[tuple[int, ...], ...]) -> Mapping[ExpertCall, Tensor]:
    gone = {}
    for call, stay in zip(probed.calls, kept, strict=True):
        mask = torch.ones(call.n_experts, dtype=torch.bool)
        mask[list(stay)] = False
        gone[call] = mask
    return gone


def certified(rise: Floats, documents: Indices) -> tuple[Interval, float]:
    """The mean of rises (n,), its interval, and a 95 % upper bound that allows for skewness; documents are units.

    The bound is `upper_mean_bound` of r + (total_g - r count_g) G / n, whose mean over documents is the ratio r.
    """
    units = np.unique(documents, return_inverse=True)[1]
    totals, counts = group_sums(np.column_stack([rise, np.ones_like(rise)]), units, int(units.max()) + 1).T
    ratio, _, _ = ratio_and_error(totals, counts)
    values = ratio + (totals - ratio * counts) * len(totals) / counts.sum()
    return ratio_interval(totals, counts), upper_mean_bound(values)


def weighted_norms(call: ExpertCall, layer: LayerTrace, rows: Indices, device: torch.device) -> Floats:
    """The mean of weight times norm of its output over the tokens of ``rows`` that each expert serves, (M,)."""
    dtype = next(call.experts.parameters()).dtype
    hidden = torch.from_numpy(layer.hidden[rows]).to(device, dtype)
    sums, counts = np.zeros((2, layer.n_experts + 1))
    for k in range(layer.indices.shape[1]):
        places = layer.places[rows, k]
        known = torch.from_numpy(places.clip(max=layer.n_experts - 1)).to(device)
        norms = expert_outputs(call, hidden, known).norm(dim=1).cpu().double().numpy()
        np.add.at(sums, places, layer.weights[rows, k] * norms)
        np.add.at(counts, places, 1.0)
    return np.asarray(sums / np.maximum(counts, 1.0))[: layer.n_experts]


def smaller_model(probed: ProbedModel, kept: tuple[tuple[int, ...], ...]) -> nn.Module:
    """A model of transformers with the kept experts only; every layer keeps as many."""
    model: Any = probed.model
    budget, total = len(kept[0]), probed.calls[0].n_experts
    config = copy.deepcopy(model.config)
    named = [key for key in COUNTS if getattr(config, key, None) == total]
    if not named or any(call.n_experts != total for call in probed.calls):
        raise ValueError(f"the model's configuration must say its {total} experts as one of {', '.join(COUNTS)}")
    for key in named:
        setattr(config, key, budget)
    small = type(model)(config).to(next(model.parameters()))
    state, wanted = model.state_dict(), small.state_dict()
    for call, stay in zip(probed.calls, kept, strict=True):
        inside = call.name.rpartition(".")[0] + "."
        for key, tensor in state.items():
            if key.startswith(inside) and tensor.shape != wanted[key].shape:
                axis = tensor.shape.index(total)  # a bias may be a row, (1, M)
                state[key] = tensor.index_select(axis, torch.tensor(stay, device=tensor.device))
    small.load_state_dict(state)
    made: nn.Module = small.train(model.training)
    return made


def check_budget(probed: ProbedModel, layers: tuple[LayerTrace, ...], budget: int) -> int:
    """Refuse a budget below K or not below M, or one that groups of experts cannot share; the number of groups."""
    active, total = max(layer.indices.shape[1] for layer in layers), min(call.n_experts for call in probed.calls)
    if not active <= budget < total:
        raise ValueError(f"budget must be from K = {active} to M - 1 = {total - 1} experts a layer, not {budget}")
    groups, taken, least = expert_groups(probed.model)
    fewest = groups * max(least, -(-active // taken))
    if budget % groups or budget < fewest:
        raise ValueError(
            f"budget must be a multiple of the {groups} groups of experts that the routers choose among, {fewest} or "
            f"more, not {budget}: all groups must stay of one size, and those that are taken must hold K = {active}"
        )
    return groups
