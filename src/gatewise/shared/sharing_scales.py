"""Scales of sharing: on a tree of regions, which components are common to all regions, to a group of them, or local.

The scale of sharing of a component says which regions have the same coefficients. Each component is split into a part
that all regions have in common and, for every inner node of the tree, the differences between the branches of that
node. Each of these blocks is a group of a group lasso with adaptive weights; along its path every set of active
blocks is refitted by least squares, and the Bayesian information criterion picks one.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from gatewise.arrays import Floats, Indices
from gatewise.kernels.group_lasso import group_lasso
from gatewise.shared.least_squares import Factor, factorize
from gatewise.shared.partition import region_rows
from gatewise.shared.tree import branchings, check_tree, leaves, scale_name, sharing_sets, Tree

Active = tuple[bool, ...]


class Block(NamedTuple):
    """One group of the penalty: columns with A'A = n I, of one component at one node (None: the common part)."""

    component: str
    node: tuple[tuple[int, ...], ...] | None
    columns: Floats  # (n, r)


class ScaleFit(NamedTuple):
    """The chosen scales of sharing, and the coefficients of every component in every region."""

    sets: dict[str, tuple[tuple[int, ...], ...]]  # regions that share; empty: the component is absent
    scales: dict[str, str]  # "all", "group", "local" or "absent"
    coefficients: dict[str, Floats]  # (J, p_c) each
    rss: float
    bic: float

    def predict(self, columns: Mapping[str, Floats], labels: Indices) -> Floats:
        """The fitted function at rows with these columns and regions, (n,)."""
        total = np.zeros(len(labels))
        for name, coefficients in self.coefficients.items():
            total += (columns[name] * coefficients[labels]).sum(axis=1)
        return total


def fit_scales(
    columns: Mapping[str, Floats], labels: Indices, tree: Tree, y: Floats, n_penalties: int = 40
) -> ScaleFit:
    """Joint least squares where a group penalty and BIC decide the scale of sharing of every component.

    min ||y - sum_g B_g t_g||^2 / 2n + penalty sum_g w_g ||t_g||, w_g = sqrt(r_g) / ||t_g of least squares||. columns
    maps a component's name to its columns (n, p_c) on all rows; labels (n,) are leaves of the tree. This is a
    proposal of the paper's outlook.

    >>> labels = np.arange(400) % 4
    >>> x = np.linspace(-1, 1, 400)[:, None]
    >>> y = 3 * x[:, 0] + (labels > 1) + 0.1 * np.cos(50 * x[:, 0])
    >>> fit_scales({"slope": x, "offset": np.ones((400, 1))}, labels, ((0, 1), (2, 3)), y).sets
    {'slope': ((0, 1, 2, 3),), 'offset': ((0, 1), (2, 3))}
    """
    n_regions = check_tree(tree)
    region_rows(labels, n_regions, [sum(B.shape[1] for B in columns.values())] * n_regions)
    blocks = [block for name, B in columns.items() for block in _blocks(name, B, labels, tree)]
    fits = [_refit(columns, labels, tree, y, blocks, active) for active in _candidates(blocks, y, n_penalties)]
    return min(fits, key=lambda fit: fit.bic)


def _blocks(name: str, B: Floats, labels: Indices, tree: Tree) -> list[Block]:
    """The common part of a component and its differences at every inner node, orthogonal to one another."""
    root = np.sqrt(len(B))
    blocks = [Block(name, None, factorize(B).q * root)]
    for node in branchings(tree):
        whole = _within(B, labels, sum(node, ()))
        apart = [factorize(whole).residual(_within(B, labels, child)) for child in node]
        blocks.append(Block(name, node, _orthonormal(np.hstack(apart), B) * root))
    return [block for block in blocks if block.columns.shape[1]]


def _orthonormal(A: Floats, B: Floats) -> Floats:
    scale = np.tile(np.linalg.norm(B, axis=0), A.shape[1] // B.shape[1])
    factor: Factor = factorize(A, scale)
    return factor.q


def _candidates(blocks: list[Block], y: Floats, n_penalties: int) -> list[Active]:
    """The sets of active blocks along the path of penalties, each once, from none to all."""
    D, n = np.hstack([block.columns for block in blocks]), len(y)
    ends = np.cumsum([0] + [block.columns.shape[1] for block in blocks]).astype(np.intp)
    groups = [slice(a, b) for a, b in pairwise(ends.tolist())]
    gram, target = D.T @ D / n, D.T @ y / n
    first = np.linalg.lstsq(gram, target, rcond=1e-10)[0]
    tiny = 1e-12 * max(float(np.abs(first).max()), np.finfo(float).tiny)
    weights = np.array([np.sqrt(g.stop - g.start) / max(float(np.linalg.norm(first[g])), tiny) for g in groups])
    top = max(float(np.linalg.norm(target[g])) / w for g, w in zip(groups, weights, strict=True))
    t = np.zeros(D.shape[1])
    found: dict[Active, None] = {tuple([False] * len(groups)): None}
    for penalty in top * np.logspace(0, -5, n_penalties):
        t = group_lasso(gram, target, ends, penalty * weights, t, 1e-7)
        found[tuple(bool(np.any(t[g] != 0)) for g in groups)] = None
    return list(found)


def _refit(
    columns: Mapping[str, Floats], labels: Indices, tree: Tree, y: Floats, blocks: list[Block], active: Active
) -> ScaleFit:
    """Least squares with one set of coefficients per sharing set; BIC = n log(RSS / n) + df log n."""
    on = [block for block, flag in zip(blocks, active, strict=True) if flag]
    sets = {
        name: sharing_sets(tree, [b.node for b in on if b.component == name and b.node is not None])
        if any(b.component == name for b in on)
        else ()
        for name in columns
    }
    pieces = [(name, regions) for name in columns for regions in sets[name]]
    design = np.hstack(
        [np.zeros((len(y), 0))] + [_within(columns[name], labels, regions) for name, regions in pieces]
    )
    factor = factorize(design)
    solution = factor.solve(y)
    coefficients = {name: np.zeros((len(leaves(tree)), B.shape[1])) for name, B in columns.items()}
    start = 0
    for name, regions in pieces:
        p = columns[name].shape[1]
        coefficients[name][list(regions)] = solution[start : start + p]
        start += p
    rss, n = float(((y - design @ solution) ** 2).sum()), len(y)
    bic = n * np.log(max(rss / n, np.finfo(float).tiny)) + len(factor.kept) * np.log(n)
    scales = {name: scale_name(chosen) for name, chosen in sets.items()}
    return ScaleFit(sets, scales, coefficients, rss, float(bic))


def _within(B: Floats, labels: Indices, regions: tuple[int, ...]) -> Floats:
    inside: Floats = B * np.isin(labels, regions)[:, None]
    return inside
