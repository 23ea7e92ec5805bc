"""Checks of a model file: its types before anything is loaded, its decision trees afterwards."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from gatewise.app.models.trusted_types import LOADERS, trusted_types
from gatewise.kernels import Trees


def untrusted_types(schema: Any) -> list[str]:
    """The types and loaders that a file's schema names and that are not on the list of trusted ones, sorted."""
    trusted, found = trusted_types(), set()
    for node in _nodes(schema):
        loader = node["__loader__"]
        name = f"{node.get('__module__')}.{node.get('__class__')}"
        if loader not in LOADERS:
            found.add(f"{name} by {loader}")
        elif name not in trusted:
            found.add(name)
    return sorted(found)


def _nodes(schema: Any) -> Iterator[dict[str, Any]]:
    """Every entry of a schema that says how to load something. No recursion, as a file may be nested deeply."""
    stack = [schema]
    while stack:
        entry = stack.pop()
        if isinstance(entry, dict):
            if "__loader__" in entry or "__class__" in entry:
                yield {"__loader__": "nothing", **entry}
            stack.extend(entry.values())
        elif isinstance(entry, list):
            stack.extend(entry)


def check_trees(experts: Any) -> None:
    """Raise an error if a decision tree in these objects has broken links: compiled code follows them unchecked."""
    stack, seen = list(experts), set()
    while stack:
        one = stack.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, Trees):
            _check_packed(one)
        elif isinstance(one, dict):
            stack.extend(one.values())
        elif isinstance(one, list | tuple):
            stack.extend(one)
        elif type(one).__name__ == "Tree":
            nodes = one.__getstate__()["nodes"]
            _check_links(nodes["left_child"], nodes["right_child"], nodes["left_child"] < 0)
            _check_range(nodes["feature"][nodes["left_child"] >= 0], one.n_features)
        elif type(one).__name__ == "TreePredictor":
            _check_links(one.nodes["left"], one.nodes["right"], one.nodes["is_leaf"] != 0)
            categories = one.nodes["bitset_idx"][one.nodes["is_categorical"] != 0]
            _check_range(categories, len(one.raw_left_cat_bitsets))
        elif hasattr(one, "__dict__"):
            stack.extend(vars(one).values())


def _check_packed(trees: Trees) -> None:
    """Raise an error unless packed trees are arrays of one length whose links, columns and roots are in range."""
    leaf, n = trees.feature < 0, len(trees.feature)
    if any(len(one) != n for one in trees[2:6]) or trees.roots[0] != 0 or (np.diff(trees.roots) < 1).any():
        raise ValueError("a decision tree in the file is broken")
    _check_range(trees.roots, n + 1)
    _check_range(trees.feature[~leaf], trees.n_columns)
    _check_links(trees.left, trees.right, leaf)


def _check_links(left: Any, right: Any, leaf: Any) -> None:
    """Raise an error unless the children of every node exist and come after it, so that a walk down the tree ends."""
    place = np.flatnonzero(~leaf)
    for child in (left[place].astype(np.int64), right[place].astype(np.int64)):
        if (child <= place).any() or (child >= len(left)).any():
            raise ValueError("a decision tree in the file is broken")


def _check_range(values: Any, size: int) -> None:
    numbers = values.astype(np.int64)
    if ((numbers < 0) | (numbers >= size)).any():
        raise ValueError("a decision tree in the file is broken")
