"""Labels of classes as estimators take them: of any type that can be sorted, and none of them missing."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import column_or_1d

from gatewise.arrays import Floats, refuse_lossy
from gatewise.estimators.validation import checked_rows, checked_weight


def checked_labels(model: Any, X: Any, y: Any, sample_weight: Any, reset: bool) -> tuple[Any, NDArray[Any], Floats]:
    """X as the experts will get it, labels (n,) as `plain_labels` has them, and sample weights (n,)."""
    from sklearn.utils.multiclass import check_classification_targets  # noqa: PLC0415 - slow to import

    if y is None:
        raise ValueError(f"{type(model).__name__} requires y to be passed, but the target y is None")
    X = checked_rows(model, X, reset, least=2 if reset else 1)
    labels = np.asarray(y)
    if labels.dtype.kind == "c" or np.ma.is_masked(y):
        refuse_lossy(y, "y")
    if labels.ndim == 2 and labels.shape[1] > 1:
        raise ValueError(f"y must have one column of labels, not {labels.shape[1]}")
    labels = column_or_1d(labels, warn=True)
    if labels.dtype.kind in "OM":  # a missing label is no class
        _check_missing(labels)
    labels = plain_labels(labels)
    if labels.dtype.kind in "OS":
        _refuse_objects(labels)
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise ValueError("Input y contains NaN or infinity")
    try:
        check_classification_targets(labels)
    except ValueError as error:
        raise ValueError(f"{error} {type(model).__name__} is for classes, and MoERegressor for numbers.") from None
    return X, labels, checked_weight(X, labels, sample_weight, reset)


def plain_labels(y: Any) -> NDArray[Any]:
    """The labels as an array; objects that are all numbers, or all true or false, become an array of that type.

    >>> plain_labels(np.array([3, 1], dtype=object)).dtype.kind, plain_labels(["b", "a"]).dtype.kind
    ('i', 'U')
    """
    labels = np.asarray(y)
    if labels.dtype.kind == "O":
        truths = [isinstance(label, bool | np.bool_) for label in labels.ravel()]
        numbers = [isinstance(label, int | float | np.integer | np.floating) for label in labels.ravel()]
        if all(truths) or (all(numbers) and not any(truths)):
            return np.array(labels.tolist())
    return labels


def _check_missing(labels: NDArray[Any]) -> None:
    """An error for labels (n,) one of which is missing."""
    missing = [
        place
        for place, label in enumerate(labels)
        if label is None or type(label).__name__ == "NAType" or label != label  # noqa: PLR0124 - NaN and NaT
    ]
    if missing:
        raise ValueError(f"y must not have missing labels, but row {missing[0]} is {labels[missing[0]]}")


def _refuse_objects(labels: NDArray[Any]) -> None:
    """An error for labels (n,) that are not all text."""
    if all(isinstance(label, str) for label in labels):
        return
    kinds = sorted({type(label).__name__ for label in labels.tolist()})
    if len(kinds) > 1:
        some = ", ".join(kinds)
        raise ValueError(f"y must have labels of one kind, not some of each of {some}: make them all text")
    raise ValueError(f"y must have labels that are text, numbers, or true and false, not {kinds[0]}: make them text")
