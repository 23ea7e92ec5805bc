"""The default pool of classifiers: five kinds, with the encodings of the default pool of regressors."""

from typing import Any

from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from gatewise.app.models.default_pool import numeric_columns, ordinal_inputs, scaled_inputs, text_columns


def make_classifiers(X: Any) -> list[tuple[str, Any]]:
    """Names and unfitted pipelines for the columns of a data frame.

    The support vector machine has decisions only, so `MoEClassifier` calibrates it. All of them can be held by a
    model file.
    """
    numbers, text = numeric_columns(X), text_columns(X)
    forest = RandomForestClassifier(n_estimators=100, random_state=0)
    boosting = HistGradientBoostingClassifier(categorical_features=list(range(len(text))), random_state=0)
    return [
        ("logistic", make_pipeline(scaled_inputs(numbers, text), LogisticRegression(max_iter=1000))),
        ("knn", make_pipeline(scaled_inputs(numbers, text), KNeighborsClassifier(n_neighbors=10))),
        ("svm", make_pipeline(scaled_inputs(numbers, text), SVC())),
        ("forest", make_pipeline(ordinal_inputs(numbers, text, missing=-1), forest)),
        ("boosting", make_pipeline(ordinal_inputs(numbers, text), boosting)),
    ]
