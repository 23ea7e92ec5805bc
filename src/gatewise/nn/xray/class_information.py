"""What the choice of an expert tells about the class of a token: information, with documents as units."""

from typing import NamedTuple

import numpy as np

from gatewise.arrays import Booleans, Floats, Indices


class Information(NamedTuple):
    """Bits about the class: of every expert, (M,), and of the layer; with the influence of every document on each.

    An expert has i_m = sum_c p(c | m) log2 (p(c | m) / p(c)); the layer has the mutual information, the mean of i_m
    by load.
    """

    experts: Floats
    layer: float
    experts_influence: Floats  # (G, M)
    layer_influence: Floats  # (G,)


def class_counts(places: Indices, classes: Indices, documents: Indices, sizes: tuple[int, int, int]) -> Floats:
    """How often a token of class c in document g chose expert m, (G, C, M); places (n, K) of M are not counted.

    >>> class_counts(np.array([[0, 1], [1, 2]]), np.array([0, 0]), np.array([0, 1]), (2, 1, 2))
    array([[[1., 1.]],
    <BLANKLINE>
           [[0., 1.]]])
    """
    n_documents, n_classes, n_experts = sizes
    cell = ((documents * n_classes + classes)[:, None] * (n_experts + 1) + places).ravel()
    counts = np.bincount(cell, minlength=n_documents * n_classes * (n_experts + 1)).astype(np.float64)
    return counts.reshape(n_documents, n_classes, n_experts + 1)[:, :, :n_experts]


def information(counts: Floats) -> Information:
    """The information of a layer from counts (G, C, M).

    The influence of document g is the derivative of the information in the weight of that document.
    """
    whole = counts.sum(axis=0)  # (C, M)
    by_expert, total = whole.sum(axis=0), whole.sum()
    given = whole / np.maximum(by_expert, 1.0)  # p(c | m)
    overall = whole.sum(axis=1) / max(total, 1.0)  # p(c)
    ratio = np.divide(given, overall[:, None], out=np.ones_like(given), where=overall[:, None] > 0)
    surprise = np.log2(ratio, out=np.zeros_like(ratio), where=ratio > 0)
    experts = (given * surprise).sum(axis=0)
    own = counts.sum(axis=1)  # (G, M)
    excess = counts - given * own[:, None, :]
    change = (surprise * excess).sum(axis=1) / np.maximum(by_expert, 1.0)
    shift = counts.sum(axis=2) - overall * own.sum(axis=1, keepdims=True)  # (G, C)
    change = change - shift @ ratio / (max(total, 1.0) * np.log(2.0))
    load = by_expert / max(total, 1.0)
    layer = float(experts @ load)
    moved = (own - load * own.sum(axis=1, keepdims=True)) / max(total, 1.0)
    return Information(experts, layer, change, moved @ experts + change @ load)


def shifted(classes: Indices, documents: Indices, rng: np.random.Generator) -> Indices:
    """The classes (n,) with those of every document rotated by a random number of places.

    >>> shifted(np.array([1, 2, 3, 7]), np.array([0, 0, 0, 1]), np.random.default_rng(1))
    array([2, 3, 1, 7])
    """
    order = np.argsort(documents, kind="stable")
    counts = np.bincount(documents)
    starts = np.cumsum(counts) - counts
    turns = rng.integers(np.maximum(counts, 1))
    inside = np.arange(len(classes)) - np.repeat(starts, counts)
    source = np.repeat(starts, counts) + (inside + np.repeat(turns, counts)) % np.repeat(counts, counts)
    moved = np.empty_like(classes)
    moved[order] = classes[order][source]
    return moved


def permuted_topics(classes: Indices, documents: Indices, rng: np.random.Generator) -> Indices:
    """The classes (n,), one a document, with the documents' classes in random order."""
    of_document = np.zeros(int(documents.max()) + 1, dtype=np.intp)
    of_document[documents] = classes
    return rng.permutation(of_document)[documents]


def constant_within(classes: Indices, documents: Indices) -> bool:
    """Whether all tokens of every document have one class."""
    of_document = np.zeros(int(documents.max()) + 1, dtype=np.intp)
    of_document[documents] = classes
    return bool((of_document[documents] == classes).all())


def largest_p_values(observed: Floats, draws: Floats, tested: Booleans) -> Floats:
    """p-values (q,) adjusted for all hypotheses together, from statistics (q,) and draws (B, q) under the null.

    All are standardised by the mean and deviation of the draws and the observation together; the p-value is the
    fraction of draws whose largest one is as large (Westfall and Young's single step). It is 1 where not tested.
    """
    p_values = np.ones(len(observed))
    if not tested.any():
        return p_values
    everything = np.vstack([observed[tested], draws[:, tested]])
    centre, scale = everything.mean(axis=0), everything.std(axis=0)
    standard = (everything - centre) / np.where(scale > 0, scale, np.inf)
    largest = standard[1:].max(axis=1)
    as_large = (largest[None] >= standard[0][:, None] - 1e-9).sum(axis=1)
    p_values[tested] = (1.0 + as_large) / (1.0 + len(draws))
    return p_values
