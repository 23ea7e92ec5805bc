"""Do experts know classes of tokens, beyond chance, and beyond what random routers on the same states would show?"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

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
from gatewise.stats import Interval, student_interval

FEWEST_TOKENS = 20


@dataclass(frozen=True)
class LayerUsage:
    """One layer: the experts that each class goes to, and what an expert tells about the class, in bits.

    ``table`` (C, M) is the fraction of a class's choices that each expert has, ``expected`` (C, M) the mean of that
    under the null. ``information`` (M,) is that of each expert and ``null`` (M,) its mean under the null; ``excess``
    is the difference with its interval by document, and ``p_values`` (M,) are adjusted for all experts of all layers;
    ``tested`` is False for an expert that is seen too seldom. ``total``, ``total_null``, ``total_excess`` and
    ``total_p`` are the same for the layer as a whole, adjusted for all layers. ``beyond_initial`` is the layer's
    information less that of the initial checkpoint, where one was given.
    """

    name: str
    table: Floats
    expected: Floats
    information: Floats
    null: Floats
    excess: tuple[Interval, ...]
    p_values: Floats
    tested: Booleans
    total: float
    total_null: float
    total_excess: Interval
    total_p: float
    beyond_initial: Interval | None = None


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
    table: Floats  # (C, M)


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
    draw = _drawing(kind, documents, classes, device)
    counts = [_counts(layer, layer.places, classes, documents, sizes) for layer in layers]
    found = [information(one) for one in counts]
    drawn = [_LayerDrawn(layer, sizes) for layer in layers]
    for _ in range(n_draws):
        for one, (places, labels) in zip(drawn, draw(layers, rng), strict=True):
            one.add(_counts(one.layer, places, labels, documents, sizes))
    draws = [one.summary() for one in drawn]
    start = [None if initial is None else _beyond(one, other, classes, documents, sizes)
             for one, other in zip(found, initial or layers, strict=True)]  # fmt: skip
    return Usage(kind, names, _reports(layers, counts, found, draws, start))


def _counts(
    layer: LayerTrace, places: Indices, classes: Indices, documents: Indices, sizes: tuple[int, int]
) -> Floats:
    return class_counts(places, classes, documents, (*sizes, layer.n_experts))


def _drawing(
    kind: str, documents: Indices, classes: Indices, device: Any
) -> Callable[[Sequence[LayerTrace], np.random.Generator], Iterator[tuple[Indices, Indices]]]:
    """One draw of the null: for every layer the choices and the classes."""
    if kind not in ("router", "shift", "documents"):
        raise ValueError(f"null must be 'router' or 'chance', not {kind!r}")
    move = permuted_topics if kind == "documents" else shifted

    def draw(layers: Sequence[LayerTrace], rng: np.random.Generator) -> Iterator[tuple[Indices, Indices]]:
        if kind == "router":
            yield from ((random_choices(layer, rng, device), classes) for layer in layers)
        else:
            moved = move(classes, documents, rng)
            yield from ((layer.places, moved) for layer in layers)

    return draw


class _LayerDrawn:
    """Gathers the draws of a layer."""

    def __init__(self, layer: LayerTrace, sizes: tuple[int, int]) -> None:
        self.layer, self.table = layer, np.zeros((sizes[1], layer.n_experts))
        self.experts_influence, self.layer_influence = np.zeros((sizes[0], layer.n_experts)), np.zeros(sizes[0])
        self.found: list[tuple[Floats, float]] = []

    def add(self, counts: Floats) -> None:
        drawn = information(counts)
        self.found.append((drawn.experts, drawn.layer))
        self.experts_influence += drawn.experts_influence
        self.layer_influence += drawn.layer_influence
        self.table += _table(counts)

    def summary(self) -> _LayerDraws:
        size = len(self.found)
        experts, layer = np.array([one[0] for one in self.found]), np.array([one[1] for one in self.found])
        influences = self.experts_influence / size, self.layer_influence / size
        return _LayerDraws(experts, layer, *influences, self.table / size)


def _table(counts: Floats) -> Floats:
    whole = counts.sum(axis=0)
    return np.asarray(whole / np.maximum(whole.sum(axis=1, keepdims=True), 1.0))


def _beyond(
    found: Information, initial: LayerTrace, classes: Indices, documents: Indices, sizes: tuple[int, int]
) -> Interval:
    """The layer's information less that of the initial checkpoint."""
    before = information(_counts(initial, initial.places, classes, documents, sizes))
    return _interval(found.layer - before.layer, found.layer_influence - before.layer_influence)


def _interval(value: float, influence: Floats) -> Interval:
    n = len(influence)
    return student_interval(value, float(np.sqrt(n / (n - 1) * influence @ influence)), n - 1)


def _reports(
    layers: Sequence[LayerTrace],
    counts: list[Floats],
    found: list[Information],
    draws: list[_LayerDraws],
    start: list[Interval | None],
) -> tuple[LayerUsage, ...]:
    tested = [_tested(one) for one in counts]
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
        _report(layer.name, *parts, p, float(p_layer), beyond)
        for layer, parts, p, p_layer, beyond in zip(
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
    beyond: Interval | None,
) -> LayerUsage:
    null, total_null = draws.experts.mean(axis=0), float(draws.layer.mean())
    influence = found.experts_influence - draws.experts_influence
    excess = tuple(
        _interval(float(value), change) for value, change in zip(found.experts - null, influence.T, strict=True)
    )
    return LayerUsage(
        name=name,
        table=_table(counts),
        expected=draws.table,
        information=found.experts,
        null=null,
        excess=excess,
        p_values=p_values,
        tested=tested,
        total=found.layer,
        total_null=total_null,
        total_excess=_interval(found.layer - total_null, found.layer_influence - draws.layer_influence),
        total_p=p_layer,
        beyond_initial=beyond,
    )
