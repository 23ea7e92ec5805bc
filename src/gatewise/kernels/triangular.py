"""Triangular factors of normal equations, cumulated: the hot loops of the threshold search.

A factor U of rows A is upper triangular with U'U = A'A: the normal equations of those rows, but with the condition
number of A and not its square. Rows are absorbed one batch after another, so a running sum of normal equations is a
running factor.
"""

import numpy as np
from numpy.typing import NDArray

from gatewise.arrays import Floats
from gatewise.kernels.compiled import compiled_reordered


@compiled_reordered
def absorb(factor: Floats, columns: Floats, m: int) -> None:
    """Replace U (q, q) by the factor of U'U + A'A, by reflections; A' is columns (q, :m), which is overwritten.

    The columns of A are contiguous, so that each sum and each update runs along memory.
    """
    q = factor.shape[0]
    for k in range(q):
        pivot = columns[k]
        tail = 0.0
        for i in range(m):
            tail += pivot[i] * pivot[i]
        if tail == 0.0:
            continue
        alpha = -np.copysign(np.sqrt(factor[k, k] ** 2 + tail), factor[k, k])
        head = factor[k, k] - alpha  # the reflection is I - v v' / (-alpha head), v = (head, pivot)
        factor[k, k] = alpha
        for c in range(k + 1, q):
            other = columns[c]
            dot = head * factor[k, c]
            for i in range(m):
                dot += pivot[i] * other[i]
            dot /= -alpha * head
            factor[k, c] -= head * dot
            for i in range(m):
                other[i] -= pivot[i] * dot


@compiled_reordered
def eliminate(matrix: Floats, scale: Floats, tolerance: float) -> int:
    """Bring the first ``len(scale)`` columns to echelon form in place; the number of columns that counted.

    A column with less than ``tolerance * scale`` left depends on those before it. It is passed over and uses up no
    row; otherwise a direction of mere rounding would take its share of every later column.
    """
    m, q = matrix.shape
    rank = 0
    for k in range(len(scale)):
        length = 0.0
        for i in range(rank, m):
            length += matrix[i, k] * matrix[i, k]
        if np.sqrt(length) <= tolerance * scale[k]:
            continue
        pivot = matrix[rank, k]
        alpha = -np.copysign(np.sqrt(length), pivot)
        matrix[rank, k] = pivot - alpha
        for c in range(k + 1, q):
            dot = 0.0
            for i in range(rank, m):
                dot += matrix[i, k] * matrix[i, c]
            dot /= -alpha * (pivot - alpha)
            for i in range(rank, m):
                matrix[i, c] -= matrix[i, k] * dot
        rank += 1
    return rank


@compiled_reordered
def bin_factors(rows: Floats, starts: NDArray[np.intp]) -> Floats:
    """The factor of the rows of each bin: rows (n, q) sorted by bin, starts (B+1,); returns (B, q, q)."""
    q, batch = rows.shape[1], 128  # a batch of rows stays in the first-level cache
    out = np.zeros((len(starts) - 1, q, q))
    columns = np.empty((q, batch))
    for b in range(len(starts) - 1):
        for start in range(starts[b], starts[b + 1], batch):
            m = min(batch, starts[b + 1] - start)
            for i in range(m):
                for c in range(q):
                    columns[c, i] = rows[start + i, c]
            absorb(out[b], columns, m)
    return out


@compiled_reordered
def running_profiles(factors: Floats, n_routed: int, tolerance: float) -> Floats:
    """What bins 0..b say of the shared columns once their routed columns are fitted, for every b.

    factors (B, q, q) of the columns [routed | shared | y]; returns factors (B, s, s) of [shared | y] projected off
    the routed columns, s = q - n_routed.
    """
    n_bins, q = factors.shape[:2]
    s = q - n_routed
    out = np.zeros((n_bins, s, s))
    total = np.zeros((q, q))
    scale = np.empty(n_routed)
    for b in range(n_bins):
        absorb(total, factors[b].T.copy(), q)
        work = total.copy()
        for k in range(n_routed):
            scale[k] = np.sqrt((work[: k + 1, k] ** 2).sum())
        rank = eliminate(work, scale, tolerance)
        absorb(out[b], work[rank:, n_routed:].T.copy(), q - rank)
    return out


@compiled_reordered
def stacked_rss(stacks: Floats, scale: Floats, tolerance: float) -> Floats:
    """The residual sum of squares of the last column on the others, for each of P stacks (P, m, s): (P,)."""
    out = np.empty(len(stacks))
    for p in range(len(stacks)):
        work = stacks[p].copy()
        rank = eliminate(work, scale, tolerance)
        out[p] = (work[rank:, -1] ** 2).sum()
    return out
