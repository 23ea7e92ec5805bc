"""Classifiers as experts that answer with probabilities."""

import numpy as np
from sklearn.neighbors import KNeighborsClassifier

from gatewise.experts.class_expert import ClassExpert


class Repeater:
    """A classifier without probabilities that repeats the labels of its rows."""

    def get_params(self, deep=True):
        return {}

    def set_params(self):
        return self

    def fit(self, X, y):
        self.near_, self.classes_ = KNeighborsClassifier(1).fit(X, y), np.unique(y)
        return self

    def predict(self, X):
        return self.near_.predict(X)

    def __sklearn_is_fitted__(self):
        return hasattr(self, "near_")


def test_labels_become_probabilities_by_rows_that_were_not_fitted_to():
    """Of labels that are pure noise the label it says tells nothing, though on its own rows it is always right."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(600, 2)), rng.integers(2, size=600)
    p = ClassExpert(Repeater(), np.array([0, 1]), 0).fit(X, y.astype(float)).predict(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert np.abs(p - 0.5).max() < 0.1
