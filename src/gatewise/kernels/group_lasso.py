"""Block coordinate descent for the group lasso on a small Gram matrix."""

import numpy as np
from numpy.typing import NDArray

from gatewise.arrays import Floats
from gatewise.kernels.compiled import compiled


@compiled
def group_lasso(
    gram: Floats, target: Floats, ends: NDArray[np.intp], penalties: Floats, start: Floats, tolerance: float
) -> Floats:
    """argmin over t of t'G t / 2 - t'c + sum_g penalty_g ||t_g||, where G is the Gram matrix and c the target.

    Group g consists of the entries ends[g] to ends[g + 1], and its diagonal block of G must be the identity. From
    ``start``, each group in turn is set to its own minimum given the others, the soft threshold of
    c_g - sum_{h != g} G_gh t_h, until no entry changes by more than ``tolerance`` times the largest entry.
    """
    t, partial = start.copy(), np.empty(len(start))
    for _ in range(10_000):
        change, largest = 0.0, 0.0
        for g in range(len(penalties)):
            length = 0.0
            for i in range(ends[g], ends[g + 1]):
                partial[i] = target[i] + t[i]
                for k in range(len(t)):
                    partial[i] -= gram[i, k] * t[k]
                length += partial[i] ** 2
            length = np.sqrt(length)
            shrink = 1.0 - penalties[g] / length if length > penalties[g] else 0.0
            for i in range(ends[g], ends[g + 1]):
                change = max(change, abs(shrink * partial[i] - t[i]))
                t[i] = shrink * partial[i]
                largest = max(largest, abs(t[i]))
        if change <= tolerance * largest:
            break
    return t
