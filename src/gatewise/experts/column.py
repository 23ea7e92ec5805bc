"""A column of the table that already is a forecast."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import _safe_indexing

from gatewise.arrays import as_floats


class ColumnExpert(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Predicts the value of one column of X, a forecast that was made elsewhere.

    The column is given by its name in a data frame or by its number. Where it is missing, so is the forecast:
    `MoERegressor` then takes the other experts' median for that row.

    >>> ColumnExpert(1).fit([[0.0, 5.0]], [4.0]).predict([[0.0, 7.0]])
    array([7.])
    """

    may_miss = True

    def __init__(self, column: str | int) -> None:
        self.column = column

    def fit(self, X: Any, y: Any) -> Self:  # noqa: ARG002 - there is nothing to learn
        """Does nothing."""
        self.fitted_ = True
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        """The column, (n,)."""
        table = X if hasattr(X, "columns") else np.asarray(X)
        try:
            values = _safe_indexing(table, self.column, axis=1)
        except (KeyError, IndexError, ValueError) as error:
            names = ", ".join(repr(name) for name in list(getattr(X, "columns", ()))[:12])
            known = f"it has {names}" if names else f"it has {np.shape(table)[1]} columns without names"
            raise ValueError(f"column: X has no column {self.column!r}; {known}") from error
        return as_floats(values, f"column {self.column!r}")

    def __sklearn_tags__(self) -> Any:
        own = super().__sklearn_tags__()
        own.input_tags.allow_nan = True
        return own
