"""The protocol of an expert: anything that predicts one number for every row."""

from collections.abc import Callable
from typing import Any, Protocol

from numpy.typing import ArrayLike
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted


class Predictor(Protocol):
    """Anything with scikit-learn's ``predict``."""

    def predict(self, X: Any, /) -> Any:
        """One prediction per row of X, (n,)."""
        ...


Expert = Predictor | Callable[[Any], ArrayLike]


def can_predict(expert: Expert) -> bool:
    """Whether an expert can predict now: a function always can, a scikit-learn estimator once it is fitted.

    >>> from sklearn.linear_model import Ridge
    >>> can_predict(lambda X: X[:, 0]), can_predict(Ridge()), can_predict(Ridge().fit([[0.0]], [1.0]))
    (True, False, True)
    """
    if not (hasattr(expert, "fit") and hasattr(expert, "predict")):
        return True
    try:
        check_is_fitted(expert)
    except (NotFittedError, TypeError):
        return False
    return True
