"""Rows that need not fit into memory: dask arrays and data frames, and a seeded sample of too many rows."""

from typing import Any

import numpy as np

from gatewise.arrays import MOST_NUMBERS, MOST_ROWS, RowDraw
from gatewise.backends import by_blocks, gather


def rows_in_memory(X: Any, y: Any, sample_weight: Any, n_experts: int, random_state: Any) -> tuple[Any, Any, Any]:
    """X, y and sample weights as arrays or data frames in memory, for experts that are fitted already.

    Of more than MOST_ROWS rows, or of so many that inputs or forecasts would be more than MOST_NUMBERS numbers, a
    random part is taken, by the seed ``random_state`` where that is a number. It is the same for a dask collection
    and for the same rows in memory.
    """

    def draw(n: int, d: int) -> RowDraw:
        seed = int(random_state) if isinstance(random_state, int | np.integer) else 0
        return RowDraw(min(1.0, MOST_ROWS / max(1, n), MOST_NUMBERS / max(1, n * max(d, n_experts))), seed)

    if hasattr(X, "__dask_graph__"):
        rows, response, weight = gather(X, {"y": y, "sample_weight": sample_weight}, draw)
        return rows, response, weight
    shape = np.shape(X)
    if len(shape) != 2 or (drawn := draw(*shape)).fraction == 1.0:
        return X, y, sample_weight
    kept = drawn(0, shape[0])
    weight = None if sample_weight is None else np.asarray(sample_weight)[kept]
    return X.iloc[kept] if hasattr(X, "iloc") else np.asarray(X)[kept], np.asarray(y)[kept], weight


def lazy_answers(model: Any, method: str, X: Any, columns: int = 0, kind: Any = float, **options: Any) -> Any:
    """The answers of a fitted model to a dask collection, as a dask array with its blocks, not yet computed."""
    return by_blocks(model, method, X, columns, kind, options)
