"""Classifiers that give decisions and no probabilities, and the sigmoid between the two."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metaestimators import available_if

from gatewise.arrays import Floats


class GivenDecisions(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier whose inputs are the decisions (n, C) that it is asked for."""

    def fit(self, X: Floats, y: NDArray[Any], sample_weight: Floats | None = None) -> Self:  # noqa: ARG002
        """Note the classes."""
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X: Floats) -> Floats:
        """The decisions; of two classes the ones for the second, (n,)."""
        return np.asarray(X[:, 1] if len(self.classes_) == 2 else X)

    def predict(self, X: Floats) -> NDArray[Any]:
        """The label of the largest decision, (n,)."""
        return np.asarray(self.classes_[X.argmax(axis=1)])


def fit_sigmoid(decisions: Floats, labels: NDArray[Any], sample_weight: Floats | None) -> Any:
    """Scikit-learn's sigmoid from decisions (n, C) to probabilities of the labels' classes, one against the rest.

    Every class needs rows of positive weight. The answer has ``predict_proba(decisions)``.

    >>> d = np.array([-2.0, -1.0, -0.5, 0.5, 1.0, 2.0])
    >>> sigmoid = fit_sigmoid(np.column_stack([-d, d]), d > 0, np.ones(6))
    >>> bool(sigmoid.predict_proba(np.array([[-3.0, 3.0]]))[0, 1] > 0.8)
    True
    """
    from sklearn.calibration import CalibratedClassifierCV  # noqa: PLC0415 - slow to import

    everything = np.arange(len(labels))
    model = CalibratedClassifierCV(GivenDecisions(), cv=[(everything, everything)], ensemble=False)
    with config_context(enable_metadata_routing=False):
        model.fit(decisions, labels, sample_weight=sample_weight)
    return model.set_params(cv=None)  # a saved model need not hold the numbers of the rows


class SigmoidClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A fitted classifier with ``decision_function``, and a fitted sigmoid that makes probabilities of its decisions.

    Parameters
    ----------
    classifier : classifier
    sigmoid : CalibratedClassifierCV
        From `fit_sigmoid`.
    """

    def __init__(self, classifier: Any, sigmoid: Any) -> None:
        self.classifier = classifier
        self.sigmoid = sigmoid

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels, in ascending order, (C,)."""
        return np.asarray(self.sigmoid.classes_)

    def predict_proba(self, X: Any) -> Floats:
        """The probability of every class, (n, C)."""
        return np.asarray(self.sigmoid.predict_proba(decisions(self.classifier, X, len(self.classes_))))

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable label of every row, (n,)."""
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])

    @available_if(lambda self: hasattr(self.classifier, "partial_fit"))  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: Any) -> Self:
        """Update the classifier; the sigmoid stays as it is."""
        self.classifier.partial_fit(X, y)
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True


def decisions(classifier: Any, X: Any, n_classes: int) -> Floats:
    """The decisions of a fitted classifier, (n, C); of two classes minus the decision and itself."""
    found = np.asarray(classifier.decision_function(X), dtype=np.float64)
    if n_classes == 2 and found.ndim == 1:
        return np.column_stack([-found, found])
    if found.ndim != 2 or found.shape[1] != n_classes:
        raise ValueError(
            f"decision_function must return a column for each of {n_classes} classes, not shape {found.shape}; a "
            "support vector machine does with decision_function_shape='ovr'"
        )
    return found
