"""Predictions of a saved model as a table."""

from typing import Any

import pandas as pd

from gatewise.app.models.model_file import SavedModel
from gatewise.app.models.tables import as_inputs, check_columns


def predict_frame(
    saved: SavedModel,
    frame: Any,
    weights: bool = False,
    std: bool = False,
    explain: bool = False,
    key: str | None = None,
) -> Any:
    """A data frame with one row for each row of ``frame``.

    It has the column ``key`` of the frame, which is that of the fit if not given, and the prediction, with ``std``
    the standard deviation of its error, with ``weights`` every expert's weight, and with ``explain`` the parts
    that the prediction is the sum of.
    """
    if len(frame) == 0:
        raise ValueError("there are no rows to predict")
    if key is not None:
        check_columns(frame, [key], "key")
    elif saved.key in frame.columns:
        key = saved.key
    X = as_inputs(frame, saved.columns)
    if std:
        mean, spread = saved.model.predict(X, return_std=True)
        answer = {"prediction": mean, "std": spread}
    else:
        answer = {"prediction": saved.model.predict(X)}
    if weights:
        names = saved.model.get_feature_names_out()
        shares = saved.model.gate_weights(X)
        answer.update((f"weight {name}", shares[:, m]) for m, name in enumerate(names))
    if explain:
        answer.update((f"part {name}", values) for name, values in saved.model.explain(X).items())
    if key is None:
        return pd.DataFrame(answer)
    if key in answer:
        raise ValueError(f"key: a column of the predictions is called {key!r}, too; rename it in the file")
    return pd.DataFrame({key: frame[key].to_numpy(), **answer})
