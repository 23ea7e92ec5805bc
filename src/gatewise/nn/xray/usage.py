"""Do experts know classes of tokens, beyond chance, and beyond what random routers on the same states would show?"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from gatewise.arrays import Booleans, Floats, Indices
from gatewise.geometry.grouped_rows import FEWEST_TESTED
from gatewise.nn.xray.class_information import (
    class_counts,
    constant_within,
    Information,
    information,
    largest_p_values,
    permuted_topics,
    shifted,
)
from gatewise.nn.xray.layer_trace import LayerTrace
from gatewise.nn.xray.random_routers import random_choices
from gatewise.stats import adjusted_p_values, Interval, student_interval

FEWEST_TOKENS = 20


@dataclass(frozen=True)
class LayerUsage:
    """One layer: the experts that each class goes to, and what an expert tells about the class, in bits.

    ``table`` (C, M) is the fraction of a class's choices that each expert has, ``expected`` (C, M) the mean of that
    under the null, and ``beyond`` (3, C, M) their difference with the lower and upper ends of its interval by
    document. ``information`` (M,) is that of each expert, ``null`` (M,) its mean under the null, and ``null_high``
    (M,) the 95 % quantile. ``excess`` is the difference to the mean with its interval; ``p_values`` (M,) compare with
    single draws of the null, adjusted for all experts of all layers. ``tested`` is False for an expert that is seen
    too seldom. ``total``, ``total_null``, ``total_excess`` and ``total_p`` are the same for the layer as a whole,
    adjusted for all layers. ``initial`` compares with the initial checkpoint, where one was given.
    """

    name: str
    table: Floats
    expected: Floats
    beyond: Floats
    information: Floats
    null: Floats
    null_high: Floats
    excess: tuple[Interval, ...]
    p_values: Floats
    tested: Booleans
    total: float
    total_null: float
    total_excess: Interval
    total_p: float
    initial: "BeyondInitial | None" = None


@dataclass(frozen=True)
class BeyondInitial:
    """The information of a layer and of its experts less that of the initial checkpoint, with intervals by document.

    ``p_values`` (M,) are those of no more information than there, adjusted for all experts of all layers.
    """

    layer: Interval
    experts: tuple[Interval, ...]
    p_values: Floats


@dataclass(frozen=True)
class Usage:
    """The usage of all layers by class, against one null: "router" or, for chance, "shift" or "documents"."""

    null: str
    classes: tuple[Any, ...]
    layers: tuple[LayerUsage, ...]


@dataclass(frozen=True, eq=False)
class _LayerDraws:
    """What a layer showed in all draws of the null."""

    experts: Floats  # (B, M)
    layer: Floats  # (B,)
    experts_influence: Floats  # (G, M), mean over draws
    layer_influence: Floats  # (G,)
    counts: Floats  # (G, C, M), mean over draws


def measured_usage(
    layers: Sequence[LayerTrace],
    documents: Indices,
    classes: Indices,
    names: tuple[Any, ...],
    null: str,
    n_draws: int,
    rng: np.random.Generator,
    *,
    device: Any = "cpu",
    initial: Sequence[LayerTrace] | None = None,
) -> Usage:
    """The usage of layers by classes (n,) against a null, "router" or "chance", from ``n_draws`` draws of it."""
    sizes = (int(documents.max()) + 1, len(names))
    kind = null
    if null == "chance":
        kind = "documents" if constant_within(classes, documents) else "shift"
    if kind not in ("router", "shift", "documents"):
        raise ValueError(f"null must be 'router' or 'chance', not {kind!r}")
    counts = [_counts(layer, layer.places, classes, documents, sizes) for layer in layers]
    found, tested = [information(one) for one in counts], [_tested(one) for one in counts]
    drawn = [_LayerDrawn(layer, sizes) for layer in layers]
    if kind == "router":
        for one in drawn:
            for places in random_choices(one.layer, n_draws, rng, device):
                one.add(_counts(one.layer, places, classes, documents, sizes))
    else:
        move = permuted_topics if kind == "documents" else shifted
        for _ in range(n_draws):
            moved = move(classes, documents, rng)
            for one in drawn:
                one.add(_counts(one.layer, one.layer.places, moved, documents, sizes))
    draws = [one.summary() for one in drawn]
    start: Sequence[BeyondInitial | None] = [None] * len(found)
    if initial is not None:
        before = [information(_counts(one, one.places, classes, documents, sizes)) for one in initial]
        start = beyond_initial(found, before, tested)
    return Usage(kind, names, _reports(layers, counts, found, draws, tested, start))


def _counts(
    layer: LayerTrace, places: Indices, classes: Indices, documents: Indices, sizes: tuple[int, int]
) -> Floats:
    return class_counts(places, classes, documents, (*sizes, layer.n_experts))


class _LayerDrawn:
    """Gathers the draws of a layer."""

    def __init__(self, layer: LayerTrace, sizes: tuple[int, int]) -> None:
        self.layer, self.counts = layer, np.zeros((*sizes, layer.n_experts))
        self.experts_influence, self.layer_influence = np.zeros((sizes[0], layer.n_experts)), np.zeros(sizes[0])
        self.found: list[tuple[Floats, float]] = []

    def add(self, counts: Floats) -> None:
        drawn = information(counts)
        self.found.append((drawn.experts, drawn.layer))
        self.experts_influence += drawn.experts_influence
        self.layer_influence += drawn.layer_influence
        self.counts += counts

    def summary(self) -> _LayerDraws:
        size = len(self.found)
        experts, layer = np.array([one[0] for one in self.found]), np.array([one[1] for one in self.found])
        influences = self.experts_influence / size, self.layer_influence / size
        return _LayerDraws(experts, layer, *influences, self.counts / size)


def _table(counts: Floats) -> Floats:
    whole = counts.sum(axis=0)
    return np.asarray(whole / np.maximum(whole.sum(axis=1, keepdims=True), 1.0))


def beyond_initial(
    found: list[Information], before: list[Information], tested: list[Booleans]
) -> list[BeyondInitial]:
    """What layers and experts tell about the class less what they told at first, from the information of both."""
    values = [one.experts - other.experts for one, other in zip(found, before, strict=True)]
    influences = [one.experts_influence - other.experts_influence for one, other in zip(found, before, strict=True)]
    errors = [np.array([_error(column) for column in one.T]) for one in influences]
    freedom = len(influences[0]) - 1
    p_values = [
        np.where(seen, special.stdtr(freedom, -value / np.maximum(error, 1e-300)), 1.0)
        for value, error, seen in zip(values, errors, tested, strict=True)
    ]
    some = np.concatenate(tested)
    adjusted = np.concatenate(p_values)
    if some.any():
        adjusted[some] = adjusted_p_values(adjusted[some])
    ends = np.cumsum([len(one) for one in tested])[:-1]
    return [
        BeyondInitial(
            _interval(one.layer - other.layer, one.layer_influence - other.layer_influence),
            tuple(_interval(float(v), column) for v, column in zip(value, influence.T, strict=True)),
            p,
        )
        for one, other, value, influence, p in zip(
            found, before, values, influences, np.split(adjusted, ends), strict=True
        )
    ]


def _interval(value: float, influence: Floats) -> Interval:
    return student_interval(value, _error(influence), len(influence) - 1)


def _error(influence: Floats) -> float:
    """The standard error of a statistic from the influences of the documents, (G,)."""
    n = len(influence)
    return float(np.sqrt(n / (n - 1) * influence @ influence))


def beyond_table(counts: Floats, expected: Floats) -> Floats:
    """What share of each class an expert has beyond what is expected, (3, C, M): value, lower and upper end.

    ``counts`` (G, C, M) are those of the layer and ``expected`` (G, C, M) the mean of the null's. The share of expert
    m in class c is a ratio of sums over documents, and the interval is that of the difference of two ratios.
    """
    difference, influence = np.zeros(counts.shape[1:]), np.zeros(counts.shape)
    for sign, one in ((1.0, counts), (-1.0, expected)):
        sizes = one.sum(axis=2, keepdims=True)  # (G, C, 1)
        share = _table(one)
        difference += sign * share
        influence += sign * (one - share * sizes) / np.maximum(sizes.sum(axis=0), 1.0)
    n = len(counts)
    error = np.sqrt(n / (n - 1) * (influence**2).sum(axis=0))
    half = float(special.stdtrit(n - 1, 0.975)) * error
    return np.stack([difference, difference - half, difference + half])


def _reports(
    layers: Sequence[LayerTrace],
    counts: list[Floats],
    found: list[Information],
    draws: list[_LayerDraws],
    tested: list[Booleans],
    start: Sequence[BeyondInitial | None],
) -> tuple[LayerUsage, ...]:
    p_experts = largest_p_values(
        np.concatenate([one.experts for one in found]),
        np.concatenate([one.experts for one in draws], axis=1),
        np.concatenate(tested),
    )
    p_layers = largest_p_values(
        np.array([one.layer for one in found]),
        np.stack([one.layer for one in draws], axis=1),
        np.ones(len(found), dtype=np.bool_),
    )
    ends = np.cumsum([layer.n_experts for layer in layers])
    return tuple(
        _report(layer.name, *parts, p, float(p_layer), first)
        for layer, parts, p, p_layer, first in zip(
            layers, zip(counts, found, draws, tested, strict=True), np.split(p_experts, ends[:-1]), p_layers, start,
            strict=True,
        )
    )  # fmt: skip


def _tested(counts: Floats) -> Booleans:
    """The experts with enough tokens in enough documents, (M,)."""
    own = counts.sum(axis=1)
    return np.asarray((own.sum(axis=0) >= FEWEST_TOKENS) & ((own > 0).sum(axis=0) >= FEWEST_TESTED))


def _report(
    name: str,
    counts: Floats,
    found: Information,
    draws: _LayerDraws,
    tested: Booleans,
    p_values: Floats,
    p_layer: float,
    first: BeyondInitial | None,
) -> LayerUsage:
    null, total_null = draws.experts.mean(axis=0), float(draws.layer.mean())
    influence = found.experts_influence - draws.experts_influence
    excess = tuple(
        _interval(float(value), change) for value, change in zip(found.experts - null, influence.T, strict=True)
    )
    return LayerUsage(
        name=name,
        table=_table(counts),
        expected=_table(draws.counts),
        beyond=beyond_table(counts, draws.counts),
        information=found.experts,
        null=null,
        null_high=np.quantile(draws.experts, 0.95, axis=0),
        excess=excess,
        p_values=p_values,
        tested=tested,
        total=found.layer,
        total_null=total_null,
        total_excess=_interval(found.layer - total_null, found.layer_influence - draws.layer_influence),
        total_p=p_layer,
        initial=first,
    )
