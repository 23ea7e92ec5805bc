"""A classifier as an expert: whatever it answers with, a probability for each of the given classes."""

from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _check_method_params

from gatewise.arrays import Floats, Indices
from gatewise.experts.decisions import fit_sigmoid, SigmoidClassifier
from gatewise.experts.protocol import RowError
from gatewise.experts.uncalibrated import codes_of, fit_confusion, UncalibratedExpert

FOLDS = 5  # of the cross-fitted sigmoid and of the confusion matrix
MANY_ROWS, FEW_FOLDS = 5_000, 2  # from so many rows on two folds tell a sigmoid or a confusion matrix well enough
OFF = 1e-3  # probabilities may miss the sum one by this much, and are then divided by their sum
NEGATIVE = -1e-9


class ClassExpert(BaseEstimator):  # type: ignore[misc]
    """Probabilities (n, C) of the given classes from a classifier.

    A classifier with ``predict_proba`` is asked for that; a class that it never saw gets 0. One with
    ``decision_function`` only is calibrated by scikit-learn's sigmoid, one with labels only by a confusion matrix
    with Dirichlet smoothing (`fit_confusion`). Either is fitted to the answers at held-out rows. A pool of experts
    takes those rows that its folds hold out anyway (`CalibratedClassifiers`); an expert by itself is fitted to folds
    of its rows, drawn at random. A sigmoid needs held-out rows of every class, so a class with one row is left out
    and gets 0, as if it had never been seen; where one class alone has more rows, the labels are taken in place of
    the decisions. Where all training rows are of one class, that class gets probability 1 without a fit.

    Parameters
    ----------
    classifier : classifier
        It is fitted to labels, not to their numbers.
    classes : array (C,)
        All labels, in ascending order.
    seed : int
        Draws the folds of the calibration.
    in_time : bool
        Whether the rows are in the order of time: the calibration then holds out rows that are later than those that
        its experts are fitted to, if these have all classes.

    >>> from sklearn.linear_model import LogisticRegression
    >>> rows, labels = np.array([[-1.0], [1.0], [-2.0], [2.0]]), np.array([0.0, 1.0, 0.0, 1.0])
    >>> expert = ClassExpert(LogisticRegression(), np.array(["a", "b", "c"])).fit(rows, labels)
    >>> expert.predict(np.array([[0.0]])).round(2)
    array([[0.5, 0.5, 0. ]])
    """

    model_: Any
    confusion_: Floats | None

    def __init__(self, classifier: Any, classes: NDArray[Any], seed: int = 0, in_time: bool = False) -> None:
        self.classifier = classifier
        self.classes = classes
        self.seed = seed
        self.in_time = in_time

    def fit(self, X: Any, y: Any, calibration_weight: Any = None, **params: Any) -> Self:
        """Fit to rows X and the numbers y (n,) of their classes; ``params`` go to the classifier's ``fit``.

        Sigmoids and confusion matrices count a row by its ``calibration_weight``, else by the ``sample_weight`` among
        the params, and leave out rows of weight 0.
        """
        codes, weight = np.asarray(y).astype(np.intp), None
        if self.calibrated:
            weight = params.get("sample_weight") if calibration_weight is None else calibration_weight
            X, codes, weight, params = _positive(X, codes, weight, params)
        self.confusion_ = None
        if len(np.unique(codes)) == 1:
            from sklearn.dummy import DummyClassifier  # noqa: PLC0415 - rare

            self.model_ = DummyClassifier(strategy="prior").fit(np.zeros((len(codes), 1)), self.classes[codes])
        elif not self.calibrated:
            self.model_ = clone(self.classifier).fit(X, self.classes[codes], **params)
        else:
            self._fit_calibrated(X, codes, weight, params)
        return self

    def predict(self, X: Any) -> Floats:
        """The probability of every class, (n, C)."""
        if self.confusion_ is not None:
            return np.asarray(self.confusion_[codes_of(self.classes, self.model_.predict(X))])
        ask: Any = getattr(self.model_, "predict_proba", self.model_)
        return self._aligned(ask(X))

    def update(self, X: Any, labels: NDArray[Any]) -> None:
        """Update the fitted classifier, if it has ``partial_fit``, with the rows whose labels (n,) it knows.

        Sigmoid and confusion matrix stay as they are.
        """
        if not hasattr(self.model_, "partial_fit"):
            return
        known = np.flatnonzero(np.isin(labels, getattr(self.model_, "classes_", self.classes)))
        if len(known) == len(labels):
            self.model_.partial_fit(X, labels)
        elif len(known):
            self.model_.partial_fit(_safe_indexing(X, known), labels[known])

    @classmethod
    def of_fitted(cls, model: Any, classes: NDArray[Any], name: str = "") -> Self:
        """An expert that was fitted before and has ``predict_proba``, or a function X -> (n, C); errors name it."""
        if not hasattr(model, "predict_proba") and (hasattr(model, "predict") or not callable(model)):
            who = f"{name!r} ({type(model).__name__})" if name else type(model).__name__
            raise TypeError(
                f"a fitted classifier needs predict_proba, and {who} has none: calibrate it first with "
                "sklearn.calibration.CalibratedClassifierCV(sklearn.frozen.FrozenEstimator(model))"
            )
        expert = cls(model, classes)
        expert.model_, expert.confusion_ = model, None
        return expert

    @classmethod
    def of_sigmoid(cls, fitted: UncalibratedExpert, sigmoid: Any) -> Self:
        """An expert that answers with decisions, with a sigmoid of `fit_sigmoid` behind them."""
        return cls.of_fitted(SigmoidClassifier(fitted.model_, sigmoid), fitted.classes)

    @classmethod
    def of_confusion(cls, fitted: UncalibratedExpert, confusion: Floats) -> Self:
        """An expert that answers with labels, with a confusion matrix (C, C) of `fit_confusion` behind them."""
        expert = cls(fitted.classifier, fitted.classes)
        expert.model_, expert.confusion_ = fitted.model_, confusion
        return expert

    @property
    def calibrated(self) -> bool:
        """Whether the classifier has no probabilities of its own, so that a calibration makes them."""
        return not hasattr(self.classifier, "predict_proba")

    @property
    def decides(self) -> bool:
        """Whether the classifier gives decisions and no probabilities."""
        return self.calibrated and hasattr(self.classifier, "decision_function")

    @property
    def fitted(self) -> Any:
        """The fitted classifier."""
        return self.model_

    def _fit_calibrated(self, X: Any, codes: Indices, weight: Floats | None, params: dict[str, Any]) -> None:
        """Fit a classifier without probabilities, and calibrate it by its answers at rows of folds of its own."""
        numbers, counts = np.unique(codes, return_counts=True)
        decides = self.decides and int((counts > 1).sum()) > 1
        if decides and counts.min() == 1:
            rows = np.flatnonzero(np.isin(codes, numbers[counts > 1]))
            X, codes, weight, params = _part(X, codes, weight, params, rows)
        expert = UncalibratedExpert(self.classifier, self.classes, np.unique(codes), decides)
        answers, held = np.zeros((len(codes), len(self.classes))), np.zeros(len(codes), dtype=bool)
        for known, out in self._own_splits(codes, decides):
            given = _check_method_params(X, params, indices=known)
            one = clone(expert).fit(_safe_indexing(X, known), codes[known], **given)
            answers[out], held[out] = one.predict(_safe_indexing(X, out)), True
        expert.fit(X, codes, **params)
        answers, outcome, weight = answers[held], codes[held], None if weight is None else weight[held]
        if decides:
            sigmoid = fit_sigmoid(answers[:, expert.known_], self.classes[outcome], weight)
            self.model_ = SigmoidClassifier(expert.model_, sigmoid)
        else:
            self.model_, self.confusion_ = expert.model_, fit_confusion(answers, outcome, weight)

    def _own_splits(self, codes: Indices, decides: bool) -> list[tuple[Indices, Indices]]:
        """The (training, held-out) rows of the folds of the calibration; for decisions these have all classes."""
        n, C = len(codes), len(np.unique(codes))
        if self.in_time:
            later = [split for split in _later_rows(n) if len(np.unique(codes[split[0]])) == C]
            if later and len(np.unique(codes[later[0][1][0] :])) == C:
                return later
        if decides:
            from sklearn.model_selection import StratifiedKFold  # noqa: PLC0415 - slow to import

            folds = min(_folds(n), int(np.unique(codes, return_counts=True)[1].min()))
            return list(StratifiedKFold(folds, shuffle=True, random_state=self.seed).split(codes, codes))
        fold = np.random.default_rng(self.seed).permutation(n) % min(_folds(n), n)
        return [(np.flatnonzero(fold != j), np.flatnonzero(fold == j)) for j in range(fold.max() + 1)]

    def _aligned(self, given: Any) -> Floats:
        """Probabilities of the model's own classes as probabilities (n, C) of all classes, checked."""
        columns = (
            codes_of(self.classes, self.model_.classes_)
            if hasattr(self.model_, "classes_")
            else np.arange(len(self.classes))
        )
        p = np.asarray(given, dtype=np.float64)
        if p.ndim != 2 or p.shape[1] != len(columns):
            raise ValueError(f"predict_proba must return a column for each of {len(columns)} classes, not {p.shape}")
        if not np.isfinite(p).all():
            row = _first(~np.isfinite(p))
            raise RowError("predict_proba must return finite numbers, but row {row} has others", row)
        total = p.sum(axis=1)
        if (p < NEGATIVE).any() or (np.abs(total - 1.0) > OFF).any():
            row = _first((p < NEGATIVE) | (np.abs(total - 1.0) > OFF)[:, None])
            found = f"{p[row]} with sum {total[row]:g}"
            raise RowError(f"predict_proba must return probabilities with sum one, but row {{row}} is {found}", row)
        out = np.zeros((len(p), len(self.classes)))
        out[:, columns] = np.maximum(p, 0.0) / total[:, None]
        return out


