"""What a pool file may name: regressors or classifiers, with the encoding that each gets."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import (
    ElasticNet,
    HuberRegressor,
    Lasso,
    LinearRegression,
    LogisticRegression,
    Ridge,
    RidgeClassifier,
    RidgeCV,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.svm import LinearSVC, SVC, SVR
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

BOOSTING = (HistGradientBoostingRegressor, HistGradientBoostingClassifier)  # they take missing values, and categories


def class_path(model: type) -> str:
    """The path that a pool file names a model by.

    >>> class_path(Ridge)
    'sklearn.linear_model.Ridge'
    """
    package = ".".join(model.__module__.split(".")[:2])
    return f"{package}.{model.__name__}"


@dataclass(frozen=True)
class AllowedModels:
    """The models of one task: ``scaled`` ones get standardized numbers and one-hot text, ``trees`` codes of text.

    ``boosted`` names trees of other packages by their paths, with the parameters that keep them quiet and from
    writing files.
    """

    scaled: tuple[type, ...]
    trees: tuple[type, ...]
    boosted: Mapping[str, Mapping[str, Any]]

    @property
    def models(self) -> dict[str, type]:
        """The models of scikit-learn by their paths."""
        return {class_path(one): one for one in (*self.scaled, *self.trees)}


REGRESSORS = AllowedModels(
    scaled=(
        DummyRegressor,
        ElasticNet,
        HuberRegressor,
        KNeighborsRegressor,
        Lasso,
        LinearRegression,
        Ridge,
        RidgeCV,
        SVR,
    ),
    trees=(DecisionTreeRegressor, ExtraTreesRegressor, HistGradientBoostingRegressor, RandomForestRegressor),
    boosted={
        "lightgbm.LGBMRegressor": {"verbose": -1},
        "xgboost.XGBRegressor": {"verbosity": 0},
        "catboost.CatBoostRegressor": {"verbose": 0, "allow_writing_files": False},
    },
)
CLASSIFIERS = AllowedModels(
    scaled=(
        DummyClassifier,
        GaussianNB,
        KNeighborsClassifier,
        LinearSVC,
        LogisticRegression,
        RidgeClassifier,
        SVC,
    ),
    trees=(DecisionTreeClassifier, ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier),
    boosted={},
)
