"""Ensembles of regression trees as a few arrays: the sum over trees of the values of the leaves of a row."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gatewise.arrays import Floats, Indices
from gatewise.kernels.compiled import compiled


class Trees(NamedTuple):
    """Trees one after the other; tree t has the nodes roots[t] to roots[t + 1] - 1, the root first.

    A row goes to the node ``left`` if its column ``feature``, as a 32-bit number, is at most ``threshold``, else to
    ``right``; at a leaf ``feature`` is -1.
    """

    roots: Indices  # (T + 1,)
    feature: Indices  # (nodes,)
    threshold: Floats  # (nodes,)
    left: Indices  # (nodes,)
    right: Indices  # (nodes,)
    value: Floats  # (nodes, J)
    n_columns: int


def pack_trees(grown: Sequence[tuple[Any, Floats]], n_outputs: int, n_columns: int) -> Trees:
    """The arrays of trees of scikit-learn (``tree_``), each with the values (nodes, J) of its nodes."""
    roots = np.cumsum([0, *(tree.node_count for tree, _ in grown)])
    starts = np.repeat(roots[:-1], np.diff(roots))

    def joined(name: str, dtype: Any) -> Any:
        return np.concatenate([np.empty(0, dtype), *(getattr(tree, name) for tree, _ in grown)]).astype(dtype)

    leaf = joined("children_left", np.intp) < 0
    return Trees(
        roots.astype(np.intp),
        np.where(leaf, -1, joined("feature", np.intp)),
        joined("threshold", np.float64),
        joined("children_left", np.intp) + starts,
        joined("children_right", np.intp) + starts,
        np.concatenate([np.empty((0, n_outputs)), *(values for _, values in grown)]),
        n_columns,
    )


def tree_sums(columns: Floats, trees: Trees, first: int | None = None) -> Floats:
    """The sum over trees, or over the ``first`` few, of their leaves' values at rows of columns (n, p), (n, J)."""
    rows = np.ascontiguousarray(columns, dtype=np.float32)
    if rows.shape[1] != trees.n_columns:
        raise ValueError(
            f"columns must be {trees.n_columns}, as many as the trees were grown on, not {rows.shape[1]}"
        )
    out = np.zeros((len(rows), trees.value.shape[1]))
    if len(trees.feature):
        roots = trees.roots if first is None else trees.roots[: first + 1]
        _add_leaves(rows, roots, trees.feature, trees.threshold, trees.left, trees.right, trees.value, out)
    return out


@compiled
def _add_leaves(
    columns: Any,
    roots: Indices,
    feature: Indices,
    threshold: Floats,
    left: Indices,
    right: Indices,
    value: Floats,
    out: Floats,
) -> None:
    for t in range(len(roots) - 1):
        for i in range(len(columns)):
            node = roots[t]
            while feature[node] >= 0:
                node = left[node] if columns[i, feature[node]] <= threshold[node] else right[node]
            for j in range(out.shape[1]):
                out[i, j] += value[node, j]
