"""What a fitted model says of rows that were held out while it was fitted."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gatewise.arrays import Floats


@dataclass(frozen=True, eq=False)
class OutOfFold:
    """One entry for each time that a row was held out, N in all.

    ``rows`` (N,) are the rows of the fit and ``y`` (N,) their responses; ``F`` (N, M) the experts' forecasts,
    ``weights`` (N, M) the gate's weights, ``forecasts`` and ``stack`` (N,) those of the aggregate and of the convex
    stack. Nothing of an entry was fitted on its row.
    """

    rows: NDArray[np.intp]
    y: Floats
    F: Floats
    weights: Floats
    forecasts: Floats
    stack: Floats
