"""Which experts are active together more often, or less, than their loads say? Within token classes, by document."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from gatewise.arrays import Booleans, Floats, Indices
from gatewise.geometry.grouped_rows import FEWEST_TESTED, flipped_sums
from gatewise.nn.xray.layer_trace import LayerTrace

FEWEST_TOGETHER = 2.0  # tokens of a document that are expected to have a pair, on average, for it to be tested
STEPS = 200


@dataclass(frozen=True)
class CoactivationLayer:
    """Pairs of a layer: how often they are active together, (M, M), and how often their loads and K alone make them.

    Both are fractions of tokens, and ``beyond`` (3, M, M) is their difference with the lower and upper ends of its
    interval by document. ``p_values`` (M, M) are two-sided and adjusted for all pairs of all layers, 1 where a pair
    is too rare to be ``tested``.
    """

    name: str
    together: Floats
    expected: Floats
    beyond: Floats
    p_values: Floats
    tested: Booleans


def pair_probabilities(load: Floats, k: int) -> Floats:
    """P(i and j are both in the set), (M, M), for sets of K experts with P(m in the set) = load_m and no other rule.

    That is the distribution of largest entropy: the chance of a set is the product of the weights of its members.

    >>> pair_probabilities(np.full(4, 0.5), 2).round(4)[0]
    array([0.5   , 0.1667, 0.1667, 0.1667])
    """
    weights = _set_weights(load, k)
    m = len(load)
    left = np.broadcast_to(weights, (m, m, m)).copy()  # the weights without those of i and j
    left[np.arange(m), :, np.arange(m)] = left[:, np.arange(m), np.arange(m)] = 0.0
    pairs: Floats = np.outer(weights, weights) * _symmetric(left, k - 2)[..., k - 2] / _symmetric(weights, k)[k]
    np.fill_diagonal(pairs, load)
    return pairs


def _symmetric(weights: Floats, k: int) -> Floats:
    """The elementary symmetric polynomials of orders 0 to k of weights (..., M), (..., k + 1)."""
    values = np.zeros((*weights.shape[:-1], k + 1))
    values[..., 0] = 1.0
    for m in range(weights.shape[-1]):
        values[..., 1:] += weights[..., m, None] * values[..., :-1].copy()
    return values


def _set_weights(load: Floats, k: int) -> Floats:
    """Weights (M,) for which a set of K that is drawn by the product of its weights holds m with chance load_m."""
    weights = np.maximum(load, 1e-12)
    others = np.arange(len(load))[:, None] != np.arange(len(load))
    for _ in range(STEPS):
        weights = weights / np.exp(np.log(weights).mean())
        without = _symmetric(np.where(others, weights, 0.0), k - 1)[:, k - 1]  # e_{K-1} without m
        chance = weights * without / _symmetric(weights, k)[k]
        weights = weights * np.maximum(load, 1e-12) / chance
        if np.abs(chance - load).max() < 1e-10:
            break
    return weights


def expected_pairs(chosen: Booleans, classes: Indices, k: int) -> Floats:
    """The expected indicator of every pair for the tokens of every class, (C, M, M)."""
    table = []
    for c in range(int(classes.max()) + 1):
        load = chosen[classes == c].mean(axis=0) if (classes == c).any() else np.full(chosen.shape[1], np.nan)
        table.append(_clipped_pairs(load, k))
    return np.stack(table)


def _clipped_pairs(load: Floats, k: int) -> Floats:
    """`pair_probabilities` also where experts are never or always active."""
    pairs = np.zeros((len(load), len(load)))
    always, sometimes = load >= 1 - 1e-9, (load > 1e-9) & (load < 1 - 1e-9)
    free = k - int(always.sum())
    if np.isnan(load).any():
        return pairs
    if sometimes.any() and free >= 1:
        inner = np.flatnonzero(sometimes)
        within = pair_probabilities(load[inner], free) if free >= 2 else np.diag(load[inner])
        pairs[np.ix_(inner, inner)] = within
    for m in np.flatnonzero(always):
        pairs[m] = pairs[:, m] = load
    return pairs


def pair_scores(chosen: Booleans, classes: Indices, documents: Indices, k: int) -> tuple[Floats, Floats, Floats]:
    """By document and pair i < j: together less expected, (G, P); and together and expected over all tokens, (P,)."""
    n_documents = int(documents.max()) + 1
    i, j = np.triu_indices(chosen.shape[1], 1)
    expected = expected_pairs(chosen, classes, k)[:, i, j]  # (C, P)
    class_sizes = np.zeros((n_documents, len(expected)))
    np.add.at(class_sizes, (documents, classes), 1.0)
    active = chosen.astype(np.float64)
    together = np.stack([_pairs(active[documents == g])[i, j] for g in range(n_documents)])
    wanted = class_sizes @ expected
    return together - wanted, together.sum(axis=0), wanted.sum(axis=0)


def _pairs(active: Floats) -> Floats:
    return np.asarray(active.T @ active)


def pair_p_values(scores: Floats, tested: Booleans, n_flips: int, rng: np.random.Generator) -> Floats:
    """Two-sided p-values (P,) of sums of scores (G, P), adjusted for all that are tested by the largest statistic.

    The test is conservative: the expected numbers are made of the same loads, so that the sum of the scores varies
    less than the scores themselves say.
    """
    p_values = np.ones(scores.shape[1])
    if not tested.any():
        return p_values
    some = scores[:, tested] / np.maximum(np.sqrt((scores[:, tested] ** 2).sum(axis=0)), 1e-300)
    observed = np.abs(some.sum(axis=0))
    largest = np.concatenate([np.abs(sums).max(axis=1) for sums in flipped_sums(some, n_flips, rng)])
    as_large = (largest[None] >= observed[:, None] - 1e-9).sum(axis=1)
    p_values[tested] = (1.0 + as_large) / (1.0 + n_flips)
    return p_values


def testable(expected: Floats, scores: Floats) -> Booleans:
    """Which pairs (P,) are expected often enough for sums by document, and vary in enough documents."""
    often = expected >= FEWEST_TOGETHER * len(scores)
    return np.asarray(often & ((scores != 0).sum(axis=0) >= FEWEST_TESTED))


def coactivations(
    layers: Sequence[LayerTrace], classes: Indices, documents: Indices, n_flips: int, rng: np.random.Generator
) -> tuple[CoactivationLayer, ...]:
    """The pairs of all layers; a layer with one expert a token has none and is refused."""
    parts = []
    for layer in layers:
        k = layer.indices.shape[1]
        if k < 2:
            raise ValueError(f"{layer.name} must have two active experts a token or more, not {k}, for pairs of them")
        parts.append(pair_scores(layer.chosen, classes, documents, k))
    scores = np.hstack([part[0] for part in parts])
    tested = np.concatenate([testable(expected, score) for score, _, expected in parts])
    ends = np.cumsum([part[0].shape[1] for part in parts])[:-1]
    p_values = np.split(pair_p_values(scores, tested, n_flips, rng), ends)
    sizes = np.bincount(documents).astype(np.float64)
    return tuple(
        _reported(layer, *part, p, some, sizes)
        for layer, part, p, some in zip(layers, parts, p_values, np.split(tested, ends), strict=True)
    )


def _reported(
    layer: LayerTrace,
    scores: Floats,
    together: Floats,
    expected: Floats,
    p_values: Floats,
    tested: Booleans,
    sizes: Floats,
) -> CoactivationLayer:
    """The pairs of one layer as tables, from scores (G, P), sums over all tokens (P,) and document sizes (G,)."""
    n, m = sizes.sum(), layer.n_experts
    difference = (together - expected) / n
    influence = (scores - np.outer(sizes, difference)) / n
    error = np.sqrt(len(sizes) / (len(sizes) - 1) * (influence**2).sum(axis=0))
    half = float(special.stdtrit(len(sizes) - 1, 0.975)) * error
    ends = (difference, difference - half, difference + half)
    return CoactivationLayer(
        layer.name,
        _square(together / n, m, 0.0),
        _square(expected / n, m, 0.0),
        np.stack([_square(one, m, 0.0) for one in ends]),
        _square(p_values, m, 1.0),
        _square(tested.astype(np.float64), m, 0.0) > 0,
    )


def _square(pairs: Floats, m: int, diagonal: float) -> Floats:
    """Values of pairs i < j, (P,), as a symmetric table (M, M)."""
    table = np.full((m, m), diagonal)
    i, j = np.triu_indices(m, 1)
    table[i, j] = table[j, i] = pairs
    return table
