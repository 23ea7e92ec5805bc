"""The rows of a table with forecasts and weights of a model; none comes from a fit that has seen its row."""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gatewise.app.models.model_file import SavedModel
from gatewise.app.models.tables import as_inputs, responses, row_keys
from gatewise.arrays import Floats

LEAST_ROWS = 20
MOST_ROWS = 20_000


class RoutedRows(Protocol):
    """What a map draws of rows: their columns, responses (n,), gate weights (n, M), and the names of the experts."""

    @property
    def X(self) -> Any:  # noqa: N802 - as everywhere
        """A data frame."""
        ...

    @property
    def y(self) -> NDArray[Any]:
        """(n,)."""
        ...

    @property
    def weights(self) -> Floats:
        """(n, M)."""
        ...

    @property
    def names(self) -> tuple[str, ...]:
        """Of the experts."""
        ...


@dataclass(frozen=True, eq=False)
class ScoredRows:
    """Rows with their responses y, the experts' forecasts F, the gate's weights, and forecasts of model and stack.

    A row that the model was fitted to (``seen``) has the out-of-fold values of that fit. Any other row is new to the
    model and has the values of the fitted model. ``place`` (n,) is the row's number in the file, from 0; ``n_file``
    is the number of rows with a response in the file. Of more than 20,000 such rows a random 20,000 are kept.
    """

    X: Any
    y: Floats  # (n,)
    F: Floats  # (n, M)
    weights: Floats  # (n, M)
    forecast: Floats  # (n,)
    stack: Floats  # (n,)
    seen: NDArray[np.bool_]  # (n,)
    place: NDArray[np.intp]
    n_file: int
    names: tuple[str, ...]

    @property
    def losses(self) -> Floats:
        """The squared error of every expert, (n, M)."""
        return np.asarray((self.y[:, None] - self.F) ** 2)


def score_rows(saved: SavedModel, frame: Any, most: int = MOST_ROWS) -> ScoredRows:
    """The scored rows of a data frame that has the target's column; rows without a response are left out."""
    y = responses(frame, saved.target)
    known = np.flatnonzero(np.isfinite(y))
    if len(known) < LEAST_ROWS:
        raise ValueError(f"a page needs {LEAST_ROWS} rows with a value of {saved.target!r}, not {len(known)}")
    place = known
    if len(known) > most:
        place = np.sort(np.random.default_rng(0).choice(known, most, replace=False))
    X, y = as_inputs(frame.iloc[place], saved.columns), y[place]
    model, held = saved.model, saved.model.out_of_fold_
    entry = np.empty(len(saved.rows), dtype=np.intp)
    entry[held.rows] = np.arange(len(held.rows))
    match = match_rows(saved.rows, row_keys(X, y))
    seen = match >= 0
    parts = (held.F, held.weights, held.forecasts, held.stack)
    F, weights, forecast, stack = (np.empty((len(y), *part.shape[1:])) for part in parts)
    for whole, part in zip((F, weights, forecast, stack), parts, strict=True):
        whole[seen] = part[entry[match[seen]]]
    if not seen.all():
        new = X.loc[~seen].reset_index(drop=True)
        F[~seen], weights[~seen], forecast[~seen] = model.transform(new), model.gate_weights(new), model.predict(new)
        stack[~seen] = F[~seen] @ model.stack_weights_
    names = tuple(str(name) for name in model.get_feature_names_out())
    return ScoredRows(X, y, F, weights, forecast, stack, seen, place, len(known), names)


def match_rows(known: NDArray[np.uint64], keys: NDArray[np.uint64]) -> NDArray[np.intp]:
    """For every key its position among ``known``, or -1. Repeated keys are matched to repeated known ones in turn.

    >>> match_rows(np.array([5, 7, 5], dtype=np.uint64), np.array([7, 5, 5, 5, 1], dtype=np.uint64))
    array([ 1,  0,  2,  0, -1])
    """
    places: dict[int, list[int]] = defaultdict(list)
    for place, key in enumerate(known.tolist()):
        places[key].append(place)
    count: dict[int, int] = defaultdict(int)
    found = np.full(len(keys), -1, dtype=np.intp)
    for number, key in enumerate(keys.tolist()):
        if key in places:
            found[number] = places[key][count[key] % len(places[key])]
            count[key] += 1
    return found
