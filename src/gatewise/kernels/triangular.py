"""Triangular factors of growing sets of rows, for the threshold search of `shared.profile`.

The factor of rows A is the upper triangular U with U'U = A'A. It holds what the normal equations of these rows hold,
with the condition number of A instead of its square. Rows are added in batches, so the factors of rows 1..b for
growing b come from one pass.
"""

import numpy as np
from numpy.typing import NDArray

from gatewise.arrays import Floats
from gatewise.kernels.compiled import compiled_reordered, inner_reordered


@inner_reordered
def absorb(factor: Floats, columns: Floats, m: int) -> None:
    """Replace the factor U (q, q) by the factor of U'U + A'A, by Householder reflections.

    columns[:, :m] (q, m) is A' and is overwritten. The columns of A are contiguous, so every sum and every update
    runs along memory.
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


@inner_reordered
def eliminate(matrix: Floats, scale: Floats, tolerance: float) -> int:
    """Bring the first ``len(scale)`` columns to row echelon form in place; returns their rank.

    A column whose remainder is not longer than ``tolerance * scale`` depends on those before it. It is passed over
    and uses no row; otherwise a direction that consists of rounding errors would be removed from every later column.
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
    """The factor of the rows of each of B bins, (B, q, q).

    rows (n, q): sorted by bin; starts (B + 1,): bin b consists of the rows starts[b] to starts[b + 1].
    """
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
    """For every b, the factor of the columns [shared | y] of bins 0 to b after regression on their routed columns.

    factors (B, q, q): the factor of the columns [routed | shared | y] of each bin; returns (B, s, s) with
    s = q - n_routed. Columns that are nearly dependent are passed over, see `eliminate`.
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
    """The residual sum of squares of the last column regressed on the others, (P,), for each of P stacks (P, m, s).

    scale (s - 1,) and tolerance: see `eliminate`.
    """
    out = np.empty(len(stacks))
    for p in range(len(stacks)):
        work = stacks[p].copy()
        rank = eliminate(work, scale, tolerance)
        out[p] = (work[rank:, -1] ** 2).sum()
    return out
