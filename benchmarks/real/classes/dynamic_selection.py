"""The rivals of DESlib, which select among the experts by their answers near a row.

DESlib 0.3.7 calls ``_validate_data``, which scikit-learn has dropped; `with_shim` gives that method back.
`benchmarks.real.classes.old_deslib` writes what DESlib says beside its own old scikit-learn, and a test compares.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

# Types of our own, as this file is also read beside an old scikit-learn without the package.
Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
JITTER = 1e-12  # what equal rows are told apart by, in the first column
METHODS: Mapping[str, tuple[str, str]] = {  # by name: the module and the class
    "KNORA-U": ("deslib.des.knora_u", "KNORAU"),
    "KNORA-E": ("deslib.des.knora_e", "KNORAE"),
    "META-DES": ("deslib.des.meta_des", "METADES"),
    "DES-P": ("deslib.des.des_p", "DESP"),
}


class LookedUp(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A fitted classifier that knows the answers (n, C) to some rows (n, d), and to no others."""

    def __init__(self, rows: Floats, answers: Floats) -> None:
        self.rows = rows
        self.answers = answers
        self.classes_ = np.arange(answers.shape[1])
        self.places_ = {row.tobytes(): place for place, row in enumerate(rows)}

    def fit(self, X: Any, y: Any) -> "LookedUp":  # noqa: ARG002 - it was fitted before
        return self

    def predict_proba(self, X: Floats) -> Floats:
        """(n, C)."""
        rows = np.ascontiguousarray(X, dtype=np.float64)
        return np.asarray(self.answers[[self.places_[row.tobytes()] for row in rows]])

    def predict(self, X: Floats) -> Indices:
        """The most probable class, (n,)."""
        return np.asarray(self.predict_proba(X).argmax(axis=1))


def told_apart(rows: Floats) -> Floats:
    """Rows (n, d) of which no two are equal: a tiny multiple of its number is added to the first column of each."""
    out = np.ascontiguousarray(rows, dtype=np.float64).copy()
    out[:, 0] += JITTER * np.arange(len(out))
    return out


@cache
def with_shim(name: str) -> Any:
    """The class of a method, with what DESlib expects of scikit-learn."""
    from importlib import import_module  # noqa: PLC0415

    module, kind = METHODS[name]
    method: Any = getattr(import_module(module), kind)
    if hasattr(method, "_validate_data"):
        return method

    def _validate_data(self: Any, X: Any, y: Any, **checks: Any) -> Any:
        from sklearn.utils.validation import validate_data  # noqa: PLC0415 - not in an old scikit-learn

        return validate_data(self, X, y, **checks)

    return type(kind, (method,), {"_validate_data": _validate_data, "__init__": method.__init__})


def select_dynamically(
    name: str, rows: Floats, P: Floats, outcome: Indices, rows_test: Floats, Q: Floats, seed: int
) -> Floats:
    """Probabilities (n_test, C) by a method of DESlib.

    ``rows`` (n, d) and ``rows_test`` are inputs in comparable units, P (n, M, C) and Q (n_test, M, C) what the
    experts say of them. The method learns where each expert is right from the held-out answers P. Those that it
    selects vote with their probabilities.
    """
    both = told_apart(np.concatenate([rows, rows_test]))
    answers = np.concatenate([P, Q])
    pool = [LookedUp(both, answers[:, m]) for m in range(P.shape[1])]
    known = both[: len(rows)]
    k = min(7, len(known) - 1)
    model = with_shim(name)(pool, k=k, random_state=seed, voting="soft")
    return np.asarray(model.fit(known, outcome).predict_proba(both[len(rows) :]))
