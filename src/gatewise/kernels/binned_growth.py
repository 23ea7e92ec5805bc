"""Growing one regression tree on many rows: cuts are sought between bins, and then between the rows at the best one.

Every column is divided once into at most 256 bins of about equally many rows. A node adds up its targets by bin, one
pass over its rows for each column, and compares the cuts between bins. The best of them is then moved to the best
place among the rows of the two bins that it separates, so a cut is as sharp as the data. Where no cut between bins is
found all cuts are compared. Where no bin holds two values, the tree is the one of `grow_tree`.
"""

from typing import Any, NamedTuple

import numpy as np

from gatewise.arrays import Floats, Indices
from gatewise.kernels.compiled import compiled, inner, inner_fma, leaf
from gatewise.kernels.simd.lanes import fill, load, store, WIDTH
from gatewise.kernels.tree_growth import (
    APART,
    BETTER,
    no_nodes,
    Nodes,
    put,
    put_nodes,
    scaled_targets,
    shuffle,
    TreeShape,
)

N_BINS = 256
MOST_SORTED = 65_536  # rows that the bins of a column are learned from
ONE, SHIFT = np.uint64(1), np.uint64(58)
# The product of 2^k and this number has another six highest bits for each k < 64: PLACES says which k they stand for.
MULTIPLIER = np.uint64(0x03F79D71B4CB0A89)
PLACES = np.argsort([(0x03F79D71B4CB0A89 << k) % 2**64 >> 58 for k in range(64)])


