"""Columns of numbers for trees: missing values stay, but a column with hardly any value becomes one number."""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from gatewise.arrays import Floats

ONE_IN = 1000  # rows of a fit must have a value; of so many, early stopping of boosting never holds all of them back


class FilledColumns(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Sets columns to 0 that have a value in fewer than one of a thousand rows of the fit; leaves others as they are.

    Histogram boosting cannot bin a column without any value, and it sees none where the few rows with one are in
    another fold or held back for early stopping. What such a column holds later is not looked at.

    >>> FilledColumns().fit([[np.nan, 1.0], [np.nan, np.nan]]).transform([[5.0, np.nan]]).tolist()
    [[0.0, nan]]
    """

    filled_: Any  # (d,): whether a column has enough values

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002 - scikit-learn hands the response to every step
        """Count the values of every column of X (n, d)."""
        values = validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan")
        self.filled_ = ONE_IN * (~np.isnan(values)).sum(axis=0) >= len(values)
        return self

    def transform(self, X: Any) -> Floats:
        """The columns of X (n, d), with 0 in those that were not filled at the fit."""
        check_is_fitted(self)
        values = validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan", reset=False)
        return np.where(self.filled_, values, 0.0)
