"""A classifier without probabilities as an expert: its decisions or labels, which held-out rows then calibrate."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _check_method_params, _num_samples

from gatewise.arrays import Floats, Indices
from gatewise.experts.decisions import decisions

SMOOTHING = 1.0  # rows' worth of class frequencies that are added to every line of a confusion matrix


class UncalibratedExpert(BaseEstimator):  # type: ignore[misc]
    """Answers (n, C) of a classifier: its decisions for every class, or 1 for the class of its label and else 0.

    It is fitted to the rows of the classes ``learned`` alone. Where these are of one class, there is no fit, and all
    answers are 0.

    Parameters
    ----------
    classifier : classifier
    classes : array (C,)
        All labels, in ascending order.
    learned : array
        The numbers of the classes that it may learn; it answers 0 for the others.
    decides : bool
        Whether it answers with decisions.
    """

    model_: Any
    known_: Indices

    def __init__(self, classifier: Any, classes: NDArray[Any], learned: Indices, decides: bool) -> None:
        self.classifier = classifier
        self.classes = classes
        self.learned = learned
        self.decides = decides

    def fit(self, X: Any, y: Any, calibration_weight: Any = None, **params: Any) -> Self:
        """Fit to rows X and the numbers y (n,) of their classes; ``params`` go to the classifier's ``fit``.

        Classes without a row of positive ``calibration_weight`` (n,) are left out.
        """
        codes = np.asarray(y).astype(np.intp)
        self.model_, self.known_ = None, np.intersect1d(classes_of(codes, calibration_weight), self.learned)
        if len(self.known_) < 2:
            return self
        rows = np.flatnonzero(np.isin(codes, self.known_))
        if len(rows) < len(codes):
            params = _check_method_params(X, params, indices=rows)
            X, codes = _safe_indexing(X, rows), codes[rows]
        self.model_ = clone(self.classifier).fit(X, self.classes[codes], **params)
        return self

    def predict(self, X: Any) -> Floats:
        """The answers, (n, C)."""
        n = _num_samples(X)
        answers = np.zeros((n, len(self.classes)))
        if self.model_ is None:
            return answers
        if self.decides:
            answers[:, self.known_] = decisions(self.model_, X, len(self.known_))
        else:
            answers[np.arange(n), codes_of(self.classes, self.model_.predict(X))] = 1.0
        return answers


def classes_of(codes: Indices, weight: Any) -> Indices:
    """The numbers of the classes that have a row of positive weight, in ascending order.

    >>> classes_of(np.array([2, 0, 2, 1]), np.array([1.0, 1.0, 0.0, 0.0]))
    array([0, 2])
    """
    return np.unique(codes if weight is None else codes[np.asarray(weight) > 0.0])


def codes_of(classes: NDArray[Any], labels: Any) -> Indices:
    """The numbers of labels (n,) among the classes (C,); an error for one that is not a class."""
    labels = np.asarray(labels)
    found = np.minimum(np.searchsorted(classes, labels), len(classes) - 1)
    strange = np.flatnonzero(classes[found] != labels)
    if len(strange):
        raise ValueError(f"predict gave the label {labels[strange].tolist()[0]!r}, which is not among the classes")
    return np.asarray(found)


def fit_confusion(answers: Floats, codes: Indices, weight: Floats | None) -> Floats:
    """The smoothed confusion matrix (C, C) of held-out rows, a line for each label that an expert may give.

        p(c | label k) = (N_kc + SMOOTHING q_c) / (N_k + SMOOTHING),

    where N_kc is the sum of the weights of rows of class c that were given the label k, in units of the mean weight,
    and q are the class frequencies, in the same weights: Dirichlet smoothing. ``answers`` (n, C) are 1 for the class
    of the label and else 0, ``codes`` (n,) the classes; a row without an answer counts in q alone.

    >>> labels = np.eye(2)[[0, 0, 0, 1]]
    >>> fit_confusion(labels, np.array([0, 0, 1, 1]), np.ones(4))
    array([[0.625, 0.375],
           [0.25 , 0.75 ]])
    """
    n, C = answers.shape
    share = np.ones(n) if weight is None else weight / weight.mean()
    counts = answers.T @ (share[:, None] * np.eye(C)[codes])
    frequencies = (np.bincount(codes, share, C) + 0.5) / (n + 0.5 * C)
    return np.asarray((counts + SMOOTHING * frequencies) / (counts.sum(axis=1, keepdims=True) + SMOOTHING))