class BinnedColumns(NamedTuple):
    """Columns (p, n) of 32-bit numbers, and the bin of every number: a larger number is in no smaller bin."""

    values: Any
    bins: Any

    @classmethod
    def divide(cls, columns: Floats) -> "BinnedColumns":
        """Divide the columns of an array (n, p), by the quantiles of evenly spaced rows."""
        values = np.ascontiguousarray(columns.T, dtype=np.float32)
        bins = np.empty(values.shape, np.uint8)
        some = np.sort(values[:, :: max(1, -(-values.shape[1] // MOST_SORTED))], axis=1)
        places = np.arange(1, N_BINS) * some.shape[1] // N_BINS
        for f in range(len(values)):
            known = np.unique(some[f])
            edges = known[:-1] if len(known) <= N_BINS else np.unique(some[f, places])
            bins[f] = np.searchsorted(edges, values[f])
        return cls(values, bins)

    def part(self, rows: Indices) -> "BinnedColumns":
        """The columns at some rows."""
        return BinnedColumns(np.take(self.values, rows, axis=1), np.take(self.bins, rows, axis=1))


class _Search(NamedTuple):
    """Work space of a node's search, and the best cut so far.

    Sums are of ones, weights and targets. sums (256, 3), or (256, 8) for more than one target: those of every bin,
    flat, zeros between two columns; seen (4,): the bins that hold rows, as bits. left, last, total (8,): those left
    of a cut, in the last bin there, and of the node; kept (8,): those left of the two bins that the best cut
    separates. best: gain, threshold, and the two bins. keys, who: numbers and rows that are sorted. node: the
    summands of the node's rows, one row after the other.
    """

    sums: Floats
    seen: Any
    left: Floats
    last: Floats
    total: Floats
    kept: Floats
    best: Floats
    keys: Any
    who: Any
    node: Floats


@compiled
def grow_binned_into(
    values: Any, bins: Any, targets: Floats, weight: Floats, shape: TreeShape, seed: int, room: Nodes, home: Indices
) -> int:
    """Grow a tree on m rows of positive weight (m,), for up to six targets (m, J), into the room for its nodes.

    ``values`` and ``bins`` (p, m) are those of `BinnedColumns` at these rows. The leaf of each row goes to ``home``
    (m,). Returns the number of nodes.
    """
    p, m = values.shape
    most = max(1, 2 * (m // shape.least_leaf) - 1)
    if 0 <= shape.depth < 40:
        most = min(most, 2 ** (shape.depth + 1) - 1)
    feature, threshold, left, right = no_nodes(most)
    scaled = scaled_targets(targets, weight)
    rows, buffer, pool = np.empty(m, np.int32), np.empty(m, np.int32), np.arange(p)
    for i in range(m):
        rows[i] = i
    search = _work_space(m, targets.shape[1])
    todo = np.empty((most + 1, 4), np.intp)  # node, first and last row, depth
    put(todo, 0, 0, 0, m, 0)
    waiting, count, state = 1, 1, np.uint64(2 * seed + 1)
    while waiting:
        waiting -= 1
        node, start, stop, depth = todo[waiting, 0], todo[waiting, 1], todo[waiting, 2], todo[waiting, 3]
        found = -1
        if depth != shape.depth and stop - start >= 2 * shape.least_leaf and p > 0:
            state = shuffle(pool, shape.tries, state)
            found = _best_cut(values, bins, rows, scaled, weight, start, stop, shape, pool, search)
        if found < 0:
            for i in range(start, stop):
                home[rows[i]] = node
            continue
        feature[node], threshold[node], left[node], right[node] = found, search.best[1], count, count + 1
        middle = _divide(values, found, search.best[1], rows, start, stop, buffer)
        put(todo, waiting, count + 1, middle, stop, depth + 1)
        put(todo, waiting + 1, count, start, middle, depth + 1)
        waiting, count = waiting + 2, count + 2
    return put_nodes(Nodes(feature[:count], threshold[:count], left[:count], right[:count]), room)


@inner
def _work_space(m: int, n_targets: int) -> _Search:
    sums, seen, best = np.zeros(WIDTH * N_BINS), np.zeros(4, np.uint64), np.zeros(4)
    left, last, total, kept = np.zeros(WIDTH), np.zeros(WIDTH), np.zeros(WIDTH), np.zeros(WIDTH)
    keys, who, node = np.empty(m, np.float32), np.empty(m, np.int32), np.empty(m * (2 if n_targets == 1 else WIDTH))
    return _Search(sums, seen, left, last, total, kept, best, keys, who, node)


@inner_fma
def _best_cut(
    values: Any,
    bins: Any,
    rows: Any,
    scaled: Floats,
    weight: Floats,
    start: int,
    stop: int,
    shape: TreeShape,
    pool: Indices,
    search: _Search,
) -> int:
    """The column of the best cut of a node's rows, -1 if there is none; ``search.best[1]`` becomes its threshold.

    Where no cut between bins is better than none, as within one bin, the columns are sorted.
    """
    _gather(rows, scaled, weight, start, stop, search)
    found, tried = -1, False
    for place in range(len(pool)):
        if place >= shape.tries and tried:
            break
        f, before = pool[place], search.best[0]
        if scaled.shape[1] == 1:
            count = _one_target(bins, f, rows, start, stop, shape.least_leaf, search)
        else:
            count = _some_targets(bins, f, rows, start, stop, shape.least_leaf, search)
        tried = tried or count > 1
        found = f if search.best[0] > before else found
    if found >= 0 and _sharpened(values, bins, found, rows, scaled, weight, start, stop, shape, search):
        return found
    found, tried = -1, False
    for place in range(len(pool)):
        if place >= shape.tries and tried:
            break
        count = _sort_all(values, pool[place], rows, start, stop, search)
        if search.keys[count - 1] > search.keys[0] + APART:
            tried = True
            store(search.left, 0, fill(0.0))
            if _between_rows(search, scaled, weight, count, shape.least_leaf):
                found = pool[place]
    return found


@inner_fma
def _sharpened(
    values: Any,
    bins: Any,
    f: int,
    rows: Any,
    scaled: Floats,
    weight: Floats,
    start: int,
    stop: int,
    shape: TreeShape,
    search: _Search,
) -> bool:
    """Move the best cut between bins of column f to the best place among the rows of the two bins."""
    count = _sort_bins(values, bins, f, rows, start, stop, search.best[2], search.best[3], search)
    store(search.left, 0, load(search.kept, 0))
    search.best[0] = 0.0
    return _between_rows(search, scaled, weight, count, shape.least_leaf)


@inner_fma
def _gather(rows: Any, scaled: Floats, weight: Floats, start: int, stop: int, search: _Search) -> None:
    """The node's rows one after the other: a one, the weight and the targets; their sums, and the gain of no cut."""
    J, total, node = scaled.shape[1], search.total, search.node
    width = 2 if J == 1 else WIDTH
    store(total, 0, fill(0.0))
    total[0] = stop - start
    for i in range(start, stop):
        row, place = rows[i], width * (i - start)
        total[1] += weight[row]
        if J == 1:
            node[place], node[place + 1] = weight[row], scaled[row, 0]
            total[2] += scaled[row, 0]
            continue
        store(node, place, fill(0.0))
        node[place], node[place + 1] = 1.0, weight[row]
        for j in range(J):
            node[place + 2 + j] = scaled[row, j]
            total[2 + j] += scaled[row, j]
    square = 0.0
    for j in range(2, WIDTH):
        square += total[j] * total[j]
    search.best[0] = square / total[1]


@inner_fma
def _one_target(bins: Any, f: int, rows: Any, start: int, stop: int, least_leaf: int, search: _Search) -> int:
    """Compare the cuts between neighbouring bins of column f with the best one; the number of bins that hold rows."""
    sums, seen, node, place = search.sums, search.seen, search.node, 0
    for i in range(start, stop):
        b = int(bins[f, rows[i]])
        seen[b >> 6] |= ONE << np.uint64(b & 63)
        sums[3 * b] += 1.0
        sums[3 * b + 1] += node[place]
        sums[3 * b + 2] += node[place + 1]
        place += 2
    n, mass, pull, last_n, last_mass, last_pull = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    best, before, count, most = search.best[0], 0, 0, stop - start - least_leaf
    for word in range(4):
        bits = seen[word]
        while bits:
            b = 64 * word + _lowest(bits)
            bits &= bits - ONE
            if least_leaf <= n <= most:
                rest, other = search.total[1] - mass, search.total[2] - pull
                gain, unit = pull * pull * rest + other * other * mass, mass * rest
                if gain > best * BETTER * unit:
                    best = gain / unit
                    search.best[0], search.best[2], search.best[3] = best, before, b
                    search.kept[0], search.kept[1], search.kept[2] = n - last_n, mass - last_mass, pull - last_pull
            last_n, last_mass, last_pull = sums[3 * b], sums[3 * b + 1], sums[3 * b + 2]
            sums[3 * b], sums[3 * b + 1], sums[3 * b + 2] = 0.0, 0.0, 0.0
            n, mass, pull = n + last_n, mass + last_mass, pull + last_pull
            before, count = b, count + 1
        seen[word] = 0
    return count


@inner_fma
def _some_targets(bins: Any, f: int, rows: Any, start: int, stop: int, least_leaf: int, search: _Search) -> int:
    """The same for up to six targets: the sums of a bin are eight numbers, which are taken together."""
    sums, seen, node, left, last = search.sums, search.seen, search.node, search.left, search.last
    for i in range(start, stop):
        b = int(bins[f, rows[i]])
        seen[b >> 6] |= ONE << np.uint64(b & 63)
        store(sums, WIDTH * b, load(sums, WIDTH * b) + load(node, WIDTH * (i - start)))
    store(left, 0, fill(0.0))
    before, count, most = 0, 0, stop - start - least_leaf
    for word in range(4):
        bits = seen[word]
        while bits:
            b = 64 * word + _lowest(bits)
            bits &= bits - ONE
            if least_leaf <= left[0] <= most:
                gain = _gain(left, search.total)
                if gain > search.best[0] * BETTER:
                    search.best[0], search.best[2], search.best[3] = gain, before, b
                    store(search.kept, 0, load(left, 0) - load(last, 0))
            store(last, 0, load(sums, WIDTH * b))
            store(left, 0, load(left, 0) + load(last, 0))
            store(sums, WIDTH * b, fill(0.0))
            before, count = b, count + 1
        seen[word] = 0
    return count


@leaf
def _lowest(bits: Any) -> int:
    """The place of the lowest bit that is set."""
    place: int = PLACES[((bits & (~bits + ONE)) * MULTIPLIER) >> SHIFT]
    return place


@leaf
def _gain(left: Floats, total: Floats) -> float:
    """The sum over both sides of |sum of scaled targets|^2 / sum of weights."""
    rest = total[1] - left[1]
    square, other = 0.0, 0.0
    for j in range(2, WIDTH):
        square += left[j] * left[j]
        other += (total[j] - left[j]) * (total[j] - left[j])
    gain: float = (square * rest + other * left[1]) / (left[1] * rest)
    return gain


@inner_fma
def _sort_all(values: Any, f: int, rows: Any, start: int, stop: int, search: _Search) -> int:
    """The node's rows by increasing value of column f, in ``who``; and their number."""
    keys, who, count = search.keys, search.who, stop - start
    for i in range(count):
        who[i] = rows[start + i]
        keys[i] = values[f, who[i]]
    _shell_sort(keys, who, count)
    return count


@inner_fma
def _sort_bins(
    values: Any, bins: Any, f: int, rows: Any, start: int, stop: int, low: float, high: float, search: _Search
) -> int:
    """The same for those of the node's rows that are in two bins of column f."""
    keys, who, count = search.keys, search.who, 0
    for i in range(start, stop):
        row = rows[i]
        if bins[f, row] == low or bins[f, row] == high:
            keys[count], who[count] = values[f, row], row
            count += 1
    _shell_sort(keys, who, count)
    return count


@leaf
def _shell_sort(keys: Any, who: Any, count: int) -> None:
    """Sort the first keys, and ``who`` with them."""
    gap = 1
    while gap < count // 9:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, count):
            key, row, place = keys[i], who[i], i
            while place >= gap and keys[place - gap] > key:
                keys[place], who[place] = keys[place - gap], who[place - gap]
                place -= gap
            keys[place], who[place] = key, row
        gap //= 3


@inner_fma
def _between_rows(search: _Search, scaled: Floats, weight: Floats, count: int, least_leaf: int) -> bool:
    """Compare the cuts between the sorted rows with the best one; whether one of them is better."""
    left, total, keys, better = search.left, search.total, search.keys, False
    for i in range(count - 1):
        row = search.who[i]
        left[0] += 1.0
        left[1] += weight[row]
        for j in range(scaled.shape[1]):
            left[2 + j] += scaled[row, j]
        if left[0] < least_leaf or total[0] - left[0] < least_leaf or keys[i + 1] <= keys[i] + APART:
            continue
        gain = _gain(left, total)
        if gain > search.best[0] * BETTER:
            middle = 0.5 * float(keys[i]) + 0.5 * float(keys[i + 1])
            search.best[0], search.best[1], better = gain, middle if middle < keys[i + 1] else keys[i], True
    return better


@inner_fma
def _divide(values: Any, f: int, threshold: float, rows: Any, start: int, stop: int, buffer: Any) -> int:
    """Put the rows up to the threshold first, and return where the others start."""
    place, later = start, 0
    for i in range(start, stop):
        row = rows[i]
        if values[f, row] <= threshold:
            rows[place] = row
            place += 1
        else:
            buffer[later] = row
            later += 1
    for i in range(later):
        rows[place + i] = buffer[i]
    return place


@compiled
def leaf_sums(values: Floats, home: Indices, count: int) -> Floats:
    """The sums (count, J) of values (n, J) over the rows of every leaf, by the leaf (n,) of every row."""
    out = np.zeros((count, values.shape[1]))
    for i in range(len(values)):
        for j in range(values.shape[1]):
            out[home[i], j] += values[i, j]
    return out


@compiled
def add_leaves(values: Any, rows: Indices, tree: Nodes, steps: Floats, out: Floats) -> None:
    """Add to out (rows, J) the values (nodes, J) of the leaves that rows of columns (p, n) are in."""
    for i in range(len(rows)):
        node = 0
        while tree.feature[node] >= 0:
            node = (
                tree.left[node] if values[tree.feature[node], rows[i]] <= tree.threshold[node] else tree.right[node]
            )
        for j in range(out.shape[1]):
            out[i, j] += steps[node, j]
