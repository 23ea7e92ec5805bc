"""Block coordinate descent for the group lasso on a small Gram matrix."""

import numpy as np
from numpy.typing import NDArray

from gatewise.arrays import Floats
from gatewise.kernels.compiled import compiled


@compiled
def group_lasso(
    gram: Floats, target: Floats, ends: NDArray[np.intp], penalties: Floats, start: Floats, tolerance: float
) -> Floats:
    """min t'G t / 2 - t'c + sum_g penalty_g ||t_g|| for blocks ends[g]..ends[g+1] with G_gg = I; from ``start``.

    Each block in turn is set to its own minimum, a soft threshold of the pull of the others, until no entry moves by
    more than ``tolerance`` of the largest.
    """
    t, pull = start.copy(), np.empty(len(start))
    for _ in range(10_000):
        moved, largest = 0.0, 0.0
        for g in range(len(penalties)):
            length = 0.0
            for i in range(ends[g], ends[g + 1]):
                pull[i] = target[i] + t[i]
                for k in range(len(t)):
                    pull[i] -= gram[i, k] * t[k]
                length += pull[i] ** 2
            length = np.sqrt(length)
            shrink = 1.0 - penalties[g] / length if length > penalties[g] else 0.0
            for i in range(ends[g], ends[g + 1]):
                moved = max(moved, abs(shrink * pull[i] - t[i]))
                t[i] = shrink * pull[i]
                largest = max(largest, abs(t[i]))
        if moved <= tolerance * largest:
            break
    return t
