"""What every diagnostic takes, checked: losses (n, M), labels (n,), weights (n, M), mass (n,)."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gatewise.arrays import as_rows, as_vector, Booleans, Floats, Indices

MOST_LABELS = 1_000_000


def as_losses(losses: Any, name: str = "losses") -> Floats:
    """losses as a finite array (n, M) with at least two experts."""
    array = as_rows(losses, name)
    if array.shape[0] == 0 or array.shape[1] < 2:
        raise ValueError(f"{name} must have shape (n, M) with n >= 1 and M >= 2 experts, not {array.shape}")
    return array


def as_labels(labels: Any, name: str, n: int, n_labels: int | None = None) -> Indices:
    """labels as whole numbers (n,) from 0 to n_labels - 1."""
    array = np.asarray(labels)
    if array.shape != (n,) or array.dtype.kind not in "iu":
        raise ValueError(
            f"{name} must hold one whole number a row, shape ({n},), not shape {array.shape} of {array.dtype}"
        )
    if array.size and (array.min() < 0 or (n_labels is not None and array.max() >= n_labels)):
        wanted = "0 or above" if n_labels is None else f"from 0 to {n_labels - 1}"
        raise ValueError(f"{name} must be {wanted}, but runs from {array.min()} to {array.max()}")
    if array.size and array.max() >= MOST_LABELS:
        raise ValueError(f"{name} must be below {MOST_LABELS:,}, but reach {array.max()}; number them from 0")
    return array.astype(np.intp)


def as_weights(assignments: Any, name: str, n: int, n_experts: int) -> Floats:
    """Indices (n,) or weights (n, M) as weights (n, M); a label is a weight of one.

    >>> as_weights([1, 0], "assignments", 2, 3)
    array([[0., 1., 0.],
           [1., 0., 0.]])
    """
    if np.ndim(assignments) == 1:
        weights = np.zeros((n, n_experts))
        weights[np.arange(n), as_labels(assignments, name, n, n_experts)] = 1.0
        return weights
    weights = as_rows(assignments, name)
    if weights.shape != (n, n_experts):
        raise ValueError(f"{name} must have shape ({n},) or ({n}, {n_experts}), not {weights.shape}")
    if (weights < 0).any() or (np.abs(weights.sum(axis=1) - 1.0) > 1e-6).any():
        raise ValueError(f"{name} must lie on the simplex: not negative, each row with sum 1")
    return weights


def as_chosen(assignments: Any, name: str, n: int, n_experts: int) -> Booleans:
    """Who is chosen where, (n, M): a mask as it is, labels as one expert a row, weights as the largest of a row.

    Ties go to the smaller index.

    >>> as_chosen([[0.2, 0.4, 0.4]], "assignments", 1, 3)
    array([[False,  True, False]])
    """
    array = np.asarray(assignments)
    if array.dtype == np.bool_ and array.shape == (n, n_experts):
        return array
    weights = as_weights(assignments, name, n, n_experts)
    chosen = np.zeros((n, n_experts), dtype=np.bool_)
    chosen[np.arange(n), weights.argmax(axis=1)] = True
    return chosen


def as_mass(mass: ArrayLike | None, n: int) -> Floats:
    """The probability of every row, (n,): equal unless given, else not negative and scaled to sum one."""
    if mass is None:
        return np.full(n, 1.0 / n)
    array = as_vector(mass, "mass", n)
    if (array < 0).any() or array.sum() <= 0:
        raise ValueError("mass must not be negative and must have a positive sum")
    return np.asarray(array / array.sum())
