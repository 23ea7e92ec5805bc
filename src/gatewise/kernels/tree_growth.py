"""Growing one regression tree on sorted columns.

A tree is grown as scikit-learn grows one: the best cut of a node minimises the sum of squares about the means of its
two sides, over all targets. Columns are sorted once; a node keeps its rows in the order of every column, so a cut
costs one pass over them. A tree on a few hundred rows takes some 50 microseconds, and an ensemble has hundreds.
"""

from typing import Any, NamedTuple

import numpy as np

from gatewise.arrays import Floats, Indices
from gatewise.kernels.compiled import compiled, inner, leaf

APART = 1e-7  # values that differ by less are not separated, as in scikit-learn
# Cuts whose gains are equal but for rounding are equally good, and the first is taken: the last bits of a forecast do
# not say whether it is cut, or an input that divides the rows alike. Also, a node of equal targets stays whole.
BETTER = 1.0 + 1e-10


class Nodes(NamedTuple):
    """One tree before its leaves have values: the arrays of `Trees`, (nodes,) each."""

    feature: Indices
    threshold: Floats
    left: Indices
    right: Indices


class TreeShape(NamedTuple):
    """How far a tree grows: its depth, -1 for any; rows in a leaf, at least; and columns that are tried at a cut."""

    depth: int
    least_leaf: int
    tries: int


@inner
def put_nodes(tree: Nodes, room: Nodes) -> int:
    """Put the nodes of a tree into the room for them, and say how many there are."""
    for k in range(len(tree.feature)):
        room.feature[k], room.threshold[k] = tree.feature[k], tree.threshold[k]
        room.left[k], room.right[k] = tree.left[k], tree.right[k]
    return len(tree.feature)


@compiled
def grow_into(
    values: Any, order: Any, targets: Floats, weight: Floats, shape: TreeShape, seed: int, room: Nodes, leaf: Indices
) -> int:
    """Grow a tree into the room for its nodes, and say how many there are; ``leaf`` (n,) is filled.

    Compiled functions that Python calls fill arrays and return a number. To return several arrays takes code of the
    interpreter, and a Ctrl-C that arrives in it ends the process.
    """
    tree, found = grown_tree(values, order, targets, weight, shape, seed)
    for i in range(len(found)):
        leaf[i] = found[i]
    return put_nodes(tree, room)


