"""The tile: 64 neighbouring candidates that every hot loop takes together, at one observation after another.

A tile is always full, so the length of every inner loop is a constant and the loop vectorises without a remainder.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
TILE = 64
SPAN = (
    16  # observations per call: what a call costs is shared by TILE x SPAN residuals, which fit the first-level cache
)
