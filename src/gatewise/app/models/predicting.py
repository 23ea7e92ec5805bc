"""Predictions of a saved model as a table."""

from collections.abc import Iterator
from typing import Any

import pandas as pd

from gatewise.app.models.model_file import SavedModel
from gatewise.app.models.tables import as_inputs, check_columns
from gatewise.estimators import MoEClassifier


def predict_frame(
    saved: SavedModel,
    frame: Any,
    weights: bool = False,
    std: bool = False,
    explain: bool = False,
    key: str | None = None,
) -> Any:
    """A data frame with one row for each row of ``frame``.

    It has the column ``key`` of the frame, which is that of the fit if not given, and the prediction, of classes with
    the probability of each; with ``std`` the standard deviation of its error, with ``weights`` every expert's weight,
    and with ``explain`` the parts that the prediction is the sum of.
    """
    if len(frame) == 0:
        raise ValueError("there are no rows to predict")
    if key is not None:
        check_columns(frame, [key], "key")
    elif saved.key in frame.columns:
        key = saved.key
    X = as_inputs(frame, saved.columns)
    if isinstance(saved.model, MoEClassifier):
        if std:
            raise ValueError("std: probabilities have no standard deviation; leave out --std")
        answer = _class_answer(saved.model, X)
    elif std:
        mean, spread = saved.model.predict(X, return_std=True)
        answer = {"prediction": mean, "std": spread}
    else:
        answer = {"prediction": saved.model.predict(X)}
    if weights:
        names = saved.model.get_feature_names_out()
        shares = saved.model.gate_weights(X)
        answer.update((f"weight {name}", shares[:, m]) for m, name in enumerate(names))
    if explain:
        answer.update(_parts(saved.model, X))
    if key is None:
        return pd.DataFrame(answer)
    if key in answer:
        raise ValueError(f"key: a column of the predictions is called {key!r}, too; rename it in the file")
    return pd.DataFrame({key: frame[key].to_numpy(), **answer})


def _class_answer(model: MoEClassifier, X: Any) -> dict[str, Any]:
    """The label that the model decides for, and the probability of every class."""
    p = model.predict_proba(X)
    return {
        "prediction": model.predict(X),
        **{f"probability {label}": p[:, c] for c, label in enumerate(model.classes_)},
    }


def _parts(model: Any, X: Any) -> Iterator[tuple[str, Any]]:
    """The parts of the predictions, or of the probability of every class."""
    for name, values in model.explain(X).items():
        if values.ndim == 1:
            yield f"part {name}", values
        else:
            yield from ((f"part {name}, {label}", values[:, c]) for c, label in enumerate(model.classes_))
