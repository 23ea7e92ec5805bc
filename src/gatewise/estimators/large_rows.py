"""Rows that need not fit into memory: dask arrays and data frames, and a seeded sample of too many rows."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from gatewise.arrays import Indices
from gatewise.backends import by_blocks, gather

NUMBERS = 2**27  # inputs and forecasts of the rows that a gate is learned from, at most: 1 GiB
STRETCH = 2**16  # rows that are drawn together; the draw depends on the number of a row alone


@dataclass(frozen=True)
class RowDraw:
    """Each of n rows is kept with the probability ``fraction``, whatever blocks they come in."""

    fraction: float
    seed: int

    def __call__(self, start: int, stop: int) -> Indices:
        """The places, counted from start, of those of the rows start to stop that are kept.

        >>> draw = RowDraw(0.5, seed=0)
        >>> whole = draw(0, 100)
        >>> bool((np.concatenate([draw(0, 30), 30 + draw(30, 100)]) == whole).all())
        True
        """
        if self.fraction >= 1.0:
            return np.arange(stop - start)
        first, last = start // STRETCH, -(-stop // STRETCH)
        draws = [np.random.default_rng([self.seed, k]).random(STRETCH) for k in range(first, last)]
        kept = np.concatenate(draws)[start - first * STRETCH : stop - first * STRETCH] < self.fraction
        return np.flatnonzero(kept)


def rows_in_memory(X: Any, y: Any, sample_weight: Any, n_experts: int, random_state: Any) -> tuple[Any, Any, Any]:
    """X, y and sample weights as arrays or data frames in memory, for experts that are fitted already.

    Of so many rows that inputs and forecasts are more than NUMBERS numbers a random part is taken, by the seed
    ``random_state`` where that is a number. It is the same for a dask collection and for the same rows in memory.
    """

    def draw(n: int, d: int) -> RowDraw:
        seed = int(random_state) if isinstance(random_state, int | np.integer) else 0
        return RowDraw(min(1.0, NUMBERS / (d + n_experts) / max(1, n)), seed)

    if hasattr(X, "__dask_graph__"):
        rows, response, weight = gather(X, {"y": y, "sample_weight": sample_weight}, draw)
        return rows, response, weight
    shape = np.shape(X)
    if len(shape) != 2 or shape[0] * (shape[1] + n_experts) <= NUMBERS:
        return X, y, sample_weight
    kept = draw(*shape)(0, shape[0])
    weight = None if sample_weight is None else np.asarray(sample_weight)[kept]
    return X.iloc[kept] if hasattr(X, "iloc") else np.asarray(X)[kept], np.asarray(y)[kept], weight


def lazy_answers(model: Any, method: str, X: Any, columns: int = 0, kind: Any = float, **options: Any) -> Any:
    """The answers of a fitted model to a dask collection, as a dask array with its blocks, not yet computed."""
    return by_blocks(model, method, X, columns, kind, options)
