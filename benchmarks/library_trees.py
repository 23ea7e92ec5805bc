"""Whole fits with scikit-learn's trees in the place of those that compiled code grows, beside the fits that ship.

``python -m benchmarks.library_trees``: the full list of `MoERegressor` on the tables of `benchmarks.large_fits`, and
`MoEClassifier` on that of `benchmarks.class_fit_time`. Both ways draw the same rows for every tree; scikit-learn
sorts the columns of a node again at every cut, and breaks ties at random. CPU seconds on one thread.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numba
import numpy as np
from sklearn.tree import DecisionTreeRegressor
from threadpoolctl import threadpool_limits

from benchmarks.class_fit_time import time_and_score
from benchmarks.large_fits import measure
from benchmarks.one_fit import Size
from benchmarks.timing import save
from gatewise.arrays import Floats, Indices, TINY
from gatewise.kernels import trees
from gatewise.kernels.tree_growth import Nodes, TreeShape

TABLES = (Size(1000, 5, 5), Size(1000, 5, 20), Size(1000, 5, 64), Size(100_000, 10, 32))
CLASS_ROWS = 20_000


def grown(X: Any, targets: Floats, weight: Floats, shape: TreeShape, seed: int) -> tuple[Nodes, Any]:
    """The nodes of a tree on rows X (m, p) with targets (m, J) and weights (m,), and scikit-learn's own tree."""
    tree = DecisionTreeRegressor(
        max_depth=None if shape.depth < 0 else shape.depth,
        min_samples_leaf=shape.least_leaf,
        max_features=None if shape.tries >= X.shape[1] else shape.tries,
        random_state=seed,
    )
    own = tree.fit(X, targets, sample_weight=weight, check_input=False).tree_
    feature = np.where(own.feature < 0, -1, own.feature).astype(np.intp)
    return Nodes(feature, own.threshold, own.children_left.astype(np.intp), own.children_right.astype(np.intp)), own


def binned_tree(
    values: Any, _bins: Any, targets: Floats, weight: Floats, shape: TreeShape, seed: int
) -> tuple[Nodes, Indices]:
    """As `trees.grow_binned_tree`."""
    X = np.ascontiguousarray(values.T)
    nodes, own = grown(X, np.ascontiguousarray(targets), weight, shape, seed)
    return nodes, own.apply(X).astype(np.intp)


def newton_tree(
    values: Any,
    _order: Any,
    targets: Floats,
    mask: Floats,
    gradient: Floats,
    curvature: Floats,
    shape: TreeShape,
    shrinkage: float,
    outputs: Floats,
    room: Nodes,
    found: Floats,
) -> int:
    """As `trees._newton_tree`."""
    X, kept = np.ascontiguousarray(values.T), mask > 0.0
    nodes, own = grown(X[kept], np.ascontiguousarray(targets[kept]), mask[kept], shape, 0)
    leaf, count = own.apply(X), len(nodes.feature)
    slope, bend = (
        np.stack([np.bincount(leaf[kept], column, count) for column in part[kept].T], axis=1)
        for part in (gradient, curvature)
    )
    steps = np.clip(-slope / (bend + trees.PRECISION), -trees.LARGEST_STEP, trees.LARGEST_STEP)
    found[:count] = shrinkage * steps
    outputs += found[leaf]
    return _put(nodes, room)


def mean_tree(
    values: Any,
    _order: Any,
    y: Floats,
    weight: Floats,
    shape: TreeShape,
    seed: int,
    total: Floats,
    room: Nodes,
    found: Floats,
) -> int:
    """As `trees._mean_tree`."""
    X, kept = np.ascontiguousarray(values.T), weight > 0.0
    nodes, own = grown(X[kept], np.ascontiguousarray(y[kept, None]), weight[kept], shape, seed)
    leaf, count = own.apply(X), len(nodes.feature)
    mass = np.bincount(leaf, weight, count) + TINY
    found[:count, 0] = np.bincount(leaf, weight * y, count) / (trees.N_TREES * mass)
    total += found[leaf, 0]
    return _put(nodes, room)


def _put(nodes: Nodes, room: Nodes) -> int:
    for place, values in zip(room, nodes, strict=True):
        place[: len(values)] = values
    return len(nodes.feature)


@contextmanager
def with_scikit_learn() -> Iterator[None]:
    """Within it ensembles are made of scikit-learn's trees."""
    with (
        patch.object(trees, "grow_binned_tree", binned_tree),
        patch.object(trees, "_newton_tree", newton_tree),
        patch.object(trees, "_mean_tree", mean_tree),
    ):
        yield


def both(size: Size) -> dict[str, Any]:
    """CPU seconds and distances to the truth of both ways on one table."""
    found: dict[str, Any] = size._asdict()
    found["ours"] = _told(measure(size, trees=True))
    with with_scikit_learn():
        found["scikit-learn"] = _told(measure(size, trees=True))
    return found


def _told(row: dict[str, Any]) -> dict[str, float]:
    return {key: row[key] for key in ("cpu_seconds", "distance")}


def main() -> None:
    numba.set_num_threads(1)
    with threadpool_limits(1):
        measure(Size(200, 5, 3), trees=True)  # compiled code is loaded
        time_and_score(300)
        rows = [both(size) for size in TABLES]
        classes = {"ours": time_and_score(CLASS_ROWS)}
        with with_scikit_learn():
            classes["scikit-learn"] = time_and_score(CLASS_ROWS)
    save("library_trees", {"rows": rows, "classes": classes})


if __name__ == "__main__":
    main()
