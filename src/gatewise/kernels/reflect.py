"""Straight paths between mirrors."""

import numpy as np
from numpy.typing import NDArray

from gatewise.kernels.compiled import compiled

Floats = NDArray[np.float64]


@compiled
def reflect(position: Floats, direction: Floats, radius: float) -> None:
    """Fold every coordinate into [-radius, radius] as light between mirrors, and turn its direction with it.

    position, direction (any,), both overwritten. A coordinate that is no number stays so.
    """
    period = 4.0 * radius
    for i in range(position.size):
        x = position[i]
        if abs(x) > radius:
            along = x + radius
            along -= period * np.floor(along / period)
            if along > 2.0 * radius:
                along = period - along
                direction[i] = -direction[i]
            x = along - radius
            # Rounding may leave it a hair outside; a NaN passes both comparisons by.
            x = radius if x > radius else x
            position[i] = -radius if x < -radius else x
