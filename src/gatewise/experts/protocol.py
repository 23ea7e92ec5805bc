"""The protocol of an expert: anything that predicts one number for every row."""

from collections.abc import Callable
from typing import Any, Protocol

from numpy.typing import ArrayLike
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from gatewise.arrays import Indices


class Predictor(Protocol):
    """Anything with scikit-learn's ``predict``."""

    def predict(self, X: Any, /) -> Any:
        """One prediction per row of X, (n,)."""
        ...


Expert = Predictor | Callable[[Any], ArrayLike]


class RowError(ValueError):
    """An error about one row of those that an expert was asked for; its words have ``{row}`` for the number.

    >>> str(RowError("row {row} is bad", 3))
    'row 3 is bad'
    """

    def __init__(self, words: str, row: int) -> None:
        super().__init__(words, row)  # both, so that a process can send it
        self.words = words
        self.row = row

    def __str__(self) -> str:
        return self.words.replace("{row}", str(self.row))

    def renumbered(self, numbers: Indices) -> "RowError":
        """The same error where row i is called row ``numbers``[i], with its notes."""
        named = RowError(self.words, int(numbers[self.row]))
        for note in getattr(self, "__notes__", ()):
            named.add_note(note)
        return named


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
