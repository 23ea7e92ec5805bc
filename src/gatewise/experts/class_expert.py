"""A classifier as an expert: whatever it answers with, a probability for each of the given classes."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _check_method_params

from gatewise.arrays import Floats, Indices

FOLDS = 5  # of the cross-fitted sigmoid and of the confusion matrix
MANY_ROWS, FEW_FOLDS = 5_000, 2  # from so many rows on two folds tell a sigmoid or a confusion matrix well enough
SMOOTHING = 1.0  # rows' worth of class frequencies that are added to every line of a confusion matrix
OFF = 1e-3  # probabilities may miss the sum one by this much, and are then divided by their sum
NEGATIVE = -1e-9


class ClassExpert(BaseEstimator):  # type: ignore[misc]
    """Probabilities (n, C) of the given classes from a classifier.

    A classifier with ``predict_proba`` is asked for that; a class that it never saw gets 0. One with
    ``decision_function`` only is calibrated by a sigmoid that is fitted to decisions on held-out rows
    (scikit-learn's `CalibratedClassifierCV`); a pool of experts takes those that its folds hold out anyway
    (`CalibratedClassifiers`). One with labels only, or whose training rows have a class with a single row, gets the
    line of a confusion matrix,

        p(c | label k) = (N_kc + SMOOTHING q_c) / (N_k + SMOOTHING),

    where N_kc counts held-out rows of class c that were given the label k and q are the class frequencies: Dirichlet
    smoothing. Where all training rows are of one class, that class gets probability 1 without a fit.

    Parameters
    ----------
    classifier : classifier
        It is fitted to labels, not to their numbers.
    classes : array (C,)
        All labels, in ascending order.
    seed : int
        Draws the folds of the calibration.

    >>> from sklearn.linear_model import LogisticRegression
    >>> rows, labels = np.array([[-1.0], [1.0], [-2.0], [2.0]]), np.array([0.0, 1.0, 0.0, 1.0])
    >>> expert = ClassExpert(LogisticRegression(), np.array(["a", "b", "c"])).fit(rows, labels)
    >>> expert.predict(np.array([[0.0]])).round(2)
    array([[0.5, 0.5, 0. ]])
    """

    model_: Any

    def __init__(self, classifier: Any, classes: NDArray[Any], seed: int = 0) -> None:
        self.classifier = classifier
        self.classes = classes
        self.seed = seed

    def fit(self, X: Any, y: Any, **params: Any) -> Self:
        """Fit to rows X and the numbers y (n,) of their classes; ``params`` go to the classifier's ``fit``."""
        codes = np.asarray(y).astype(np.intp)
        labels, present = self.classes[codes], np.unique(codes, return_counts=True)
        self.confusion_ = None
        if len(present[0]) == 1:
            from sklearn.dummy import DummyClassifier  # noqa: PLC0415 - rare

            self.model_ = DummyClassifier(strategy="prior").fit(np.zeros((len(codes), 1)), labels)
            return self
        if hasattr(self.classifier, "predict_proba"):
            self.model_ = clone(self.classifier).fit(X, labels, **params)
        elif self.decides and present[1].min() > 1:
            self.model_ = self._sigmoid(len(codes), int(present[1].min())).fit(X, labels, **params)
        else:
            self.model_ = clone(self.classifier).fit(X, labels, **params)
            self.confusion_ = self._confusion(X, codes, params)
        return self

    def predict(self, X: Any) -> Floats:
        """The probability of every class, (n, C)."""
        if self.confusion_ is not None:
            return np.asarray(self.confusion_[self._codes(self.model_.predict(X))])
        ask: Any = getattr(self.model_, "predict_proba", self.model_)
        return self._aligned(ask(X))

    @classmethod
    def of_fitted(cls, model: Any, classes: NDArray[Any]) -> Self:
        """An expert that was fitted before and has ``predict_proba``, or a function X -> (n, C)."""
        if not hasattr(model, "predict_proba") and (hasattr(model, "predict") or not callable(model)):
            raise TypeError(
                f"a fitted classifier needs predict_proba, and {type(model).__name__} has none: calibrate "
                "it first with sklearn.calibration.CalibratedClassifierCV(sklearn.frozen.FrozenEstimator(model))"
            )
        expert = cls(model, classes)
        expert.model_, expert.confusion_ = model, None
        return expert

    @property
    def decides(self) -> bool:
        """Whether the classifier gives decisions and no probabilities."""
        return not hasattr(self.classifier, "predict_proba") and hasattr(self.classifier, "decision_function")

    @property
    def fitted(self) -> Any:
        """The fitted classifier."""
        return self.model_

    def _sigmoid(self, n: int, least: int) -> Any:
        from sklearn.calibration import CalibratedClassifierCV  # noqa: PLC0415 - slow to import
        from sklearn.model_selection import StratifiedKFold  # noqa: PLC0415

        folds = StratifiedKFold(min(_folds(n), least), shuffle=True, random_state=self.seed)
        return CalibratedClassifierCV(clone(self.classifier), method="sigmoid", cv=folds, ensemble=False)

    def _confusion(self, X: Any, codes: Indices, params: dict[str, Any]) -> Floats:
        """The smoothed confusion matrix (C, C) from labels of held-out rows, a line for each label that is given."""
        n, C = len(codes), len(self.classes)
        counts = np.zeros((C, C))
        fold = np.random.default_rng(self.seed).permutation(n) % min(_folds(n), n)
        for number in range(fold.max() + 1):
            known, out = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
            if len(np.unique(codes[known])) > 1:
                given = _check_method_params(X, params, indices=known)
                model = clone(self.classifier).fit(_safe_indexing(X, known), self.classes[codes[known]], **given)
                np.add.at(counts, (self._codes(model.predict(_safe_indexing(X, out))), codes[out]), 1.0)
        frequencies = (np.bincount(codes, minlength=C) + 0.5) / (n + 0.5 * C)
        return np.asarray((counts + SMOOTHING * frequencies) / (counts.sum(axis=1, keepdims=True) + SMOOTHING))

    def _codes(self, labels: Any) -> Indices:
        """The numbers of labels (n,); an error for one that is not a class."""
        labels = np.asarray(labels)
        found = np.minimum(np.searchsorted(self.classes, labels), len(self.classes) - 1)
        strange = np.flatnonzero(self.classes[found] != labels)
        if len(strange):
            raise ValueError(f"predict gave the label {labels[strange[0]]!r}, which is not among the classes")
        return np.asarray(found)

    def _aligned(self, given: Any) -> Floats:
        """Probabilities of the model's own classes as probabilities (n, C) of all classes, checked."""
        columns = (
            self._codes(self.model_.classes_) if hasattr(self.model_, "classes_") else np.arange(len(self.classes))
        )
        p = np.asarray(given, dtype=np.float64)
        if p.ndim != 2 or p.shape[1] != len(columns):
            raise ValueError(f"predict_proba must return a column for each of {len(columns)} classes, not {p.shape}")
        if not np.isfinite(p).all():
            raise ValueError(
                f"predict_proba must return finite numbers, but row {_first(~np.isfinite(p))} has others"
            )
        total = p.sum(axis=1)
        if (p < NEGATIVE).any() or (np.abs(total - 1.0) > OFF).any():
            row = _first((p < NEGATIVE) | (np.abs(total - 1.0) > OFF)[:, None])
            raise ValueError(
                f"predict_proba must return probabilities with sum one, but row {row} is {p[row]} with sum "
                f"{total[row]:g}"
            )
        out = np.zeros((len(p), len(self.classes)))
        out[:, columns] = np.maximum(p, 0.0) / total[:, None]
        return out


def _folds(n: int) -> int:
    """The number of folds for a calibration on n rows."""
    return FOLDS if n < MANY_ROWS else FEW_FOLDS


def _first(where: NDArray[np.bool_]) -> int:
    """The first row of (n, C) that has an entry."""
    return int(where.any(axis=1).argmax())
