"""Rows that need not fit into memory: dask arrays and data frames, and a seeded sample of too many rows."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from gatewise.arrays import Indices, MOST_NUMBERS, MOST_ROWS, RowDraw
from gatewise.backends import by_blocks, gather


def rows_in_memory(
    X: Any, others: Mapping[str, Any], n_experts: int, random_state: Any
) -> tuple[Any, list[Any], Indices | None]:
    """Rows for experts that are fitted already, in memory: X, the ``others`` at the same rows, numbers of the rows.

    The others, by name, are what ``fit`` takes beside X, or None. Of more than MOST_ROWS rows, or of so many that
    inputs or forecasts would be more than MOST_NUMBERS numbers, a random part is taken, by the seed ``random_state``
    where that is a number, and by 0 elsewhere. It is the same for a dask collection and for the same rows in memory.
    There are no numbers where nothing was left out.
    """
    drawn: list[Indices] = []

    def draw(n: int, d: int) -> RowDraw:
        seed = int(random_state) if isinstance(random_state, int | np.integer) else 0
        chosen = RowDraw(min(1.0, MOST_ROWS / max(1, n), MOST_NUMBERS / max(1, n * max(d, n_experts))), seed)
        if chosen.fraction < 1.0:
            drawn.append(chosen(0, n))
        return chosen

    if hasattr(X, "__dask_graph__"):
        rows, *rest = gather(X, others, draw)
        return rows, rest, drawn[0] if drawn else None
    shape = np.shape(X)
    if len(shape) != 2 or draw(*shape).fraction == 1.0:
        return X, list(others.values()), None
    for name, values in others.items():
        if values is not None and np.shape(values)[:1] != shape[:1]:
            raise ValueError(f"{name} must have {shape[0]} rows, as X has, not {len(values)}")
    rest = [None if values is None else np.asarray(values)[drawn[0]] for values in others.values()]
    return X.iloc[drawn[0]] if hasattr(X, "iloc") else np.asarray(X)[drawn[0]], rest, drawn[0]


def lazy_answers(model: Any, method: str, X: Any, columns: int = 0, kind: Any = float, **options: Any) -> Any:
    """The answers of a fitted model to a dask collection, as a dask array with its blocks, not yet computed."""
    return by_blocks(model, method, X, columns, kind, options)
