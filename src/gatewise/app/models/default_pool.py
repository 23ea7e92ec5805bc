"""The default pool: five experts, each a pipeline with the encoding that suits it."""

from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import RidgeCV
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.svm import SVR

from gatewise.app.models.filled_columns import FilledColumns

MOST_CATEGORIES = 64  # of a one-hot column; the rare ones beyond are one more category
MOST_CODES = 200  # of an ordinal column; boosting takes at most 255


def text_columns(X: Any) -> list[str]:
    """The columns of a data frame that hold text."""
    return [name for name in X.columns if X[name].dtype.kind not in "iufb"]


def numeric_columns(X: Any) -> list[str]:
    """The columns of a data frame that hold numbers."""
    return [name for name in X.columns if X[name].dtype.kind in "iufb"]


def scaled_inputs(numbers: list[Any], text: list[Any]) -> ColumnTransformer:
    """For models of distances and sums: imputed and standardized numbers, an indicator where some were missing,
    and text one-hot."""
    impute = SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)
    one_hot = OneHotEncoder(handle_unknown="infrequent_if_exist", max_categories=MOST_CATEGORIES, sparse_output=False)
    return ColumnTransformer([("numbers", make_pipeline(impute, StandardScaler()), numbers), ("text", one_hot, text)])


def ordinal_inputs(numbers: list[Any], text: list[Any], missing: float = np.nan) -> ColumnTransformer:
    """For trees: codes of the text columns first, then the numbers as they are; missing ones stay missing.

    Columns with hardly any number in a fit are set to 0, as `FilledColumns` says.
    """
    codes = OrdinalEncoder(
        handle_unknown="use_encoded_value",
        unknown_value=missing,
        encoded_missing_value=missing,
        max_categories=MOST_CODES,
    )
    return ColumnTransformer([("text", codes, text), ("numbers", FilledColumns(), numbers)])


def ridge() -> RidgeCV:
    return RidgeCV(alphas=np.logspace(-4, 4, 17))


def neighbours() -> KNeighborsRegressor:
    return KNeighborsRegressor(n_neighbors=10)


def support_vectors() -> TransformedTargetRegressor:
    """A support vector machine on a standardized response, as its C and epsilon are in units of the response."""
    return TransformedTargetRegressor(SVR(), transformer=StandardScaler())


def forest() -> RandomForestRegressor:
    return RandomForestRegressor(n_estimators=100, random_state=0)


def boosting(n_categorical: int = 0) -> HistGradientBoostingRegressor:
    """Histogram boosting whose first ``n_categorical`` columns are codes of categories."""
    return HistGradientBoostingRegressor(categorical_features=list(range(n_categorical)), random_state=0)


def core_experts() -> list[tuple[str, Any]]:
    """The same five without an encoding, for a matrix that `scaled_inputs` has made."""
    return [
        ("ridge", ridge()),
        ("knn", neighbours()),
        ("svm", support_vectors()),
        ("forest", forest()),
        ("boosting", boosting()),
    ]


def make_experts(X: Any) -> list[tuple[str, Any]]:
    """Names and unfitted pipelines for the columns of a data frame."""
    numbers, text = numeric_columns(X), text_columns(X)
    return [
        ("ridge", make_pipeline(scaled_inputs(numbers, text), ridge())),
        ("knn", make_pipeline(scaled_inputs(numbers, text), neighbours())),
        ("svm", make_pipeline(scaled_inputs(numbers, text), support_vectors())),
        ("forest", make_pipeline(ordinal_inputs(numbers, text, missing=-1), forest())),
        ("boosting", make_pipeline(ordinal_inputs(numbers, text), boosting(len(text)))),
    ]
