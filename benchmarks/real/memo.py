"""Experts that remember: each is fitted once on the same rows, however many competitors ask for it."""

import hashlib
import os
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import sklearn
from sklearn.base import BaseEstimator, clone, RegressorMixin

from gatewise.arrays import Floats


def digest(*parts: Any) -> str:
    """One text for equal values: data frames by names and columns, arrays by kind, shape and content.

    How the rows lie in memory does not count, nor does a frame's index.

    >>> digest(np.ones((2, 3))) == digest(np.ones((3, 2)).T) != digest(np.ones((3, 2)))
    True
    """
    found = hashlib.blake2b(digest_size=16)
    for part in parts:
        if hasattr(part, "columns"):
            texts = [digest(name, part[name].to_numpy()) for name in part.columns]
        elif isinstance(part, np.ndarray):
            content = repr(part.tolist()) if part.dtype.hasobject else hashlib.blake2b(part.tobytes()).hexdigest()
            texts = [str(part.dtype), str(part.shape), content]
        else:
            texts = [str(joblib.hash(part))]
        found.update("\n".join(texts).encode())
    return found.hexdigest()


class Memo:
    """Predictions by what they depend on: versions of packages, the estimator, its training rows, the new rows.

    Fitted models live as long as the memo; predictions are kept in a file when there is a ``path``.
    """

    def __init__(self, path: Path | None = None, versions: tuple[str, ...] = (sklearn.__version__,)) -> None:
        self.path = path
        self.versions = versions
        self.models: dict[str, Any] = {}
        self.predictions: dict[str, Floats] = {}
        self.n_fits = 0
        self._saved = 0
        self._read()
        self._saved = len(self.predictions)

    def __deepcopy__(self, _memo: Any) -> "Memo":
        return self  # clones of an expert share what is known

    def __reduce__(self) -> Any:
        return Memo, (self.path, self.versions)

    def predict(self, estimator: Any, train: tuple[Any, ...], fit_key: str, X: Any) -> Floats:
        """Predictions at X of a clone of ``estimator`` fitted to ``train``, which is fitted only if need be."""
        key = digest(fit_key, X)
        if key not in self.predictions:
            if fit_key not in self.models:
                rows, y, parameters = train
                self.models[fit_key] = clone(estimator).fit(rows, y, **parameters)
                self.n_fits += 1
            self.predictions[key] = np.asarray(self.models[fit_key].predict(X), dtype=float)
        return self.predictions[key].copy()

    def save(self) -> None:
        """Write the predictions, whole or not at all, with those that another process has written meanwhile."""
        if self.path is None or len(self.predictions) == self._saved:
            return
        self._read()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial = self.path.with_suffix(f".{os.getpid()}.npz")
        np.savez(partial, **self.predictions)  # type: ignore[arg-type]
        partial.replace(self.path)
        self._saved = len(self.predictions)

    def _read(self) -> None:
        if self.path is not None and self.path.exists():
            with np.load(self.path) as kept:
                self.predictions = {key: kept[key] for key in kept.files} | self.predictions


class Memoized(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """An expert whose ``fit`` only notes its rows; ``predict`` looks in the memo before it does the work."""

    def __init__(self, estimator: Any, memo: Memo) -> None:
        self.estimator = estimator
        self.memo = memo

    def fit(self, X: Any, y: Any, **parameters: Any) -> "Memoized":
        """Note the rows."""
        self.train_ = (X, y, parameters)
        self.key_ = digest(self.memo.versions, self.estimator, X, np.asarray(y), parameters)
        self.n_features_in_ = X.shape[1]
        return self

    def predict(self, X: Any) -> Floats:
        """What the expert itself would predict, (n,)."""
        return self.memo.predict(self.estimator, self.train_, self.key_, X)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "key_")
