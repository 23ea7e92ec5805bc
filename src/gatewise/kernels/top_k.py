"""Top-K, the one rule: the K experts of largest score, where of equal scores the smaller index comes first.

`top_k` states the rule in NumPy. The compiled versions follow it and are tested against it: `top_k_rows` and
`keep_best` here, `gating` for batches of rows, and `net.prefix` for the experts that share a prefix of a product net.
"""

import numpy as np
from numpy.typing import NDArray

from gatewise.arrays import Floats
from gatewise.kernels.compiled import compiled, leaf
from gatewise.kernels.simd.lanes import choose, fill
from gatewise.kernels.simd.tile import load_strip, store_strip, STRIP, Strip


def top_k(scores: Floats, k: int) -> NDArray[np.intp]:
    """The k experts of largest score along the last axis, best first: scores (..., M), returns (..., k).

    >>> top_k(np.array([[1.0, 3.0, 3.0], [0.0, 0.0, 0.0]]), k=2)
    array([[1, 2],
           [0, 1]])
    """
    return np.argsort(-scores, axis=-1, kind="stable")[..., :k]


@leaf
def comes_after(score: float, index: float, other: float, other_index: float) -> bool:
    """Whether an expert comes after another: its score is smaller, or equal and its index is larger."""
    return score < other or (score == other and index > other_index)


@compiled
def top_k_rows(scores: Floats, k: int, out: NDArray[np.intp]) -> None:
    """`top_k` of every row in compiled code: scores (n, M), out (n, k)."""
    for i in range(scores.shape[0]):
        last, last_index = np.inf, -1
        for rank in range(k):
            best, index = -np.inf, -1
            for m in range(scores.shape[1]):
                score = scores[i, m]
                if comes_after(score, m, last, last_index) and (index < 0 or score > best):
                    best, index = score, m
            out[i, rank] = index
            last, last_index = best, index


@leaf
def keep_best(scores: Floats, first: int, n_experts: int, width: int, k: int, kept: Floats) -> None:
    """Copy the k largest scores of every candidate to ``kept`` and put -inf in the places of the others.

    Both arrays are contiguous; from their place ``first`` on they hold one row of ``width`` candidates per expert,
    where ``width`` is a multiple of STRIP. An expert is kept when fewer than k others come before it.
    """
    for column in range(first, first + width, STRIP):
        for m in range(n_experts):
            own = load_strip(scores, column + m * width)
            n_before = fill(0.0), fill(0.0), fill(0.0), fill(0.0)
            for j in range(m):  # of smaller index: comes before unless the own score is larger
                n_before = _add_where(n_before, own, load_strip(scores, column + j * width), 0.0, 1.0)
            for j in range(m + 1, n_experts):
                n_before = _add_where(n_before, load_strip(scores, column + j * width), own, 1.0, 0.0)
            store_strip(kept, column + m * width, _keep_where(float(k), n_before, own))


@leaf
def _add_where(count: Strip, x: Strip, y: Strip, yes: float, no: float) -> Strip:
    """count + yes where x > y, count + no elsewhere."""
    return (
        count[0] + choose(x[0], y[0], fill(yes), no),
        count[1] + choose(x[1], y[1], fill(yes), no),
        count[2] + choose(x[2], y[2], fill(yes), no),
        count[3] + choose(x[3], y[3], fill(yes), no),
    )


@leaf
def _keep_where(k: float, count: Strip, x: Strip) -> Strip:
    """x where count < k, -inf elsewhere."""
    return (
        choose(fill(k), count[0], x[0], -np.inf),
        choose(fill(k), count[1], x[1], -np.inf),
        choose(fill(k), count[2], x[2], -np.inf),
        choose(fill(k), count[3], x[3], -np.inf),
    )