@inner
def grown_tree(
    values: Any, order: Any, targets: Floats, weight: Floats, shape: TreeShape, seed: int
) -> tuple[Nodes, Indices]:
    """What `grow_into` grows, for compiled callers: they need no machine code of it on its own."""
    kept = _counted(order, weight)
    p, m = kept.shape
    most = max(1, 2 * (m // shape.least_leaf) - 1)
    if 0 <= shape.depth < 40:
        most = min(most, 2 ** (shape.depth + 1) - 1)
    feature, threshold, left, right = no_nodes(most)
    scaled = scaled_targets(targets, weight)
    side, buffer = np.empty(len(weight), np.bool_), np.empty(m, np.int32)
    pool, cut = np.arange(p), np.zeros(2)
    todo = np.empty((most + 1, 4), np.intp)  # node, first and last row, depth
    put(todo, 0, 0, 0, m, 0)
    waiting, count, state = 1, 1, np.uint64(2 * seed + 1)
    while waiting:
        waiting -= 1
        node, start, stop, depth = todo[waiting, 0], todo[waiting, 1], todo[waiting, 2], todo[waiting, 3]
        if depth == shape.depth or stop - start < 2 * shape.least_leaf or p == 0:
            continue
        state = shuffle(pool, shape.tries, state)
        best = _best_cut(values, kept, scaled, weight, start, stop, shape, pool, cut)
        if best < 0:
            continue
        feature[node], threshold[node], left[node], right[node] = best, cut[0], count, count + 1
        middle = start + int(cut[1])
        if depth + 1 != shape.depth:
            for i in range(start, stop):
                side[kept[best, i]] = i < middle
            for f in range(p):
                _divide(kept, f, start, stop, side, buffer)
        put(todo, waiting, count + 1, middle, stop, depth + 1)
        put(todo, waiting + 1, count, start, middle, depth + 1)
        waiting, count = waiting + 2, count + 2
    nodes = Nodes(feature[:count], threshold[:count], left[:count], right[:count])
    return nodes, _leaves(values, nodes)


@inner
def no_nodes(count: int) -> tuple[Indices, Floats, Indices, Indices]:
    """The arrays of `Nodes` for so many leaves."""
    feature, threshold = np.empty(count, np.intp), np.zeros(count)
    left, right = np.empty(count, np.intp), np.empty(count, np.intp)
    for node in range(count):
        feature[node], left[node], right[node] = -1, -1, -1
    return feature, threshold, left, right


@inner
def scaled_targets(targets: Floats, weight: Floats) -> Floats:
    """Targets (n, J) times the weights (n,) of their rows."""
    out = np.empty(targets.shape)
    for i in range(targets.shape[0]):
        for j in range(targets.shape[1]):
            out[i, j] = targets[i, j] * weight[i]
    return out


@leaf
def put(todo: Indices, place: int, node: int, start: int, stop: int, depth: int) -> None:
    todo[place, 0], todo[place, 1], todo[place, 2], todo[place, 3] = node, start, stop, depth


@inner
def _counted(order: Any, weight: Floats) -> Any:
    """The rows of positive weight in the order of every column, (p, rows)."""
    total = 0
    for i in range(order.shape[1]):
        if weight[order[0, i]] > 0.0:
            total += 1
    kept = np.empty((len(order), total), np.int32)
    for f in range(len(order)):
        place = 0
        for i in range(order.shape[1]):
            if weight[order[f, i]] > 0.0:
                kept[f, place] = order[f, i]
                place += 1
    return kept


@inner
def shuffle(pool: Indices, tries: int, state: Any) -> Any:
    """Put columns into a random order if only some of them are tried; the next state of the generator (xorshift)."""
    if tries < len(pool):
        for i in range(len(pool) - 1):
            state ^= state << np.uint64(13)
            state ^= state >> np.uint64(7)
            state ^= state << np.uint64(17)
            other = i + int((state >> np.uint64(11)) % np.uint64(len(pool) - i))
            pool[i], pool[other] = pool[other], pool[i]
    return state


@inner
def _best_cut(
    columns: Any,
    kept: Any,
    scaled: Floats,
    weight: Floats,
    start: int,
    stop: int,
    shape: TreeShape,
    pool: Indices,
    cut: Floats,
) -> int:
    """The column of the best cut, -1 if there is none; ``cut`` becomes its threshold and the number of rows left.

    The best cut has the largest sum over both sides of |sum of scaled targets|^2 / sum of weights; of cuts that are
    equally good but for rounding it is the first.
    """
    J, found, tried = scaled.shape[1], -1, False
    total, left = np.zeros(J), np.zeros(J)
    mass = 0.0
    for i in range(start, stop):
        mass += weight[kept[0, i]]
        for j in range(J):
            total[j] += scaled[kept[0, i], j]
    square = 0.0
    for j in range(J):
        square += total[j] * total[j]
    best = square / mass
    for place in range(len(pool)):
        if place >= shape.tries and tried:
            break
        f = pool[place]
        if columns[f, kept[f, stop - 1]] <= columns[f, kept[f, start]] + APART:
            continue
        tried = True
        for j in range(J):
            left[j] = 0.0
        mass_left = 0.0
        for i in range(start, stop - shape.least_leaf):
            row = kept[f, i]
            mass_left += weight[row]
            for j in range(J):
                left[j] += scaled[row, j]
            if i - start + 1 < shape.least_leaf or columns[f, kept[f, i + 1]] <= columns[f, row] + APART:
                continue
            gain = 0.0
            for j in range(J):
                gain += left[j] ** 2 / mass_left + (total[j] - left[j]) ** 2 / (mass - mass_left)
            if gain > best * BETTER:
                best, found = gain, f
                low, high = columns[f, row], columns[f, kept[f, i + 1]]
                middle = 0.5 * float(low) + 0.5 * float(high)
                cut[0], cut[1] = middle if middle < high else low, i + 1 - start
    return found


@inner
def _divide(kept: Any, f: int, start: int, stop: int, side: Any, buffer: Any) -> None:
    """Put the rows of the left side first, within the order of column f."""
    place, later = start, 0
    for i in range(start, stop):
        row = kept[f, i]
        if side[row]:
            kept[f, place] = row
            place += 1
        else:
            buffer[later] = row
            later += 1
    for i in range(later):
        kept[f, place + i] = buffer[i]


@inner
def _leaves(values: Any, tree: Nodes) -> Indices:
    """The leaf of a tree that each row of columns (p, n) is in, (n,)."""
    leaf = np.zeros(values.shape[1], np.intp)
    for i in range(len(leaf)):
        node = 0
        while tree.feature[node] >= 0:
            node = tree.left[node] if values[tree.feature[node], i] <= tree.threshold[node] else tree.right[node]
        leaf[i] = node
    return leaf
