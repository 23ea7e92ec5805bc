"""Checks of a model file: types and sizes before anything is loaded, then all that compiled code will follow."""

import zipfile
from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.ensemble._forest import BaseForest
from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.svm import SVC, SVR
from sklearn.tree import BaseDecisionTree
from sklearn.tree._tree import Tree

from gatewise.app.models.trusted_types import BOOSTERS, bound, LOADERS, trusted_types
from gatewise.kernels import Trees

MOST_BYTES = 2**30  # of a model file when it is unpacked


def untrusted_types(schema: Any, boosters: bool = False) -> list[str]:
    """The types and loaders that a file's schema names and that are not on the list of trusted ones, sorted.

    With ``boosters`` the boosted trees of other packages are trusted, too.
    """
    trusted, found = trusted_types(), set()
    for node in _nodes(schema):
        loader = node["__loader__"]
        name = f"{node.get('__module__')}.{node.get('__class__')}"
        if boosters and BOOSTERS.get(name) == loader:
            continue
        if loader not in LOADERS:
            found.add(f"{name} by {loader}")
        elif name not in trusted:
            found.add(name)
        elif not bound(loader, name):
            found.add(f"{name} by {loader}")
    return sorted(found)


def named_types(schema: Any) -> set[str]:
    """The types that a file's schema names."""
    return {f"{node.get('__module__')}.{node.get('__class__')}" for node in _nodes(schema)}


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


def check_sizes(archive: zipfile.ZipFile) -> None:
    """Raise an error if an archive would unpack to more than MOST_BYTES, or an array is not as large as it says."""
    total = sum(entry.file_size for entry in archive.infolist())
    if total > MOST_BYTES:
        raise ValueError(f"it unpacks to {total:,} bytes, more than {MOST_BYTES:,}")
    for entry in archive.infolist():
        if entry.filename.endswith(".npy"):
            with archive.open(entry) as file:
                version = np.lib.format.read_magic(file)
                read = (
                    np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
                )
                shape, _, dtype = read(file)
                size = entry.file_size - file.tell()
            if not dtype.hasobject and prod(shape) * dtype.itemsize != size:
                raise ValueError(f"{entry.filename} says that it holds {shape} values, and has {size:,} bytes")


def check_contents(model: Any) -> None:
    """Raise an error if compiled code would read beyond an array of a loaded model, or would never end.

    Such code follows the links of decision trees and trusts the sizes of support vectors. The search trees of nearest
    neighbours are not trusted but built again.
    """
    stack: list[Any] = [model]
    trees: list[Any] = []
    seen: set[int] = set()
    checked: set[int] = set()
    while stack:
        one = stack.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, Trees):
            _check_packed(one)
        if isinstance(one, dict | list | tuple):
            stack.extend(one.values() if isinstance(one, dict) else one)
        elif isinstance(one, Tree | TreePredictor):
            trees.append(one)
        elif hasattr(one, "__dict__"):
            checked.update(id(tree) for tree in _check_estimator(one))
            stack.extend(vars(one).values())
    _refuse_unless(all(id(tree) in checked for tree in trees))


def _check_estimator(model: Any) -> list[Any]:
    """Check what an estimator of scikit-learn holds; the decision trees that were checked with it."""
    held = vars(model)  # a model that is not fitted holds nothing to check
    if isinstance(model, BaseDecisionTree) and "tree_" in held:
        _check_tree(model.tree_, model.n_features_in_)
        return [model.tree_]
    if isinstance(model, BaseForest) and "estimators_" in held:
        _refuse_unless(all(tree.n_features_in_ == model.n_features_in_ for tree in model.estimators_))
    if isinstance(model, HistGradientBoostingRegressor | HistGradientBoostingClassifier) and "_predictors" in held:
        return _check_boosting(model)
    if isinstance(model, KNeighborsRegressor | KNeighborsClassifier) and "_tree" in held:
        _rebuild_neighbours(model)
    if isinstance(model, SVR | SVC) and "support_vectors_" in held:
        _check_support(model)
    return []


def _check_tree(tree: Any, n_features: int) -> None:
    _refuse_unless(isinstance(tree, Tree) and tree.node_count > 0 and tree.n_features == n_features)
    nodes = tree.__getstate__()["nodes"]
    _check_links(nodes["left_child"], nodes["right_child"], nodes["left_child"] < 0)
    _check_range(nodes["feature"][nodes["left_child"] >= 0], n_features)


def _check_boosting(model: Any) -> list[Any]:
    """The trees of a boosted model: their links, their columns, and that only categorical columns are cut by sets."""
    trees = [tree for stage in model._predictors for tree in stage]
    n = model.n_features_in_
    flags = (
        np.zeros(n, dtype=bool) if model.is_categorical_ is None else np.asarray(model.is_categorical_, dtype=bool)
    )
    _refuse_unless(flags.shape == (n,))
    for tree in trees:
        nodes = tree.nodes
        _refuse_unless(isinstance(tree, TreePredictor) and len(nodes) > 0)
        leaf = nodes["is_leaf"] != 0
        _check_links(nodes["left"], nodes["right"], leaf)
        _check_range(nodes["feature_idx"][~leaf], n)
        sets = (nodes["is_categorical"] != 0) & ~leaf
        _check_range(nodes["bitset_idx"][sets], len(tree.raw_left_cat_bitsets))
        _refuse_unless(bool(flags[nodes["feature_idx"][sets]].all()))
        _refuse_unless(np.shape(tree.raw_left_cat_bitsets)[1:] == (8,))
    return trees


def _rebuild_neighbours(model: Any) -> None:
    """Build the search tree of nearest neighbours again from the rows of the fit."""
    rows, response = np.asarray(model._fit_X, dtype=np.float64), np.asarray(model._y, dtype=np.float64)
    _refuse_unless(rows.ndim == 2 and len(rows) == len(response) == model.n_samples_fit_)
    _refuse_unless(rows.shape[1] == model.n_features_in_ and bool(np.isfinite(rows).all()))
    wanted = {name: value for name, value in vars(model).items() if not name.startswith("_")}
    again = type(model)(**model.get_params()).fit(rows, response)
    _refuse_unless(wanted["n_samples_fit_"] == again.n_samples_fit_)
    if isinstance(model, KNeighborsClassifier):
        _check_range(response, len(model.classes_))
    for name in ("_tree", "_fit_method", "effective_metric_", "effective_metric_params_", "_fit_X"):
        setattr(model, name, getattr(again, name))


def _check_support(model: Any) -> None:
    """The sizes of a support vector machine's arrays, which its compiled code takes on trust."""
    vectors, coefficients = np.asarray(model.support_vectors_), np.asarray(model._dual_coef_)
    n, d = vectors.shape if vectors.ndim == 2 else (-1, -1)
    counts, C = np.asarray(model._n_support, dtype=np.int64), 2
    used = counts[:1]
    if isinstance(model, SVC):
        C, used = len(model.classes_), counts
        _refuse_unless(counts.shape == (C,) and C > 1 and model.probability is not True)
    _refuse_unless(bool((used >= 0).all()) and int(used.sum()) == n)
    sizes = (len(model.support_), coefficients.shape, int(model.n_features_in_), np.shape(model._intercept_))
    _refuse_unless(sizes == (n, (C - 1, n), d, (C * (C - 1) // 2,)) and not model._sparse)
    _refuse_unless(tuple(model.shape_fit_)[1:] == (d,) and model.kernel in ("linear", "poly", "rbf", "sigmoid"))


def _refuse_unless(whole: bool) -> None:
    if not whole:
        raise ValueError("a model in the file is broken: compiled code would read beyond its arrays")


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
