"""The rows of a table with their classes and what a model says of them; no fit behind it has seen its row."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gatewise.app.models.model_file import SavedModel
from gatewise.app.models.tables import as_inputs, label_texts, row_keys, unseen_classes
from gatewise.app.page.scored_rows import LEAST_ROWS, match_rows, MOST_ROWS
from gatewise.arrays import Floats, Indices


@dataclass(frozen=True, eq=False)
class ScoredClasses:
    """Rows with known classes and the probabilities of their classes.

    Rows of the fit (``seen``) have out-of-fold probabilities and weights, the others those of the fitted model.
    ``place`` has the numbers of the rows in the file, of which ``n_file`` have a known class;
    ``left_out`` says which rows have none.
    """

    X: Any
    y: Indices  # (n,), numbers of the classes
    experts: Floats  # (n, M, C)
    weights: Floats  # (n, M)
    probabilities: Floats  # (n, C)
    stack: Floats  # (n, C)
    seen: NDArray[np.bool_]  # (n,)
    place: NDArray[np.intp]
    n_file: int
    names: tuple[str, ...]
    classes: tuple[str, ...]
    left_out: tuple[str, ...] = ()

    @property
    def losses(self) -> Floats:
        """The log loss of every expert, (n, M)."""
        return np.asarray(-np.log(self.experts[np.arange(len(self.y)), :, self.y]))


def score_classes(saved: SavedModel, frame: Any, most: int = MOST_ROWS) -> ScoredClasses:
    """The scored rows of a data frame that has the target's column; rows of no class of the fit are left out."""
    model, held = saved.model, saved.model.out_of_fold_
    labels = label_texts(frame, saved.target)
    known = np.flatnonzero(np.isin(labels, model.classes_))
    if len(known) < LEAST_ROWS:
        raise ValueError(f"a page needs {LEAST_ROWS} rows with a class of {saved.target!r}, not {len(known)}")
    place = known
    if len(known) > most:
        place = np.sort(np.random.default_rng(0).choice(known, most, replace=False))
    X, y = as_inputs(frame.iloc[place], saved.columns), labels[place]
    entry = np.empty(len(saved.rows), dtype=np.intp)
    entry[held.rows] = np.arange(len(held.rows))
    match = match_rows(saved.rows, row_keys(X, y))
    seen = match >= 0
    parts = (held.experts, held.weights, held.probabilities, held.stack)
    experts, weights, probabilities, stack = (np.empty((len(y), *part.shape[1:])) for part in parts)
    for whole, part in zip((experts, weights, probabilities, stack), parts, strict=True):
        whole[seen] = part[entry[match[seen]]]
    if not seen.all():
        new = X.loc[~seen].reset_index(drop=True)
        experts[~seen], weights[~seen] = model.expert_probabilities(new), model.gate_weights(new)
        probabilities[~seen] = model.predict_proba(new)
        stack[~seen] = np.einsum("m,imc->ic", model.stack_weights_, experts[~seen])
    return ScoredClasses(
        X=X,
        y=np.searchsorted(model.classes_, y),
        experts=experts,
        weights=weights,
        probabilities=probabilities,
        stack=stack,
        seen=seen,
        place=place,
        n_file=len(known),
        names=tuple(str(name) for name in model.get_feature_names_out()),
        classes=tuple(str(label) for label in model.classes_),
        left_out=_left_out(labels, model.classes_, saved.target),
    )


def _left_out(labels: NDArray[Any], classes: NDArray[Any], target: str) -> tuple[str, ...]:
    """Notes on the rows that have no label, and on those whose label the fit has not seen."""
    missing = int((labels == "").sum())
    without = f"left out: {missing:,} row{'s' * (missing > 1)} without a value of {target!r}" if missing else ""
    return tuple(note for note in (without, unseen_classes(labels[labels != ""], classes)) if note)