def _positive(
    X: Any, codes: Indices, weight: Any, params: dict[str, Any]
) -> tuple[Any, Indices, Floats | None, dict[str, Any]]:
    """The rows of positive weight, unless there is none."""
    if weight is None:
        return X, codes, None, params
    weight = np.asarray(weight, dtype=np.float64)
    rows = np.flatnonzero(weight > 0.0)
    if len(rows) in (0, len(codes)):
        return X, codes, weight if len(rows) else None, params
    return _part(X, codes, weight, params, rows)


def _part(
    X: Any, codes: Indices, weight: Floats | None, params: dict[str, Any], rows: Indices
) -> tuple[Any, Indices, Floats | None, dict[str, Any]]:
    """Some of the rows of what a fit is given."""
    part = _check_method_params(X, params, indices=rows)
    return _safe_indexing(X, rows), codes[rows], None if weight is None else weight[rows], part


def _folds(n: int) -> int:
    """The number of folds for a calibration on n rows."""
    return FOLDS if n < MANY_ROWS else FEW_FOLDS


def _later_rows(n: int) -> list[tuple[Indices, Indices]]:
    """Splits of n rows in the order of time: each block but the first is held out, and those before it are known."""
    ends = np.linspace(0, n, _folds(n) + 2).astype(np.intp)
    return [(np.arange(a), np.arange(a, b)) for a, b in pairwise(ends) if 0 < a < b]


def _first(where: NDArray[np.bool_]) -> int:
    """The first row of (n, C) that has an entry."""
    return int(where.any(axis=1).argmax())
