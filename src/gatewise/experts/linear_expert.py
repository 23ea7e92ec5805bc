"""Experts that are linear in their coefficients: an average of them is again such an expert."""

import copy
from typing import Any

import numpy as np

from gatewise.arrays import Floats
from gatewise.experts.pool import expert_predictions


def linear_coefficients(expert: Any) -> Floats | None:
    """The coefficients of an expert with ``coef_`` and ``intercept_``, in one vector; None for any other expert.

    >>> from sklearn.linear_model import LinearRegression
    >>> linear_coefficients(LinearRegression().fit([[0.0], [1.0]], [1.0, 3.0])).round(6)
    array([2., 1.])
    """
    if not (hasattr(expert, "coef_") and hasattr(expert, "intercept_")):
        return None
    try:
        return np.append(np.ravel(expert.coef_), np.ravel(expert.intercept_)).astype(np.float64)
    except (TypeError, ValueError):
        return None


def with_coefficients(expert: Any, coefficients: Floats) -> Any:
    """A copy of an expert with other coefficients, in the order of `linear_coefficients`."""
    changed = copy.deepcopy(expert)
    size = np.size(expert.coef_)
    changed.coef_ = coefficients[:size].reshape(np.shape(expert.coef_))
    changed.intercept_ = coefficients[size:].reshape(np.shape(expert.intercept_))
    return changed


def linear_basis(expert: Any, X: Any) -> list[Any] | None:
    """One expert for every coefficient, with that one 1 and the others 0; None if they do not add up to the expert.

    f(x) = sum_j c_j b_j(x) is checked at the rows of X, to nine digits.
    """
    coefficients = linear_coefficients(expert)
    if coefficients is None or not np.isfinite(coefficients).all():
        return None
    try:
        basis = [with_coefficients(expert, unit) for unit in np.eye(len(coefficients))]
        columns = np.stack([expert_predictions(one, X) for one in basis], axis=1)
    except (AttributeError, ValueError, TypeError):
        return None
    own = expert_predictions(expert, X)
    size = np.abs(columns) @ np.abs(coefficients)
    return basis if bool((np.abs(columns @ coefficients - own) <= 1e-9 * size).all()) else None
