"""Intervals by resampling documents: load and entropy."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import special

from gatewise.arrays import Floats
from gatewise.nn.xray.layer_trace import LayerTrace
from gatewise.stats import Interval

DRAWS = 999


@dataclass(frozen=True)
class LayerLoad:
    """The fraction of a layer's choices that each expert has, with intervals; they have sum one."""

    name: str
    experts: tuple[Interval, ...]


@dataclass(frozen=True)
class LayerEntropy:
    """Entropies of a layer in bits: of its load, at most log2 M; of a token's weights, at most log2 K, on average.

    ``experts`` has the latter over the tokens where each expert is active.
    """

    name: str
    load: Interval
    weights: Interval
    experts: tuple[Interval, ...]


def bootstrap_intervals(
    totals: Floats, statistic: Callable[[Floats], Floats], seed: int | np.random.Generator, level: float = 0.95
) -> tuple[Interval, ...]:
    """Intervals of a statistic (..., q) of sums (..., p) over documents, from the documents' totals (G, p).

    The percentile interval over ``DRAWS`` resamples of documents, expanded for small G: its percentiles are those of
    a normal variable at Student's quantile times sqrt(G / (G - 1)).

    >>> bootstrap_intervals(np.array([[1.0], [3.0]] * 10), lambda sums: sums / 20, 0)[0].value
    2.0
    """
    n = len(totals)
    rng = np.random.default_rng(seed)
    draws = statistic(rng.multinomial(n, np.full(n, 1.0 / n), size=DRAWS).astype(np.float64) @ totals)
    tail = float(special.ndtr(-np.sqrt(n / (n - 1)) * special.stdtrit(n - 1, 0.5 + level / 2)))
    low, high = np.quantile(draws, [tail, 1 - tail], axis=0)
    values = statistic(totals.sum(axis=0))
    return tuple(Interval(*map(float, three)) for three in zip(values, low, high, strict=True))


def entropy_bits(weights: Floats) -> Floats:
    """-sum p log2 p over the last axis, of weights that are scaled to sum one; 0 where all are zero."""
    total = weights.sum(axis=-1, keepdims=True)
    p = np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)
    return np.asarray(special.entr(p).sum(axis=-1) / np.log(2.0))


def layer_load(layer: LayerTrace, counts: Floats, seed: int) -> LayerLoad:
    """The load of a layer from the documents' counts of choices, (G, M)."""
    return LayerLoad(layer.name, bootstrap_intervals(counts, _shares, seed))


def _shares(sums: Floats) -> Floats:
    return np.asarray(sums / np.maximum(sums.sum(axis=-1, keepdims=True), 1e-300))


def layer_entropy(layer: LayerTrace, counts: Floats, weight_sums: Floats, seed: int) -> LayerEntropy:
    """The entropies of a layer from counts (G, M) and, by document, sums of weight entropies.

    ``weight_sums`` (G, M + 1) has them over the tokens of each expert, and over all tokens in the last column.
    """
    n_experts = counts.shape[1]
    load = bootstrap_intervals(counts, lambda sums: entropy_bits(sums)[..., None], seed)[0]
    sizes = np.column_stack([counts, counts.sum(axis=1) / layer.indices.shape[1]])
    both = np.column_stack([weight_sums, sizes])

    def means(sums: Floats) -> Floats:
        top, bottom = sums[..., : n_experts + 1], sums[..., n_experts + 1 :]
        return np.divide(top, bottom, out=np.zeros_like(top), where=bottom > 0)

    found = bootstrap_intervals(both, means, seed)
    return LayerEntropy(layer.name, load, found[-1], found[:-1])
